// SPDX-License-Identifier: Apache-2.0
//
// remora_instances: writes the training steps of Jain et al. 2020, and graphs with several modes per op, as
// remora-graph JSON. Exit: 0 written, 64 bad usage.
#include <cstdint>
#include <exception>
#include <iostream>
#include <map>
#include <string>
#include <utility>

#include "benchmarks/instances/checkmate.hpp"
#include "benchmarks/instances/modes.hpp"
#include "frontends/formats/file.hpp"
#include "frontends/formats/json.hpp"
#include "frontends/generate/layered.hpp"
#include "model/error.hpp"

namespace {

constexpr int kBadUsage = 64;
constexpr const char* kUsage =
    "usage: remora_instances --network vgg16|vgg19|mobilenet|resnet50|fcn8|segnet|unet [--batch N] [--size N]\n"
    "                        [--fixed-memory none|parameters] [--modes workspace] [--seed N] [-o FILE]\n"
    "       remora_instances --layered OPS --modes workspace [--seed N] [-o FILE]\n"
    "       remora_instances --blocks N [--modes quantized|offloaded|all] [--seed N] [-o FILE]\n";

remora::Graph plain_graph(std::map<std::string, std::string>& given, std::int64_t seed) {
  using namespace remora;
  if (given.contains("--layered")) {
    return generate::generate_layered({.ops = std::stoll(given["--layered"]), .seed = seed});
  }
  instances::CheckmateOptions options{.network = given["--network"],
                                      .parameters = given["--fixed-memory"] == "parameters"};
  if (given.contains("--batch")) options.batch = std::stoll(given["--batch"]);
  if (given.contains("--size")) options.size = std::stoll(given["--size"]);
  return instances::checkmate(options);
}

remora::Graph make(std::map<std::string, std::string> given) {
  using namespace remora;
  const std::int64_t seed = given.contains("--seed") ? std::stoll(given["--seed"]) : 1;
  const auto draws = static_cast<std::uint64_t>(seed);
  const std::string modes = given["--modes"];
  if (given.contains("--blocks")) {
    const bool all = modes == "all";
    return instances::random_blocks(std::stoll(given["--blocks"]),
                                    {all || modes == "quantized", all || modes == "offloaded"}, draws);
  }
  Graph graph = plain_graph(given, seed);
  return modes == "workspace" ? instances::with_workspaces(std::move(graph), draws) : graph;
}

void write(const std::map<std::string, std::string>& given) {
  const remora::Graph graph = make(given);
  const auto print = [&](std::ostream& out) { remora::json::write_graph(out, graph); };
  if (!given.contains("-o")) return print(std::cout);
  remora::json::write_file(given.at("-o"), print);
}

}  // namespace

int main(int count, char** arguments) {
  std::map<std::string, std::string> given;
  for (int i = 1; i + 1 < count; i += 2) given[arguments[i]] = arguments[i + 1];
  for (const auto& [name, value] : given) {
    if (std::string(kUsage).find(name + " ") == std::string::npos) given.clear();
  }
  const auto graphs = given.count("--network") + given.count("--layered") + given.count("--blocks");
  if (count % 2 == 0 || graphs != 1) {
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
