// SPDX-License-Identifier: Apache-2.0
//
// Workers, their rounds, and the mix of those that take part in one.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/base/callbacks.hpp"
#include "engine/base/work.hpp"
#include "engine/bound/cover_facts.hpp"
#include "engine/search/solution.hpp"
#include "model/cp/retention_problem.hpp"
#include "model/instance.hpp"
#include "model/random.hpp"

namespace remora {

// The seam between the search's rounds and what happens in them.
//
// A round hands every worker the same incumbent and waits for all; the results are merged in the workers' order. A
// worker keeps what it has learned (sizes, seeds) to itself, so what it does depends only on the incumbents it was
// given, not on the number of threads or on who was faster.

/// Maximum time of each worker per round, so that none waits long for another: about a tenth of a second. The
/// first rounds are shorter, for easy instances.
inline constexpr Effort kRoundEffort = 12'000'000;

/// A fixed number, so that results don't depend on the thread count.
inline constexpr std::size_t kWorkersOfRound = 4;

/// Cost of propagation for a copy, in looks of the local search.
inline constexpr Effort kEffortOfCopy = 30;
/// The effort of a search node: propagation looks at every copy, faster along all slots, and of some copies along some.
inline Effort node_effort(const cp::RetentionProblem& problem) {
  const Effort copies = problem.copy_count();
  const Effort slots = problem.slot_count();
  return kEffortOfCopy * (16 + copies + slots / 64 + copies * slots / 4096);
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
  /// Facts of the covering relaxation; for the whole solve.
  const CoverFacts& cover;
  /// True when the round should end at once. Called from several threads.
  const std::function<bool()>& interrupted;
  Effort effort = kRoundEffort;
  /// Under a work limit, for the last rounds: nodes of the constraint program, which may cost little effort.
  Work work = Work::max();
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

  /// Its name in reports.
  [[nodiscard]] virtual Source source() const = 0;
  /// True if there is anything for it to do in a round; asked before each, by one thread.
  [[nodiscard]] virtual bool ready(const RoundInput& /*input*/) { return true; }
  virtual RoundResult run(const RoundInput& input) = 0;
};

// Which workers run in a round: a lottery among them, in which successful ones weigh more.
//
// Each worker has a weight, at first 1. After every round in which something got better the weight moves
// towards the worker's share in it: its improvement of the schedule, or of the bound, as a part of the round's largest.
// Nobody's weight falls below a floor: what is useless now may be needed later. Some workers may be exempt and run in
// every round: the complete search where the graph is small enough for it to end. The draw depends on the seed and what
// the rounds brought, not on time or threads.

/// The two phases of Moccasin, section 2.4: until a schedule holds the budget, and then shortening it.
enum class SearchPhase { feasibility, duration };

class Mix {
 public:
  /// The first `exempt` workers run in every round.
  Mix(std::vector<std::unique_ptr<Worker>> workers, std::size_t exempt, std::uint64_t seed);

  /// The workers of the next round, in the order in which they were given.
  [[nodiscard]] std::vector<Worker*> draw(const RoundInput& input);

  /// Gains of one worker of the round.
  struct Outcome {
    const Worker* worker = nullptr;
    double schedule = 0;
    double bound = 0;
  };
  void learn(const std::vector<Outcome>& round);

 private:
  struct Member {
    std::unique_ptr<Worker> worker;
    double weight = 1;
  };
  std::vector<Member> members_;
  std::size_t exempt_;
  Random random_;
};

}  // namespace remora
