// SPDX-License-Identifier: Apache-2.0
//
// A sweep by search: one search for each budget, in sessions, and the sweep that goes from one to the other.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "engine/ask/ask.hpp"
#include "engine/ask/outcomes.hpp"
#include "engine/base/allowance.hpp"
#include "engine/base/options.hpp"
#include "engine/groups/hierarchical.hpp"
#include "engine/search/search.hpp"
#include "model/instance.hpp"
#include "model/sequence.hpp"

namespace remora {

// The search under one budget of a sweep, in sessions: it can be left and taken up again.

class Probe {
 public:
  /// `options`: of a search; its limits are this budget's share of the sweep's. `groups` is asked when the search needs
  /// a start; it may say null for none.
  Probe(const Instance& instance, Bytes budget, const SolveOptions& options, std::function<const Groups*()> groups);
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;
  ~Probe() = default;

  [[nodiscard]] Bytes budget() const { return instance_.budget(); }
  [[nodiscard]] const Search& search() const { return search_; }
  /// The budget under which the incumbent was found.
  [[nodiscard]] Bytes found_under() const { return found_under_; }
  [[nodiscard]] bool is_decided() const { return search_.is_decided(); }
  /// Maximum gain: the incumbent's extra duration less the bound's; nothing without a schedule.
  [[nodiscard]] std::optional<Duration> gap() const;

  /// Takes the other budget's plan if it is better here; and what was proved there, if that budget is larger: a bound
  /// on the extra duration, or that there is no schedule.
  void learn(const Probe& other);

  /// Goes on with the search, beginning with the neighbours' plans made to fit. `cancel` may be null.
  void run_session(const Limits& limits, const std::atomic<bool>* cancel, std::span<const Probe* const> neighbours);

  [[nodiscard]] CurvePoint point() const;
  [[nodiscard]] Schedule schedule() const;

 private:
  void start_from_relaxation();
  void start_from_shared(const std::function<const Groups*()>& groups);
  void fit(const RecomputePlan& plan, Source source, const Deadline& deadline);

  Instance instance_;
  Search search_;
  Bytes found_under_{};
  /// End of the present session, in the search's work.
  Work end_ = Work::max();
  int sessions_ = 0;
};

/// Inputs of one sweep. The limits of the options are the allowance's.
struct SweepInput {
  const Instance& instance;
  const SolveOptions& options;
  const SweepCallbacks& callbacks;
  Allowance& allowance;
};

/// By strategies that search: takes the budgets as the choice gives them; every budget's search is left and taken up
/// again (Probe). What came of each, by budget ascending.
std::vector<Outcome> sweep_by_search(const SweepInput& input, BudgetChoice choice);

}  // namespace remora
