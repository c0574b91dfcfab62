// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "model/graph.hpp"
#include "model/modes.hpp"

namespace remora::test {

/// Up to two further modes for about half of the ops: other durations, workspaces and sizes, some leaders with
/// followers, and leaders with a mode that the follower lacks. Some modes, the graph's own among them, leave
/// inputs unread, some ops' computes weigh something against a limit, some modes have inner peaks.
std::shared_ptr<const Graph> with_random_modes(std::mt19937& random, const Graph& graph, std::int64_t largest_size = 9,
                                               std::int64_t longest_duration = 9);

/// The graph with these modes of some ops.
inline std::shared_ptr<const Graph> with_modes(Graph graph, const std::vector<std::pair<OpId, OpModes>>& modes) {
  for (const auto& [op, own] : modes) graph[op].modes = own;
  return std::make_shared<const Graph>(std::move(graph));
}

}  // namespace remora::test
