// SPDX-License-Identifier: Apache-2.0
//
// A lower bound on the extra time of any schedule of the staged form: the covering relaxation (design section 6).
//
// A gap of a tensor is the stretch strictly between two consecutive uses (or its first compute and first use) in the
// schedule without recompute. If the tensor is not resident somewhere inside a gap, its producer runs once more within
// it. At the first compute of op k, gaps over k whose sizes add up to live(k) - budget must be given up. Gaps of one
// op's outputs that overlap may share that recompute, so they are merged to one item that is paid once.
//
//     minimise  sum of cost(i) * y(i)   subject to, at every k,   sum of gain(i, k) * y(i) >= live(k) - budget
//
// The bound is the value of a feasible dual solution: events are visited by excess, each takes a fractional knapsack
// over what earlier events left of the items' costs. Every event is visited on graphs of a few thousand ops; on larger
// ones the fullest, so that the work stays within O(10^7) gaps looked at.
#pragma once

#include <vector>

#include "model/instance.hpp"
#include "model/schedule.hpp"

namespace remora {

/// The first computes strictly between two consecutive uses of a tensor: those of the ops first .. last.
struct Gap {
  Stage first = 0;
  Stage last = 0;
  Bytes size{};
};

/// Gaps of one op's outputs that may share a recompute.
struct CoverItem {
  OpId op{};
  Duration cost{};
  std::vector<Gap> gaps{};

  /// What giving up the item frees at the first compute of op k.
  [[nodiscard]] Bytes gain(Stage k) const;
};

struct CoverProblem {
  /// live(k) - budget at the first compute of each op k; at most 0 where memory holds.
  std::vector<Bytes> excess{};
  std::vector<CoverItem> items{};
  /// What all recomputes that are allowed cost together.
  Duration all_recomputes{};
};

CoverProblem covering_relaxation(const Instance& instance);

struct CoverBoundResult {
  /// No schedule of the staged form has less extra duration.
  Duration extra{};
  /// No schedule of the staged form holds the budget.
  bool infeasible = false;
  /// That event, or none if the bound exceeds what all allowed recomputes cost.
  OpId event{};
};

/// What must be resident at the first compute of op `event` in any schedule of the staged form, as a certificate:
/// tensors in a gap of theirs may be away, all others not.
Certificate cover_certificate(const Instance& instance, OpId event);

CoverBoundResult covering_bound(const CoverProblem& problem);

}  // namespace remora
