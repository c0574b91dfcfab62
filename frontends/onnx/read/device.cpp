// SPDX-License-Identifier: Apache-2.0
//
// read_device of cost.hpp.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <nlohmann/json.hpp>

#include "frontends/onnx/read/cost.hpp"
#include "model/error.hpp"

namespace remora::onnx_frontend {
namespace {

using nlohmann::json;

std::string read_text(const std::string& path) {
  if (std::filesystem::is_directory(path)) throw InputError(path, "is a folder, not a device file");
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file.is_open() || file.bad()) throw InputError(path, "cannot be read as a device file");
  return text;
}

/// The key's number, at least 0, and above 0 unless `zero_allowed`.
double read_number(const json& object, const std::string& path, const char* key, bool zero_allowed) {
  const std::string place = path + ": $." + key;
  const auto found = object.find(key);
  if (found == object.end())
    throw InputError(place, "missing; a device file has peak_flops, bandwidth, launch_overhead");
  if (!found->is_number()) throw InputError(place, std::string("is ") + found->type_name() + ", not a number");
  const double number = found->get<double>();
  if (!std::isfinite(number) || number < 0 || (!zero_allowed && number <= 0)) {
    throw InputError(place, found->dump() + " is not " + (zero_allowed ? "0 or more" : "positive"));
  }
  return number;
}

}  // namespace

Device read_device(const std::string& path) {
  const json object = json::parse(read_text(path), nullptr, /*allow_exceptions=*/false);
  if (object.is_discarded()) throw InputError(path, "not JSON; a device file is a JSON object");
  if (!object.is_object()) throw InputError(path + ": $", std::string("is ") + object.type_name() + ", not an object");
  Device device;
  device.name = path;
  if (const auto name = object.find("name"); name != object.end()) {
    if (!name->is_string())
      throw InputError(path + ": $.name", std::string("is ") + name->type_name() + ", not a string");
    device.name = name->get<std::string>();
  }
  device.peak_flops = read_number(object, path, "peak_flops", false);
  device.bandwidth = read_number(object, path, "bandwidth", false);
  device.launch_overhead = read_number(object, path, "launch_overhead", true);
  return device;
}

}  // namespace remora::onnx_frontend
