// SPDX-License-Identifier: Apache-2.0
//
// A lower bound on the extra time of any schedule of the staged form: the covering relaxation (docs/design/bounds.md).
//
// A gap of a tensor is the stretch strictly between two consecutive uses (or its first compute and first use) in the
// schedule without recompute. If the tensor is not resident somewhere inside a gap, its producer runs once more within
// it. At the first compute of op k, gaps over k whose sizes add up to live(k) - budget must be given up. Gaps of one
// op's outputs that overlap may share that recompute, so they are merged to one item that is paid once.
//
//     minimise  sum of cost(i) * y(i)   subject to, at every k,   sum of gain(i, k) * y(i) >= live(k) - budget
//               and, for every op v,    sum of y(i) over its items <= C_v - 1
//
// Three ways to a bound: the dual ascent here (microseconds), COIN-OR CBC (cover_mip.hpp), and whatever prices are at
// hand (priced_bound).
//
// The dual ascent gives the value of a feasible dual solution: events are visited by excess, each takes a fractional
// knapsack over what earlier events left of the items' costs. Every event is visited on graphs of a few thousand ops;
// on larger ones the fullest, so that the work stays within O(10^7) gaps looked at.
//
// The relaxation of the free order is weaker: where the order may change, all that is certain at op k's first compute
// is that what its ancestors computed for its descendants is resident or was recomputed. One item an op, paid once.
#pragma once

#include <algorithm>
#include <functional>
#include <span>
#include <vector>

#include "model/instance.hpp"
#include "model/schedule.hpp"
#include "model/table.hpp"

namespace remora {

/// The first computes strictly between two consecutive uses of a tensor: those of the ops first .. last.
struct Gap {
  Stage first{0};
  Stage last{0};
  Bytes size{};
};

/// Gaps of one op's outputs that may share a recompute.
struct CoverItem {
  OpId op{};
  Duration cost{};
  std::vector<Gap> gaps{};
  /// C_v - 1: at most so many of the op's items are given up. Items of one op stand together.
  int most_given_up = 1;

  /// Bytes freed by evicting the item at the first run of op k.
  [[nodiscard]] Bytes gain(Stage k) const;

  /// Calls visit(first, last) for the stretches of first computes that some gap covers, ascending and without overlap.
  template <class Visit>
  void for_each_stretch(Visit visit) const {
    Stage done{-1};
    for (const Gap& gap : gaps) {
      if (gap.last > done) visit(std::max(gap.first, done + 1), gap.last);
      done = std::max(done, gap.last);
    }
  }
};

struct CoverProblem {
  /// live(k) - budget at the first compute of each op k; at most 0 where memory holds.
  std::vector<Bytes> excess{};
  std::vector<CoverItem> items{};

  /// Calls visit(begin, end, limit) for each op's items begin .. end - 1, of which at most `limit` are given up.
  template <class Visit>
  void for_each_op(Visit visit) const {
    for (std::size_t begin = 0; begin < items.size();) {
      std::size_t end = begin + 1;
      while (end < items.size() && items[end].op == items[begin].op) ++end;
      visit(begin, end, std::min(at(items[begin].most_given_up), end - begin));
      begin = end;
    }
  }

  /// Total cost of all allowed recomputes.
  Duration all_recomputes{};
};

/// The covering problem of the instance's form. `limit_computes`: with the rows of C_v; they may be left out. Staged:
/// O(edges); free order: O(ops * (ops + edges) / 64), and no items on graphs of more than 2,000 ops.
CoverProblem covering_relaxation(const Instance& instance, bool limit_computes = true);

struct CoverBoundResult {
  /// No schedule of the form has less extra duration.
  Duration extra{};
  /// No schedule of the form holds the budget.
  bool infeasible = false;
  /// That event, or none if the bound exceeds what all allowed recomputes cost.
  OpId event{};
};

/// Certificate: the tensors that must be resident at the first run of op `event` in the staged form, even with
/// everything else evicted.
Certificate cover_certificate(const Instance& instance, const CoverProblem& problem, OpId event);

/// `interrupted`: asked between events; true ends it with what is known. May be empty.
CoverBoundResult covering_bound(const CoverProblem& problem, const std::function<bool()>& interrupted = {});

/// The covering relaxation of the free order. At op k's first compute everything is resident that k reads and writes;
/// moreover each tensor that an ancestor of k computes and some descendant of k reads (or that must be kept), unless its
/// producer runs again later. That holds in whatever order, because ancestors come before k and descendants after it. An
/// op that gives way at several events may do so with a single recompute, so it is paid once.
///
/// Graphs with more ops get no items: the bound is 0 then, and only an event that exceeds the budget anyway is seen.
inline constexpr int kMaxOpsOfFreeRelaxation = 2'000;

CoverProblem free_order_relaxation(const Instance& instance);

// Proof about a covering problem by prices, in exact arithmetic.
//
// A price p(k) >= 0 a byte at each event k turns the covering constraints into a reward: any choice of items costs at
// least
//
//     L(p) = sum of p(k) * excess(k)  +  for each op, the least sum of  cost(i) - sum over k of p(k) * gain(i, k)
//                                        over at most C_v - 1 of its items
//
// with gain(i, k) never counted beyond excess(k) (Lagrangian relaxation). Whatever the prices, that is a lower bound;
// an LP solver's dual values make it a good one, and their rounding errors do no harm: they are rounded to integers
// here, and everything is summed in 128 bits.

struct PricedBound {
  /// No choice of items that covers every excess costs less.
  Duration bound{};
  /// By item: what a choice with this item costs more than `bound` at least.
  std::vector<Duration> penalties{};
};

/// `prices`: by event, in durations a byte; negative ones count as 0. O(events * gaps across them).
PricedBound priced_bound(const CoverProblem& problem, std::span<const double> prices);

/// True if the prices prove that no choice of items covers every excess, whatever it costs: their reward for all that
/// the limits allow is below what they ask for.
bool proves_infeasible(const CoverProblem& problem, std::span<const double> prices);

/// The bound that a solver's value, in multiples of `unit`, stands for: costs are whole, so it is rounded up, after what
/// double precision (a part in 10^9) and tolerances (a thousandth) may have added is taken off. 0 for what is no number.
Duration safe_bound(double units, std::int64_t unit);

}  // namespace remora
