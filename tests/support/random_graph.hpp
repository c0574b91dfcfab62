// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <random>

#include "model/graph.hpp"
#include "model/schedule.hpp"

namespace remora::test {

struct RandomGraphOptions {
  int least_ops = 2;
  int most_ops = 6;
  /// Sizes up to this many bytes, durations too.
  std::int64_t largest_size = 9;
  std::int64_t longest_duration = 9;
  /// Of remora-graph 2: most ops take over some input's storage, and a run may allocate all its outputs anew.
  bool in_place = false;
};

/// A small random graph that uses everything the format can say: several outputs, workspace, fixed memory, graph
/// inputs, keep, never, own limits, sizes and durations of zero.
std::shared_ptr<const Graph> random_graph(std::mt19937& random, const RandomGraphOptions& options = {});

/// The graph with sizes and durations times powers of 2, which brings them near the format's limits.
std::shared_ptr<const Graph> scaled(const Graph& small, int size_shift, int duration_shift);

/// Figure 1 of Kumar et al. 2019: five ops, 4 units of memory without recompute, 3 with one.
std::shared_ptr<const Graph> figure_1();

/// Its optimum for 3 bytes, A B C D A E: A runs again because a could not stay while D runs.
Schedule figure_1_schedule();

/// A training-like chain: `layers` forward ops, then as many backward ops that read forward outputs in reverse.
std::shared_ptr<const Graph> training_chain(int layers, std::int64_t size = 4, std::int64_t duration = 3);

}  // namespace remora::test
