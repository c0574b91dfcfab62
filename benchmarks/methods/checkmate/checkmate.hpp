// SPDX-License-Identifier: Apache-2.0
//
// Two-phase rounding (Jain et al. 2020, section 5): from a fractional solution of the relaxation to plans.
//
//     S  each S(k,t) becomes 1 where it is above a threshold, or with its value as the probability
//     R  the fewest recomputes that this S needs: in each stage what is retained from it without having been retained
//        into it, and then, from the last op to the first, the inputs of what is computed that were not retained
//
// Memory is not looked at; which plan holds the budget is seen afterwards. The paper takes the threshold 0.5 or one
// random draw on a budget lowered by a tenth; here all thresholds of a grid and many draws are tried, on the budget
// itself first.
//
// Where an op runs too often, its tensors are retained between two of its computes, the closest first: that only takes
// recomputes away.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "benchmarks/methods/checkmate/program.hpp"
#include "engine/base/method.hpp"
#include "model/random.hpp"
#include "model/sequence.hpp"

namespace remora::checkmate {

class Rounding {
 public:
  /// `values`: by column. All must outlive the rounding.
  Rounding(const Instance& instance, const Columns& columns, const std::vector<double>& values);

  /// Tensors retained with a value of at least `threshold` are. O(stages * (tensors + edges)) for each time that ops
  /// are
  /// found beyond their limits, hardly ever more than a few.
  RecomputePlan deterministic(double threshold);
  RecomputePlan randomized(Random& random);

 private:
  void round(const std::function<bool(double)>& is_one);
  [[nodiscard]] bool retained(Stage stage, TensorId tensor) const;
  /// The fewest recomputes for what is retained, sorted.
  [[nodiscard]] RecomputePlan complete() const;
  void complete_stage(Stage stage, RecomputePlan& plan) const;
  RecomputePlan complete_within_limits();
  /// Retains outputs of the ops that `plan` computes too often; false if there are none.
  bool repair(const RecomputePlan& plan);
  /// Retains the op's outputs over the `count` shortest stretches between its computes. `again`: its recomputes'
  /// stages.
  void retain_closest(OpId op, const std::vector<Stage>& again, std::size_t count);

  const Instance& instance_;
  const Columns& columns_;
  const std::vector<double>& values_;
  /// By column: S, rounded.
  std::vector<bool> retained_;
};

/// The plan of an integer solution.
RecomputePlan plan_of_values(const Instance& instance, const Columns& columns, const std::vector<double>& values);

}  // namespace remora::checkmate

namespace remora {

// Checkmate (Jain et al. 2020) as two methods: its mixed integer program solved by CBC (`checkmate`), and its linear
// relaxation with two-phase rounding (`checkmate-lp`).
//
// The program is that of the paper, on the problem that our other strategies solve (program.hpp says where it differs),
// so that the optima are the same. No start, no cuts and no bounds of ours: this is the baseline.

/// CBC's best solution. Its bound is for the input order; with the free order there is none. O(ops^2 + ops * edges)
/// columns: programs that CBC could not even begin with are refused, and the note says so. What CBC calls infeasible is
/// noted, not claimed. Work: nodes.
MethodResult run_checkmate(const MethodInput& input);

/// The best of many roundings; where none holds the budget, of roundings of relaxations with lower budgets, while there
/// is time. The bound is that of the first relaxation. Work: iterations of the simplex algorithm.
MethodResult run_checkmate_lp(const MethodInput& input);

}  // namespace remora
