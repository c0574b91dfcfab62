// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "engine/order/order_problem.hpp"

namespace remora {

struct PeakBoundSettings {
  /// A bound this high is enough.
  Bytes enough = Bytes::max();
  /// Nodes looked at and nodes in the networks that are cut, summed; 0 for no limit.
  std::int64_t work_limit = 0;
  /// Asked before each cut; may be empty.
  std::function<bool()> interrupted{};
};

struct PeakBound {
  /// No order's peak is lower.
  Bytes bytes{};
  std::int64_t work = 0;
};

/// For each node, the least that can be resident when it starts: its ancestors have run, its descendants have not, and
/// the others as serves best (engine/order/least_resident.hpp). The largest of it, with what the node itself needs, is
/// a bound. Nodes are asked in the order of their memory in `known`, any valid order, largest first; those whose memory
/// there is within the bound already cannot raise it. So the bound is at most the known order's peak. Stopped early it
/// is lower, but still a bound; never below what the largest node needs for itself.
PeakBound peak_bound(const OrderProblem& problem, std::span<const NodeId> known, const PeakBoundSettings& settings);

/// What a node needs for itself: base memory, what it reads, what it writes and its workspace; of the largest.
Bytes largest_footprint(const OrderProblem& problem);

}  // namespace remora
