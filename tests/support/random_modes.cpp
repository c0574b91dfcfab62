// SPDX-License-Identifier: Apache-2.0
#include "tests/support/random_modes.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace remora::test {
namespace {

std::int64_t amount(std::mt19937& random, std::int64_t largest) {
  if (largest < static_cast<std::int64_t>(std::mt19937::max()))
    return static_cast<std::int64_t>(random() % (largest + 1));
  const std::uint64_t wide = std::uint64_t{random()} << 32U | random();
  return static_cast<std::int64_t>(wide % static_cast<std::uint64_t>(largest + 1));
}

Mode random_mode(std::mt19937& random, const Op& op, std::int64_t largest_size, std::int64_t longest_duration) {
  Mode mode{.duration = Duration(amount(random, longest_duration)),
            .workspace = Bytes(random() % 3 == 0 ? amount(random, largest_size) / 3 : 0)};
  for (std::size_t i = 0; i < op.outputs.size(); ++i) mode.output_sizes.emplace_back(amount(random, largest_size));
  return mode;
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

/// Mostly nothing, else about half of the op's inputs; something of the leader's stays read.
std::vector<TensorId> random_unread(std::mt19937& random, const Graph& graph, const Op& op, OpId leader) {
  std::vector<TensorId> result;
  if (random() % 4 != 0) return result;
  for (const TensorId t : op.inputs) {
    if (random() % 2 == 0) result.push_back(t);
  }
  if (!leader.valid()) return result;
  const auto& led = graph.ops[leader].outputs;
  const bool served = std::any_of(op.inputs.begin(), op.inputs.end(), [&](TensorId t) {
    return std::find(led.begin(), led.end(), t) != led.end() &&
           std::find(result.begin(), result.end(), t) == result.end();
  });
  return served ? result : std::vector<TensorId>{};
}

/// Mostly none; what is freed is read.
std::vector<InnerPeak> random_inner(std::mt19937& random, const Op& op, const std::vector<TensorId>& unread,
                                    std::int64_t largest_size) {
  std::vector<InnerPeak> result;
  if (random() % 4 != 0) return result;
  const auto peaks = 1 + random() % 3;
  for (std::size_t i = 0; i < peaks; ++i) {
    InnerPeak peak{.workspace = Bytes(amount(random, largest_size) - largest_size / 3)};
    const auto contains = [](const std::vector<TensorId>& tensors, TensorId t) {
      return std::find(tensors.begin(), tensors.end(), t) != tensors.end();
    };
    for (const TensorId t : op.inputs) {
      const bool twice =
          std::any_of(peak.freed.begin(), peak.freed.end(), [&](const FreedInput& freed) { return freed.tensor == t; });
      if (random() % 2 == 0 && !contains(unread, t) && !twice) peak.freed.emplace_back(t);
    }
    result.push_back(std::move(peak));
  }
  return result;
}

/// Sometimes, weights of up to 3 and a limit that at least the lightest mode keeps.
void limit_computes(std::mt19937& random, OpModes& entry) {
  if (random() % 3 != 0) return;
  entry.computes = 1 + static_cast<int>(random() % 3);
  int lightest = entry.computes;
  for (auto& mode : entry.further) {
    if (!mode) continue;
    mode->computes = 1 + static_cast<int>(random() % 3);
    lightest = std::min(lightest, mode->computes);
  }
  entry.most_computes = lightest + static_cast<int>(random() % 5);
}

}  // namespace

std::shared_ptr<const Graph> with_random_modes(std::mt19937& random, const Graph& graph, std::int64_t largest_size,
                                               std::int64_t longest_duration) {
  auto result = std::make_shared<Graph>(graph);
  std::vector<std::size_t> further(graph.ops.size(), 0);
  for (std::size_t v = 0; v < graph.ops.size(); ++v) {
    OpModes entry;
    const auto leaders = producers_of(graph, graph.ops[v]);
    if (!leaders.empty() && random() % 3 == 0) {
      entry.follows = leaders[random() % leaders.size()];
      further[v] = further[static_cast<std::size_t>(std::int32_t{entry.follows})];
    } else if (random() % 2 == 0) {
      further[v] = 1 + random() % 2;
    }
    for (std::size_t o = 0; o < further[v]; ++o) {
      entry.further.emplace_back();
      if (entry.follows.valid() && random() % 3 == 0) continue;
      entry.further.back() = random_mode(random, graph.ops[v], largest_size, longest_duration);
      entry.further.back()->unread = random_unread(random, graph, graph.ops[v], entry.follows);
      entry.further.back()->inner = random_inner(random, graph.ops[v], entry.further.back()->unread, largest_size);
    }
    entry.unread = random_unread(random, graph, graph.ops[v], entry.follows);
    entry.inner = random_inner(random, graph.ops[v], entry.unread, largest_size);
    limit_computes(random, entry);
    if (!entry.further.empty() || entry.follows.valid() || !entry.unread.empty() || !entry.inner.empty() ||
        entry.most_computes != kNoMostComputes)
      result->ops[v].modes = std::move(entry);
  }
  return result;
}

}  // namespace remora::test
