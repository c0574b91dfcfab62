// SPDX-License-Identifier: Apache-2.0
#include "frontends/machine/machine_json.hpp"

#include <cmath>

#include <nlohmann/json.hpp>

#include "model/error.hpp"

namespace remora {
namespace {

using json::amount;
using json::Document;
using json::Node;
using json::strings;

/// `read` applied to the text's root; what it throws names the place.
template <class Read>
auto from_text(std::string_view text, const std::string& place, const Read& read) {
  try {
    const Document document = json::parse(text);
    const Node root(document);
    root.expect_object();
    return read(root);
  } catch (const InputError& error) {
    throw InputError(place, error.what());
  }
}

double checked(const Node& node, bool zero_allowed) {
  const double number = node.number();
  if (!std::isfinite(number) || number < 0 || (!zero_allowed && number <= 0))
    node.fail(std::string("must be ") + (zero_allowed ? "0 or more" : "positive"));
  return number;
}

/// The key's number, at least 0, and above 0 unless `zero_allowed`.
double number_at(const Node& root, std::string_view key, bool zero_allowed = false) {
  if (!root.has(key)) {
    throw InputError(
        root.path() + "." + std::string(key),
        "missing; a device file has rates with fp32, bandwidth and launch; a link file bandwidth, latency");
  }
  const Node found = root.at(key);
  return checked(found, zero_allowed);
}

/// The table of numbers under the key; empty without one.
std::map<std::string, double, std::less<>> numbers_at(const Node& root, std::string_view key) {
  std::map<std::string, double, std::less<>> numbers;
  if (!root.has(key)) return numbers;
  const Node table = root.at(key);
  table.expect_object();
  for (const auto& [name, number] : table.numbers()) {
    const Node entry = table.at(name);
    numbers.emplace(name, checked(entry, false));
  }
  return numbers;
}

std::string string_at(const Node& root, std::string_view key) {
  return root.has(key) ? root.at(key).string() : "";
}

double optional_at(const Node& root, std::string_view key) {
  return root.has(key) ? number_at(root, key, true) : 0;
}

Machine machine_of(const Node& row, const std::string& place) {
  Machine machine;
  machine.name = row.has("name") ? string_at(row, "name") : place;
  if (!row.has("rates")) static_cast<void>(number_at(row, "rates"));
  const Node rates = row.at("rates");
  static_cast<void>(number_at(rates, "fp32"));
  machine.rates = numbers_at(row, "rates");
  machine.efficiency = numbers_at(row, "efficiency");
  if (row.has("multiprocessors"))
    machine.multiprocessors = static_cast<int>(row.at("multiprocessors").integer(1, 1 << 20));
  machine.bandwidth = number_at(row, "bandwidth");
  machine.launch_overhead = optional_at(row, "launch");
  machine.power = optional_at(row, "power");
  machine.host = optional_at(row, "host");
  if (row.has("memory")) machine.memory = Bytes(row.at("memory").integer(1));
  machine.context = amount<Bytes>(row, "context");
  machine.workspaces = amount<Bytes>(row, "workspaces");
  if (row.has("range")) {
    const Node range = row.at("range");
    range.expect_array();
    if (range.size() != 2) range.fail("must have two numbers");
    for (std::size_t i = 0; i < 2; ++i) {
      const Node bound = range.element(i);
      machine.range.at(i) = checked(bound, false);
    }
  }
  machine.fitted = string_at(row, "fitted");
  machine.source = string_at(row, "source");
  if (row.has("kind")) machine.kind = string_at(row, "kind");
  machine.aliases = strings(row, "aliases");
  return machine;
}

LinkModel link_of(const Node& root) {
  LinkModel link{.name = string_at(root, "name")};
  link.bandwidth = link.bandwidth_back = number_at(root, "bandwidth");
  link.latency = number_at(root, "latency", true);
  if (root.has("bandwidth_back")) link.bandwidth_back = number_at(root, "bandwidth_back");
  link.power = optional_at(root, "power");
  link.aliases = strings(root, "aliases");
  return link;
}

}  // namespace

extern const std::string_view kMachines;

Machine read_machine(std::string_view text, const std::string& place) {
  return from_text(text, place, [&](const Node& root) { return machine_of(root, place); });
}

LinkModel read_link(std::string_view text, const std::string& place) {
  return from_text(text, place, link_of);
}

const std::vector<Machine>& known_machines() {
  static const std::vector<Machine> machines = from_text(kMachines, "devices.json", [](const Node& root) {
    json::expect_format(root, "remora-devices");
    // A device takes what it leaves out from "common".
    Document rows = root.at("devices").value();
    for (Document& row : rows) {
      Document with = root.at("common").value();
      with.update(row);
      row = std::move(with);
    }
    const Node table(rows);
    std::vector<Machine> read;
    for (std::size_t i = 0; i < table.size(); ++i) read.push_back(machine_of(table.element(i), "devices.json"));
    return read;
  });
  return machines;
}

const std::vector<LinkModel>& known_links() {
  static const std::vector<LinkModel> links = from_text(kMachines, "devices.json", [](const Node& root) {
    const Node table = root.at("links");
    std::vector<LinkModel> read;
    for (std::size_t i = 0; i < table.size(); ++i) read.push_back(link_of(table.element(i)));
    return read;
  });
  return links;
}

Document machine_document(const Machine& machine, bool with_power) {
  Document document = {{"name", machine.name},
                       {"rates", {{"fp32", machine.rates.at("fp32")}}},
                       {"bandwidth", machine.bandwidth},
                       {"launch", machine.launch_overhead}};
  if (with_power) document["power"] = machine.power;
  return document;
}

}  // namespace remora
