// SPDX-License-Identifier: Apache-2.0
#include "frontends/machine/machine_json.hpp"

#include <cmath>

#include <nlohmann/json.hpp>

#include "model/error.hpp"

namespace remora {
namespace {

using json::Document;
using json::Node;

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
    throw InputError(root.path() + "." + std::string(key),
                     "missing; a device file has peak_flops, bandwidth, launch_overhead, or what measure_device of "
                     "remora.torch writes; a link file bandwidth, latency");
  }
  const Node found = root.at(key);
  return checked(found, zero_allowed);
}

std::map<std::string, double, std::less<>> numbers_at(const Node& root, std::string_view key) {
  const Node table = root.at(key);
  table.expect_object();
  std::map<std::string, double, std::less<>> numbers;
  for (const auto& [name, number] : table.numbers()) {
    const Node entry = table.at(name);
    numbers.emplace(name, checked(entry, false));
  }
  return numbers;
}

std::string string_at(const Node& root, std::string_view key) {
  return root.at(key).string();
}

Bytes bytes_at(const Node& root, std::string_view key) {
  return Bytes(root.at(key).integer());
}

Machine machine_of(const Node& row) {
  Machine machine;
  machine.name = string_at(row, "name");
  machine.rates = numbers_at(row, "rates");
  machine.efficiency = numbers_at(row, "efficiency");
  const Node rates = row.at("rates");
  machine.rate = number_at(rates, "fp32");
  const Node efficiency = row.at("efficiency");
  for (const char* name : {"product", "product-fp32", "convolution", "attention", "memory"}) {
    if (!efficiency.has(name)) efficiency.fail(std::string("has no \"") + name + "\"");
  }
  machine.multiprocessors = static_cast<int>(row.at("multiprocessors").integer(1, 1 << 20));
  machine.bandwidth = number_at(row, "bandwidth");
  machine.launch_overhead = number_at(row, "launch");
  machine.host = number_at(row, "host", true);
  machine.memory = Bytes(row.at("memory").integer(1));
  machine.context = bytes_at(row, "context");
  machine.workspaces = bytes_at(row, "workspaces");
  const Node range = row.at("range");
  range.expect_array();
  if (range.size() != 2) range.fail("must have two numbers");
  for (std::size_t i = 0; i < 2; ++i) {
    const Node bound = range.element(i);
    machine.range.at(i) = checked(bound, false);
  }
  machine.fitted = string_at(row, "fitted");
  if (row.has("source")) machine.source = string_at(row, "source");
  if (row.has("kind")) machine.kind = string_at(row, "kind");
  if (row.has("aliases")) {
    const Node aliases = row.at("aliases");
    aliases.expect_array();
    for (std::size_t i = 0; i < aliases.size(); ++i) machine.aliases.push_back(aliases.element(i).string());
  }
  return machine;
}

}  // namespace

extern const std::string_view kMachines;

Machine read_machine(std::string_view text, const std::string& place) {
  return from_text(text, place, [&](const Node& root) {
    if (root.has("rates")) return machine_of(root);
    Machine machine;
    machine.name = root.has("name") ? string_at(root, "name") : place;
    machine.rate = number_at(root, "peak_flops");
    machine.bandwidth = number_at(root, "bandwidth");
    machine.launch_overhead = number_at(root, "launch_overhead", true);
    if (root.has("power")) machine.power = number_at(root, "power", true);
    return machine;
  });
}

Machine read_measured_machine(std::string_view text, const std::string& place) {
  return from_text(text, place, [](const Node& root) {
    if (!root.has("rates"))
      throw InputError(root.path() + ".rates", "missing; measure_device of remora.torch writes it");
    return machine_of(root);
  });
}

LinkModel read_link(std::string_view text, const std::string& place) {
  return from_text(text, place, [](const Node& root) {
    LinkModel link;
    link.bandwidth = link.bandwidth_back = number_at(root, "bandwidth");
    link.latency = number_at(root, "latency", true);
    if (root.has("bandwidth_back")) link.bandwidth_back = number_at(root, "bandwidth_back");
    if (root.has("power")) link.power = number_at(root, "power", true);
    return link;
  });
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
    for (std::size_t i = 0; i < table.size(); ++i) read.push_back(machine_of(table.element(i)));
    return read;
  });
  return machines;
}

Document machine_document(const Machine& machine, bool with_power) {
  Document document = {{"name", machine.name},
                       {"peak_flops", machine.rate},
                       {"bandwidth", machine.bandwidth},
                       {"launch_overhead", machine.launch_overhead}};
  if (with_power) document["power"] = machine.power;
  return document;
}

}  // namespace remora
