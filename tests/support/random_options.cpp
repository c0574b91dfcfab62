// SPDX-License-Identifier: Apache-2.0
#include "tests/support/random_options.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace remora::test {
namespace {

constexpr std::int64_t kLargest = 9;

ComputeOption random_option(std::mt19937& random, const Op& op) {
  const auto amount = [&] { return static_cast<std::int64_t>(random() % (kLargest + 1)); };
  ComputeOption option{.duration = Duration(amount()), .workspace = Bytes(random() % 3 == 0 ? amount() / 3 : 0)};
  for (std::size_t i = 0; i < op.outputs.size(); ++i) option.output_sizes.emplace_back(amount());
  return option;
}

/// The producers of the op's inputs, each once.
std::vector<OpId> producers_of(const Graph& graph, const Op& op) {
  std::vector<OpId> result;
  for (std::size_t v = 0; v < graph.ops.size(); ++v) {
    const auto& outputs = graph.ops[v].outputs;
    const bool read = std::any_of(op.inputs.begin(), op.inputs.end(), [&](TensorId t) {
      return std::find(outputs.begin(), outputs.end(), t) != outputs.end();
    });
    if (read) result.emplace_back(v);
  }
  return result;
}

}  // namespace

std::shared_ptr<const ComputeOptions> random_options(std::mt19937& random, const Graph& graph) {
  ComputeOptions result;
  std::vector<std::size_t> further(graph.ops.size(), 0);
  for (std::size_t v = 0; v < graph.ops.size(); ++v) {
    OpOptions entry{.op = OpId(v)};
    const auto leaders = producers_of(graph, graph.ops[v]);
    if (!leaders.empty() && random() % 3 == 0) {
      entry.follows = leaders[random() % leaders.size()];
      further[v] = further[static_cast<std::size_t>(std::int32_t{entry.follows})];
    } else if (random() % 2 == 0) {
      further[v] = 1 + random() % 2;
    }
    for (std::size_t o = 0; o < further[v]; ++o) {
      const bool lacks = entry.follows.valid() && random() % 3 == 0;
      entry.further.push_back(lacks ? std::nullopt : std::optional(random_option(random, graph.ops[v])));
    }
    if (!entry.further.empty() || entry.follows.valid()) result.push_back(std::move(entry));
  }
  return std::make_shared<const ComputeOptions>(std::move(result));
}

}  // namespace remora::test
