// SPDX-License-Identifier: Apache-2.0
//
// A proof by periods, lazily made finer (docs/bounds.md):
//
//     few periods -> linear program: an exact bound, and what its reduced costs rule out below the ceiling
//                 -> integer program below the ceiling: none is left, so that the ceiling is the optimum;
//                    or its cheapest solution, as a plan: replayed, it holds the budget and is optimal,
//                    or it says where: that stage ends a period, or that recompute gets a row of its own
//                 -> again
//
// What a coarse period rules out stays out in the finer ones. Every step is interruptible. After the last one the
// relaxation is the problem itself, so that the proof ends; in practice when the time does.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "engine/bound/periods/period_program.hpp"
#include "engine/bound/periods/period_solver.hpp"
#include "model/cp/retention_problem.hpp"
#include "model/instance.hpp"
#include "model/sequence.hpp"

namespace remora {

/// What steps of a proof have found.
struct ProofNews {
  /// No schedule has less extra duration, or none below the ceiling that was given.
  Duration bound{};
  /// The part of it that whole numbers alone prove; the rest is CBC's word.
  Duration exact_bound{};
  /// Proved in whole numbers: no schedule holds the budget.
  bool infeasible = false;
  /// A plan that may or may not hold the budget.
  std::optional<RecomputePlan> plan{};
  /// What no schedule of less extra duration than `bans_below` does.
  std::vector<cp::StageBan> bans{};
  Duration bans_below{};
  /// Nothing is left to do below this ceiling, or nothing that this proof can do.
  bool finished = false;
};

struct ProofLimits {
  /// The incumbent's extra duration; what costs less is looked for.
  Duration ceiling = Duration::max();
  /// Of one integer program.
  double seconds = 1e9;
  std::int64_t nodes = 1'000'000;
  /// With more recomputes left to decide there is no integer program.
  int choices = 8'000;
  Interrupted interrupted{};
};

class PeriodProof {
 public:
  /// The instance is of the staged form, has one mode an op, and outlives the proof.
  explicit PeriodProof(const Instance& instance);

  /// One linear program and, where it is small enough, one integer program.
  ProofNews step(const ProofLimits& limits);

 private:
  [[nodiscard]] PeriodProgram program() const;
  void rule_out(PeriodProgram& program, const ProgramBound& bound, Duration ceiling, ProofNews& news);
  void use(const IntegerAnswer& answer, const PeriodProgram& program, const ProofLimits& limits, ProofNews& news);
  [[nodiscard]] bool refine(const RecomputePlan& plan);
  bool split(const ProofLimits& limits);
  void end_period(Stage stage);

  const Instance& instance_;
  std::vector<Bytes> live_;
  std::set<Stage> ends_;
  std::set<RecomputeEvent> events_;
  /// By op and stage: what is out in every schedule that costs less than ceilings given so far.
  Table<OpId, std::vector<bool>> out_;
  int segments_;
  double patience_;
  Duration bound_{};
  Duration exact_bound_{};
};

}  // namespace remora
