// SPDX-License-Identifier: Apache-2.0
//
// What a written schedule does to memory, step by step, by the rules of remora-schedule 1.
//
//     steps  A B C(-a) D(-b,-c) A E(-a,-d)      a: [0,2] [4,5]   b: [1,3]   c: [2,3]   d: [3,5]   e: [5,5] to the end
//     memory 1 2 3     3        2 3             (unit sizes: figure 1 of Kumar et al. 2019)
#pragma once

#include <span>
#include <vector>

#include "model/graph.hpp"
#include "model/schedule.hpp"
#include "model/types.hpp"

namespace remora::report {

/// One stay of a tensor in memory, in steps, both ends included. A recompute over a still resident tensor does not
/// begin another. Inputs of the graph, which are always there, have none.
struct Residence {
  TensorId tensor{};
  int first_step = 0;
  int last_step = 0;
  /// Still resident when the schedule has ended.
  bool to_the_end = false;

  friend bool operator==(const Residence&, const Residence&) = default;
};

struct Replay {
  /// The op of every step.
  std::vector<OpId> ops{};
  /// Of every step, whether its op has run before.
  std::vector<bool> again{};
  /// At every step: base memory, what is resident, and the workspace.
  std::vector<Bytes> memory{};
  /// By first step.
  std::vector<Residence> residences{};
  /// Fixed memory and the graph's inputs.
  Bytes base{};
  /// The largest memory; base where there is no step.
  Bytes peak{};
  /// The first step that reaches it, or -1.
  int peak_step = -1;
  Duration duration{};
};

/// The steps must be such that `verify` finds no fault but perhaps with the budget. O(steps, their outputs, releases).
Replay replay(const Graph& graph, std::span<const Step> steps);

/// The stays that cover `step`, as numbers into `residences`, largest tensor first. O(residences).
std::vector<std::size_t> residents(const Graph& graph, const Replay& replay, int step);

}  // namespace remora::report
