// SPDX-License-Identifier: Apache-2.0
//
// Workers that use the relaxations for more than their bounds.
//
// BendersWorker: logic-based Benders decomposition (Hooker and Ottosson 2003): the covering relaxation proposes, the
// constraint program disposes.
//
// The master problem is the covering relaxation with cuts, solved by CBC: it says which items to give up at least
// cost. The subproblem is the retention model in which nothing else is given up, so that few stages are left, below
// the incumbent's cost. A schedule found is a better incumbent. If there is none, every better schedule gives up
// something else: that is a cut. Cuts are made stronger by letting more items be given up as long as the search still
// proves quickly that it does not help. The master's bound, or the incumbent's cost if that is less, bounds every
// schedule.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "engine/base/options.hpp"
#include "engine/bound/cover_mip.hpp"
#include "engine/search/local/local_search.hpp"
#include "engine/search/worker.hpp"
#include "model/cp/solve_retention.hpp"
#include "model/random.hpp"

namespace remora {

class BendersWorker : public Worker {
 public:
  BendersWorker(const SolveOptions& options, std::uint64_t seed);

  [[nodiscard]] Source source() const override { return Source::benders; }
  [[nodiscard]] bool ready(const RoundInput& input) override;
  RoundResult run(const RoundInput& input) override;

 private:
  /// One master solve and its subproblem. Returns the effort spent, or 0 if nothing more can be done.
  Effort iterate(const RoundInput& input, Solution& incumbent, RoundResult& result);
  /// Searches below the incumbent's cost with only the allowed items given up, for a share of a round and `most` nodes.
  cp::SearchOutcome search_within(const RoundInput& input, const Solution& incumbent, const std::vector<bool>& allowed,
                                  double share, Work most, Effort& effort);
  void widen(const RoundInput& input, const Solution& incumbent, std::vector<bool>& allowed, Effort& effort,
             RoundResult& result);

  cp::Inferences inferences_;
  Random random_;
  std::vector<CoverCut> cuts_;
  /// A subproblem's part of a round.
  double share_;
  /// Rounds to sit out after a subproblem that was too hard, this time and next time.
  int rest_ = 0;
  int next_rest_ = 1;
  bool exhausted_ = false;
};

// RoundingWorker: makes schedules of what the period relaxation's linear program comes near to. Its plans are repaired
// where they exceed the budget, and what is not needed then is taken out; each some times, since both draw at random.
// While there is no schedule, it begins before the relaxation with the incumbent's plan, and a repair that is too long for
// one round goes on in the next.

class RoundingWorker : public Worker {
 public:
  explicit RoundingWorker(std::uint64_t seed) : random_(seed) {}

  [[nodiscard]] Source source() const override { return Source::periods; }
  /// For every solution, so many repairs.
  [[nodiscard]] bool ready(const RoundInput& input) override;
  RoundResult run(const RoundInput& input) override;

 private:
  std::span<const RecomputePlan> plans(const RoundInput& input);

  Random random_;
  std::optional<PlanMoves> moves_;
  /// The incumbent's, of the first round.
  std::vector<RecomputePlan> begin_;
  bool is_unfinished_ = false;
  /// Number of the present solution, and of its repairs.
  int rounding_ = 0;
  std::size_t repairs_ = 0;
};

}  // namespace remora
