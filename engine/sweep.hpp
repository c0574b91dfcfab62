// SPDX-License-Identifier: Apache-2.0
//
// Many budgets of one graph: the curve of memory against time, for little more than a solve or two.
//
//     const Instance instance(graph, {});
//     const SweepResult result = sweep(instance, SolveOptions{}, {.points = 20});
//
// Every budget has a search of its own (probe.hpp), which is left and taken up again: first all budgets from the
// largest down, so that each starts from its neighbour's schedule with a little more to save; then up and down again,
// until the time is over or everything is proved. What one learns the others get at once: a schedule serves every
// larger budget, and is a start for the smaller ones; a bound holds for every smaller one. What does not depend on
// the budget is found once: the options of groups (engine/hierarchy).
#pragma once

#include <atomic>
#include <functional>
#include <vector>

#include "engine/base/block_store.hpp"
#include "engine/base/options.hpp"
#include "model/api.hpp"
#include "model/curve.hpp"
#include "model/instance.hpp"
#include "model/schedule.hpp"

namespace remora {

struct SweepOptions {
  /// In any order, each at most once; empty: chosen by recursive bisection (budget_choice.hpp).
  std::vector<Bytes> budgets{};
  /// Bisection: budgets at most.
  int points = 20;
  /// Bisection: budgets are not chosen closer than this part of the range between the least budget and the input
  /// order's peak.
  double resolution = 0.005;
};

/// What a sweep knows after one sitting.
struct SweepProgress {
  double seconds = 0;
  /// Of the sitting that is over.
  Bytes budget{};
  Status status = Status::unknown;
  Duration duration{};
  Bytes peak{};
  Duration lower_bound{};
  /// Budgets so far, and those among them for which nothing is left to search.
  int points = 0;
  int settled = 0;
};

struct SweepCallbacks {
  /// After every sitting, from the thread that called sweep(). May be empty.
  std::function<void(const SweepProgress&)> progress{};
  /// Set to true from anywhere to end with what is known. May be null.
  const std::atomic<bool>* cancel = nullptr;
  /// As in SolveCallbacks.
  BlockStore* blocks = nullptr;
};

struct SweepResult {
  Curve curve{};
  /// By point of the curve: the best schedule within its budget, or what is known where there is none. Each is as
  /// solve() would give it; its solver report tells of the sittings at its own budget.
  std::vector<Schedule> schedules{};
};

/// The time limit and the work limit of the options are of the whole sweep; with the latter the same seed gives the
/// same curve. The instance's own budget does not matter. Strategies that do not search solve each budget for itself.
///
/// Throws InputError for what solve() refuses, for a budget given twice, and for options out of range.
REMORA_API SweepResult sweep(const Instance& instance, const SolveOptions& options, const SweepOptions& sweep_options,
                             const SweepCallbacks& callbacks = {});

}  // namespace remora
