// SPDX-License-Identifier: Apache-2.0
//
// The seam between the search's rounds and what happens in them.
//
// A round hands every worker the same incumbent and waits for all; the results are merged in the workers' order. A
// worker keeps what it has learned (sizes, seeds) to itself, so what it does depends only on the incumbents it was
// given, not on the number of threads or on who was faster.
#pragma once

#include <functional>
#include <optional>

#include "engine/base/callbacks.hpp"
#include "engine/base/work.hpp"
#include "engine/bound/cover_facts.hpp"
#include "engine/search/solution.hpp"
#include "model/cp/retention_problem.hpp"
#include "model/instance.hpp"

namespace remora {

/// What a round may take of each worker at most, so that none waits long for another: about a tenth of a second. The
/// first rounds are shorter, for easy instances.
inline constexpr Effort kRoundEffort = 12'000'000;

/// What propagation does for a copy takes as long as so many looks of the local search.
inline constexpr Effort kEffortOfCopy = 30;
/// The effort of a search node: propagation looks at every copy and, faster, along all slots.
inline Effort node_effort(const cp::RetentionProblem& problem) {
  return kEffortOfCopy * (16 + problem.copy_count() + problem.slot_count() / 64);
}
/// Posting a problem passes over all events.
inline Effort posting_effort(const cp::RetentionProblem& problem) {
  return kEffortOfCopy * (1 + problem.slot_count() / 2);
}
/// A step of the local search counts at least as much, though there may be nothing to look at.
inline constexpr Effort kLocalStepEffort = 20;

struct RoundInput {
  const Instance& instance;
  const Solution& incumbent;
  /// Proved: no schedule within the budget has less extra duration.
  Duration lower_bound{};
  /// What the covering relaxation says; for the whole solve.
  const CoverFacts& cover;
  /// True when the round should end at once. Called from several threads.
  const std::function<bool()>& interrupted;
  Effort effort = kRoundEffort;
};

struct RoundResult {
  /// Better than the incumbent, if set.
  std::optional<Solution> solution{};
  /// A bound on the extra duration that this worker proved in the round; Duration(0) says nothing.
  Duration lower_bound{};
  /// Proved: there is no schedule within the budget.
  bool infeasible = false;
  Work work{};
};

/// Between rounds a worker may keep the instance and the cover facts of its input, which are the same in every round,
/// but nothing else of it.
class Worker {
 public:
  Worker() = default;
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  virtual ~Worker() = default;

  /// What it is called where its news is told.
  [[nodiscard]] virtual Source source() const = 0;
  /// Whether there is anything for it to do in a round; asked before each, by one thread.
  [[nodiscard]] virtual bool ready(const RoundInput& /*input*/) { return true; }
  virtual RoundResult run(const RoundInput& input) = 0;
};

}  // namespace remora
