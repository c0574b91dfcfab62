// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <random>

#include "model/graph.hpp"
#include "model/modes.hpp"

namespace remora::test {

/// Up to two further modes for about half of the ops: other durations, workspaces and sizes, some leaders with
/// followers, and leaders with a mode that the follower lacks. Some modes, the graph's own among them, leave
/// inputs unread, some ops' computes weigh something against a limit, some modes have inner peaks.
std::shared_ptr<const Modes> random_modes(std::mt19937& random, const Graph& graph, std::int64_t largest_size = 9,
                                          std::int64_t longest_duration = 9);

}  // namespace remora::test
