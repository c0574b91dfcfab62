// SPDX-License-Identifier: Apache-2.0
//
// What a sweep over budgets is asked for, what it tells on the way, and what it answers.
#pragma once

#include <atomic>
#include <functional>
#include <vector>

#include "engine/base/callbacks.hpp"
#include "model/curve.hpp"
#include "model/schedule.hpp"
#include "model/types.hpp"

namespace remora {

struct SweepOptions {
  /// In any order, each at most once; empty: chosen by recursive bisection.
  std::vector<Bytes> budgets{};
  /// Bisection: budgets at most.
  int points = 20;
  /// Bisection: budgets are not chosen closer than this part of the range between the least budget and the input
  /// order's peak.
  double resolution = 0.005;
};

/// What a sweep knows after one sitting: a stretch of search under one budget.
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

}  // namespace remora
