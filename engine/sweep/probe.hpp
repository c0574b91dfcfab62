// SPDX-License-Identifier: Apache-2.0
//
// The search under one budget of a sweep, in sittings: it can be left and taken up again.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "engine/deadline.hpp"
#include "engine/hierarchy/groups.hpp"
#include "engine/options.hpp"
#include "engine/search/rounds.hpp"
#include "engine/search/solution.hpp"
#include "model/curve.hpp"
#include "model/instance.hpp"
#include "model/recompute_plan.hpp"
#include "model/schedule.hpp"

namespace remora {

/// What one sitting may take.
struct SittingLimits {
  /// Wall-clock time.
  double seconds = 0;
  /// Units of work; 0 for no limit.
  std::int64_t work = 0;
  /// May be null.
  const std::atomic<bool>* cancel = nullptr;
};

class Probe {
 public:
  /// `options`: of a search; its limits are this budget's share of the sweep's.
  Probe(const Instance& instance, Bytes budget, const SolveOptions& options);

  [[nodiscard]] Bytes budget() const { return instance_.budget(); }
  [[nodiscard]] const SearchState& state() const { return state_; }
  [[nodiscard]] bool holds_budget() const { return state_.incumbent.peak <= instance_.budget(); }
  [[nodiscard]] bool settled() const;
  /// What there is to gain at most: the incumbent's extra duration less the bound's; nothing without a schedule.
  [[nodiscard]] std::optional<Duration> gap() const;
  /// Units of work of all sittings.
  [[nodiscard]] std::int64_t work() const { return state_.work; }

  /// A plan found under another budget; taken if it is better here.
  void offer(const Solution& solution, Bytes found_under);
  /// The same of a plan that is first made to fit.
  void adapt_from(const Probe& other, const SittingLimits& limits);
  /// What was proved for a larger budget: a bound on the extra duration, or that there is no schedule.
  void inherit(const Probe& larger);

  /// Goes on with the search. `groups`: null if the search does not start from any.
  void sit(const SittingLimits& limits, const Groups* groups);

  [[nodiscard]] CurvePoint point() const;
  [[nodiscard]] Schedule schedule() const;

 private:
  void begin(const Deadline& deadline, const Groups* groups);
  void adapt_plan(const RecomputePlan& plan, Bytes found_under, const Deadline& deadline);

  Instance instance_;
  SolveOptions options_;
  SearchState state_;
  Schedule description_;
  Bytes found_under_{};
  double seconds_ = 0;
  int sittings_ = 0;
};

}  // namespace remora
