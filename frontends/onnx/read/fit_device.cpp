// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/read/fit_device.hpp"

#include <array>
#include <cmath>
#include <cstddef>
#include <string_view>

#include "frontends/formats/document.hpp"
#include "frontends/formats/file.hpp"
#include "model/error.hpp"

namespace remora::onnx_frontend {
namespace {

using json::Document;

double positive(const json::Node& node) {
  const double number = node.number();
  if (!std::isfinite(number) || number <= 0) node.fail("must be positive");
  return number;
}

/// The rate for numbers of this type; a device that has none for it computes as in fp32.
double rate(const json::Node& rates, std::string_view type) {
  return positive(rates.has(type) ? rates.at(type) : rates.at("fp32"));
}

/// By OpClass. `wide`: of fp32, for which cuDNN's convolutions take tf32 and nothing else does.
Rates rates_of(const json::Node& rates, const json::Node& efficiency, bool wide) {
  const auto reached = [&](std::string_view type, std::string_view name) {
    return rate(rates, type) * positive(efficiency.at(name));
  };
  const char* const type = wide ? "fp32" : rates.has("bf16") ? "bf16" : "fp16";
  return {reached(type, wide ? "product-fp32" : "product"), reached(wide ? "tf32" : type, "convolution"),
          reached(type, "attention"), reached(type, "product")};
}

Bytes bytes_of(const json::Node& node) {
  return Bytes(node.integer());
}

FitDevice device_of(const json::Node& row) {
  FitDevice device;
  device.roofline.name = row.at("name").string();
  const json::Node rates = row.at("rates");
  const json::Node efficiency = row.at("efficiency");
  rates.expect_object();
  efficiency.expect_object();
  device.roofline.peak_flops = positive(rates.at("fp32"));
  device.roofline.rates = {rates_of(rates, efficiency, false), rates_of(rates, efficiency, true)};
  device.roofline.multiprocessors = static_cast<int>(row.at("multiprocessors").integer(1, 1 << 20));
  const json::Node memory_share = efficiency.at("memory");
  const json::Node bandwidth = row.at("bandwidth");
  device.roofline.bandwidth = positive(bandwidth) * positive(memory_share);
  const json::Node launch = row.at("launch");
  const json::Node host = row.at("host");
  device.roofline.launch_overhead = positive(launch);
  device.host = host.number();
  device.memory = bytes_of(row.at("memory"));
  device.context = bytes_of(row.at("context"));
  device.workspaces = bytes_of(row.at("workspaces"));
  const json::Node range = row.at("range");
  range.expect_array();
  if (range.size() != 2) range.fail("must have two numbers");
  const json::Node least = range.element(0);
  const json::Node most = range.element(1);
  device.least_ratio = positive(least);
  device.most_ratio = positive(most);
  device.fitted = row.at("fitted").string();
  if (row.has("kind")) device.is_cpu = row.at("kind").string() == "cpu";
  if (row.has("aliases")) {
    const json::Node aliases = row.at("aliases");
    aliases.expect_array();
    for (std::size_t i = 0; i < aliases.size(); ++i) device.aliases.push_back(aliases.element(i).string());
  }
  return device;
}

/// `read` applied to the file's text; what it throws names the file.
template <class Read>
auto from_file(const std::string& path, const Read& read) {
  try {
    return read(json::parse(json::read_file(path)));
  } catch (const InputError& error) {
    const std::string_view text = error.what();
    if (text.starts_with(path)) throw;
    throw InputError(path, error.what());
  }
}

}  // namespace

std::vector<FitDevice> read_fit_devices(const std::string& path) {
  return from_file(path, [](const Document& document) {
    const json::Node root(document);
    json::expect_format(root, "remora-devices");
    const json::Node rows = root.at("devices");
    rows.expect_array();
    root.at("common").expect_object();
    Document whole = document;
    for (Document& row : whole["devices"]) {
      if (!row.is_object()) continue;
      Document with = document["common"];
      with.update(row);
      row = std::move(with);
    }
    const json::Node filled(whole);
    const json::Node filled_rows = filled.at("devices");
    std::vector<FitDevice> devices;
    for (std::size_t i = 0; i < filled_rows.size(); ++i) devices.push_back(device_of(filled_rows.element(i)));
    return devices;
  });
}

FitDevice read_fit_device(const std::string& path) {
  return from_file(path, [](const Document& document) { return device_of(json::Node(document)); });
}

}  // namespace remora::onnx_frontend
