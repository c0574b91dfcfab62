// SPDX-License-Identifier: Apache-2.0
//
// A proof by periods, lazily made finer (docs/design/bounds.md):
//
//     few periods -> linear program: an exact bound, and what its reduced costs rule out below the cutoff
//                 -> many choices left: a cutoff halfway between bound and cutoff or lower, until nothing is found below it
//                 -> probing: the same with one recompute more; where that rules out much, the linear program again
//                 -> integer program below the cutoff: none is left, so that the cutoff is the optimum;
//                    or its cheapest solution, as a plan: replayed, it holds the budget and is optimal,
//                    or it says where: that stage ends a period, or that recompute gets a row of its own
//                 -> again
//
// Choices that a coarse period rules out stay out in the finer ones. Every step is interruptible. After the last one
// the
// relaxation is the problem itself, so that the proof ends; in practice when the time does.
//
// Steps (Next), and their successors:
//
//              +------ a lower cutoff rules out much -------+
//              |                                             |
//              v         little is ruled out, or             |
//     +--> [relax] ------- nothing is proved ------------> [aim] ----- none, or little is ruled out -----+
//     |        |                                             |                                           v
//     |        +-- much is ruled out: again                  |                                        [whole]
//     |                                                      |                                           |
//     +------------- finer periods pay, probing rules out much, or the integer program has ended --------+
//
// aim looks for a lower cutoff, and where there is none goes on as whole in the same step.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "engine/base/options.hpp"
#include "engine/bound/cover_facts.hpp"
#include "engine/bound/periods/period_program.hpp"
#include "engine/bound/periods/period_solver.hpp"
#include "model/cp/retention_problem.hpp"
#include "model/instance.hpp"
#include "model/sequence.hpp"

namespace remora {

/// Results of steps of a proof.
struct ProofUpdate {
  /// No schedule has less extra duration, or none below the cutoff that was given.
  Duration bound{};
  /// The part of it that whole numbers alone prove; the rest is CBC's word.
  Duration exact_bound{};
  /// Proved in whole numbers: no schedule holds the budget.
  bool infeasible = false;
  /// A plan that may or may not hold the budget.
  std::optional<RecomputePlan> plan{};
  /// The same where ops have several modes.
  std::vector<std::vector<Compute>> sequences{};
  /// Recomputes near to the linear program's solution, or to an integer program's where that breaks.
  std::optional<RoundedSolution> rounded{};
  /// Choices of no schedule with less extra duration than `bans_below`.
  std::vector<cp::StageBan> bans{};
  Duration bans_below{};
  /// Who solved an integer program, if one was solved.
  IntegerSolver solved_by = IntegerSolver::off;
  /// Nothing is left to do below this cutoff, or nothing that this proof can do.
  bool finished = false;
};

struct ProofLimits {
  /// The incumbent's extra duration; what costs less is looked for. Never more than in the step before.
  Duration cutoff = Duration::max();
  /// Seconds of clock() for an integer program; one that does not end in that time doubles them.
  double seconds = 1e9;
  /// With more recomputes left to decide there is no integer program.
  int choices = 8'000;
  /// With more of them, schedules halfway between bound and cutoff are looked for first, or nearer to the bound where else twice as
  /// many would be left.
  int few_choices = 1'000;
  IntegerSolver mip = IntegerSolver::highs;
  Interrupted interrupted{};
  /// Given under a work limit, where `interrupted` says the same after the same steps on every machine: whether the
  /// proof is to end at once all the same.
  Interrupted stopped{};
  /// Asked during an integer program: true ends it, since its cutoff could be much lower. May be empty.
  std::function<bool(const ProofLimits& limits, Duration bound)> outdated{};

  /// Seconds that the calling thread has used: of the CPU or, under a work limit, counted ones.
  [[nodiscard]] double clock() const { return stopped ? counted_seconds_of_thread() : cpu_seconds_of_thread(); }
  [[nodiscard]] bool is_interrupted() const { return interrupted && interrupted(); }
  [[nodiscard]] bool is_outdated(Duration bound) const { return outdated && outdated(*this, bound); }
  /// True if the running solver is to end.
  [[nodiscard]] bool is_over(Duration bound) const { return is_outdated(bound) || is_interrupted(); }
};

class PeriodProof {
 public:
  /// The instance is of the staged form, has one mode an op, and outlives the proof.
  explicit PeriodProof(const Instance& instance);

  /// True if its programs are of a size that can be built, and read within the seconds: the graph's ops read few
  /// enough tensors.
  static bool is_within_reach(const Instance& instance, double seconds);

  /// One linear program or, where that has left a small enough one, one integer program.
  ProofUpdate step(const ProofLimits& limits);

 private:
  enum class Next : std::uint8_t {
    relax,  ///< the linear program: of finer periods where that is solved already, else of today's
    aim,    ///< a lower cutoff; without one as whole
    whole,  ///< finer periods, probing, the integer program
  };

  /// Periods made finer where what the linear program comes near to takes too much (sharpen):
  ///
  ///     untried --more checkpoints pay--> on --it pays no more--> paused --a plan breaks--> on
  enum class Sharpening : std::uint8_t { untried, on, paused };

  /// A linear program, with the rows that it was given, and its answer.
  struct Solved {
    explicit Solved(PeriodProgram made) : periods(std::move(made)), program(periods.take_program()) {}

    PeriodProgram periods;
    Program program;
    LinearAnswer answer{};
  };

  [[nodiscard]] PeriodProgram program(const Interrupted& interrupted) const;
  [[nodiscard]] bool has_target() const { return target_ != Duration::max(); }
  /// Sets a target, or a lower one: below it much more is out. The next step is for that. False if there is none.
  bool aim(const ProofLimits& limits);
  /// Nothing costs less than the target.
  void miss(ProofUpdate& update);
  /// Proved in whole numbers.
  void raise(Duration exact, ProofUpdate& update);
  /// The same for a linear program: a first schedule rules out so much that it begins again.
  [[nodiscard]] bool is_over(const ProofLimits& limits) const;
  ProofUpdate relax(const ProofLimits& limits);
  /// A lower cutoff if it `aims` and there is one, or finer periods, probing, or the integer program.
  ProofUpdate solve_whole(const ProofLimits& limits, bool aims);
  /// These columns, by column, those that are out already included. How many recomputes are left to decide.
  int rule_out(std::vector<bool> columns);
  int rule_out(const ProgramBound& bound, Duration cutoff);
  /// Enough for the linear program to be solved again.
  static bool are_many(int ruled_out, int choices);
  bool probe_whole(const ProofLimits& limits, ProofUpdate& update);
  [[nodiscard]] std::vector<std::vector<int>> groups(bool by_op, const ProgramBound& bound) const;
  [[nodiscard]] std::vector<cp::StageBan> bans() const;
  void grow_time_factor(const ProofLimits& limits, ProofUpdate& update);
  void use(const IntegerAnswer& answer, const ProofLimits& limits, ProofUpdate& update);
  [[nodiscard]] bool refine(const RecomputePlan& plan, std::size_t most);
  bool split(const ProofLimits& limits, ProofUpdate& update);
  bool sharpen(const ProofLimits& limits, ProofUpdate& update);
  bool try_finer(const ProofLimits& limits, ProofUpdate& update);
  bool refine_rounded();
  void end_period(Stage stage);

  const Instance& instance_;
  std::vector<Bytes> live_;
  std::set<Stage> ends_;
  std::set<RecomputeEvent> events_;
  /// By op and stage: what is out in every schedule that costs less than cutoffs given so far.
  RuledOut out_;
  /// A cost below the cutoff; schedules that cost less are looked for first. While there is one, `out_` is what is out below it,
  /// and this what is out below the cutoff.
  Duration target_ = Duration::max();
  RuledOut out_below_cutoff_{};
  int segments_ = 1;
  Next next_ = Next::relax;
  Sharpening sharpening_ = Sharpening::untried;
  /// Times the seconds that were given.
  double time_factor_ = 1;
  /// The periods whose linear program was solved last; that, with the rows that it was given; the recomputes left to decide.
  std::optional<PeriodProgram> periods_{};
  Program program_{};
  LinearAnswer linear_{};
  Duration linear_bound_{};
  int choices_ = 0;
  /// That of the next step, where it has been solved to see whether it pays.
  std::optional<Solved> finer_{};
  /// Recomputes near to the linear program's solution.
  RecomputePlan rounded_{};
  int refinements_ = 0;
  Duration bound_{};
  Duration exact_bound_{};
};

}  // namespace remora
