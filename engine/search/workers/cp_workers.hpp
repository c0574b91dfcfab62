// SPDX-License-Identifier: Apache-2.0
//
// The workers that post the constraint program: whole, and on neighbourhoods of the incumbent.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>

#include "engine/base/options.hpp"
#include "engine/search/neighbourhood.hpp"
#include "engine/search/worker.hpp"
#include "model/cp/retention_problem.hpp"
#include "model/cp/solve_retention.hpp"

namespace remora {

// Complete search over all ops, in passes below a rising cutoff.
//
// Without a schedule in hand nothing limits the search, and it drowns. So each pass asks only for schedules whose extra
// duration is below a cutoff just above the lower bound. A pass that exhausts its space raises the bound; one that
// finds a schedule lowers the incumbent. One that runs out of nodes is given up: without a schedule the next cutoff is
// higher, for schedules are easier to find there; with one it is lower, for a bound is easier to prove there. In the
// end the cutoff is the incumbent itself, and the pass goes on, round after round: exhausted, it proves the incumbent
// optimal.

class CompleteWorker : public Worker {
 public:
  CompleteWorker(const SolveOptions& options, std::uint64_t seed);

  [[nodiscard]] Source source() const override { return Source::complete; }
  RoundResult run(const RoundInput& input) override;

 private:
  /// One search below one cutoff; the problem must stay where the search looks at it.
  struct Pass {
    cp::RetentionProblem problem;
    cp::RetentionSearch search;
    Duration below;
    std::int64_t node_limit;
    /// Stages that were out for some op.
    std::int64_t banned;

    Pass(const RoundInput& input, Duration cutoff, std::int64_t limit, const cp::Inferences& inferences,
         const cp::SearchSettings& settings);
  };

  Effort search_on(const RoundInput& input, Effort effort, RoundResult& result);
  void begin_pass(const RoundInput& input);
  [[nodiscard]] bool begins_again(const RoundInput& input) const;
  [[nodiscard]] Duration cutoff(const RoundInput& input) const;
  void give_up_pass(bool feasible, bool unlimited);

  /// Input of the present round; null between rounds.
  const std::function<bool()>* interrupted_ = nullptr;
  cp::Inferences inferences_;
  bool learn_;
  std::uint64_t seed_;
  std::int64_t passes_ = 0;
  std::int64_t pass_nodes_;
  /// How far above the lower bound the cutoff is: without a schedule in baseline durations, with one as a part of the
  /// gap between bound and schedule.
  double width_;
  double gap_part_;
  int given_up_ = 0;
  std::unique_ptr<Pass> pass_;
};

/// The switches of the option table as the model's.
cp::Inferences inferences_of(const SolveOptions& options);

// Neighbourhoods of the constraint program: some ops of the incumbent are freed, and Gecode decides anew about them.
//
//     phase 1   PeakWorker           minimises max(peak, budget) (Moccasin, eq. 12 and 13): asks for any schedule whose
//                                    peak is below a target between the incumbent's peak and the budget, freeing ops
//                                    that compete at the steps above the target. The stride to the target is shortened
//                                    where it is too steep, and lengthened where it is easy
//     phase 2   NeighbourhoodWorker  large-neighbourhood search: asks for a cheaper schedule under the same budget, and
//                                    goes on from there. Sizes and the choice among relaxations adapt to what paid off

class PeakWorker : public Worker {
 public:
  PeakWorker(const SolveOptions& options, std::uint64_t seed);

  [[nodiscard]] Source source() const override { return Source::peak; }
  RoundResult run(const RoundInput& input) override;

 private:
  cp::Inferences inferences_;
  std::int64_t node_limit_;
  Random random_;
  /// The part of the way to the budget that a step tries to go.
  double stride_ = 0.5;
  /// Maximum cost of a step, in baseline durations: without a cutoff the search would drown.
  double margin_ = 0.005;
  double size_;
};

class NeighbourhoodWorker : public Worker {
 public:
  NeighbourhoodWorker(const SolveOptions& options, std::uint64_t seed);

  [[nodiscard]] Source source() const override { return Source::lns; }
  RoundResult run(const RoundInput& input) override;

 private:
  struct Arm {
    double size = 0;
    double weight = 1;
  };

  void learn(Arm& arm, bool improved, bool complete, int op_count) const;

  cp::Inferences inferences_;
  std::int64_t node_limit_;
  Random random_;
  std::array<Arm, kRelaxations.size()> arms_;
};

}  // namespace remora
