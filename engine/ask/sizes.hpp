// SPDX-License-Identifier: Apache-2.0
//
// A few schedules for all sizes of a network: of its sequence length, of its batch.
//
//     size      128 ........ 1760 ............ 4928 ............ 8192
//     schedule  nothing recomputed | planned at 4928 | planned at 8192
//
// The graphs of some of the sizes, which are alike but for amounts, are given. A schedule is a sequence of ops, so that
// one of one size is one of every other; it is planned for one of the larger sizes of its range, and replayed at all.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/ask/ask.hpp"
#include "model/api.hpp"
#include "model/graph.hpp"
#include "model/schedule.hpp"

namespace remora {

struct SizesRequest {
  /// The problem of every size, but for its graph; with a budget, without addresses or slices. One half of the time
  /// limit is for the largest size, the other one for all others together; the work limit is of each.
  Request request{};
  /// In rising order of size; all sizes count alike.
  std::vector<std::shared_ptr<const Graph>> graphs{};
  /// Number of schedules.
  int most = 4;
};

/// The sizes, by number, after those of the range before it up to `last`, of whose graph the schedule is.
struct SizeRange {
  std::size_t last = 0;
  Schedule schedule{};
};

struct SizesAnswer {
  /// The schedule of the largest size, or why there is none.
  Answer largest{};
  /// By size; empty where the largest size has no schedule.
  std::vector<SizeRange> ranges{};
  /// Ops of the graph; then sums over the sizes: of the durations by these schedules, of what no schedules undercut
  /// though each size had its own, and of every op once.
  std::size_t operations = 0;
  double duration = 0;
  double lower_bound = 0;
  double baseline_duration = 0;
};

/// True if one's schedules are sequences of the other, too: all is equal but names, sizes, workspaces and durations.
bool are_alike(const Graph& a, const Graph& b);

/// The schedules, at most so many, with the smallest sum of durations. `durations`: of each schedule at each size;
/// `reach`: of each schedule, how many of the sizes it holds the budget at, of one of them all. In the order of what
/// they reach. O(schedules squared * most * sizes).
std::vector<std::size_t> fewest_schedules(std::span<const std::vector<double>> durations,
                                          std::span<const std::size_t> reach, int most);

/// Throws InputError as solve() does, for graphs that are not alike, and where a smaller size needs more memory by the
/// same schedule than a larger one.
SizesAnswer solve_sizes(const SizesRequest& asked, const std::atomic<bool>* cancel = nullptr);

}  // namespace remora
