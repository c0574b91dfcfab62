// SPDX-License-Identifier: Apache-2.0
//
// remora_instances: writes the training steps of Jain et al. 2020 as remora-graph JSON. Exit: 0 written, 64 bad usage.
#include <exception>
#include <iostream>
#include <map>
#include <string>

#include "benchmarks/instances/checkmate.hpp"
#include "frontends/formats/file.hpp"
#include "frontends/formats/json.hpp"
#include "model/error.hpp"

namespace {

constexpr int kBadUsage = 64;
constexpr const char* kUsage =
    "usage: remora_instances --network vgg16|vgg19|mobilenet|resnet50|fcn8|segnet|unet [--batch N] [--size N]\n"
    "                        [--fixed-memory none|parameters] [-o FILE]\n";

void write(std::map<std::string, std::string> given) {
  remora::instances::CheckmateOptions options{.network = given["--network"],
                                              .parameters = given["--fixed-memory"] == "parameters"};
  if (given.contains("--batch")) options.batch = std::stoll(given["--batch"]);
  if (given.contains("--size")) options.size = std::stoll(given["--size"]);
  const remora::Graph graph = remora::instances::checkmate(options);
  const auto print = [&](std::ostream& out) { remora::json::write_graph(out, graph); };
  if (!given.contains("-o")) return print(std::cout);
  remora::json::write_file(given["-o"], print);
}

}  // namespace

int main(int count, char** arguments) {
  std::map<std::string, std::string> given;
  for (int i = 1; i + 1 < count; i += 2) given[arguments[i]] = arguments[i + 1];
  for (const auto& [name, value] : given) {
    if (std::string(kUsage).find(name + " ") == std::string::npos) given.clear();
  }
  if (count % 2 == 0 || !given.contains("--network")) {
    std::cerr << kUsage;
    return kBadUsage;
  }
  try {
    write(given);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "remora_instances: " << error.what() << '\n';
    return kBadUsage;
  }
}
