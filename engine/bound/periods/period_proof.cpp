// SPDX-License-Identifier: Apache-2.0
#include "engine/bound/periods/period_proof.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "engine/bound/highs.hpp"
#include "engine/bound/periods/replay.hpp"
#include "model/evaluate.hpp"

namespace remora {
namespace {

/// On training graphs one checkpoint gives nearly the bound of many, on other graphs a few do.
constexpr int kFewSegments = 8;
constexpr int kMaxPeriodSegments = 32;
/// A program with more periods is left out where it would have more columns: it takes minutes.
constexpr int kMaxColumns = 150'000;
/// Places that are mended at once where a replay breaks of what the linear program comes near to, and of a plan of the integer one.
constexpr std::size_t kMendedOfLinear = 4;
constexpr std::size_t kMendedOfInteger = 2;
/// With more rows the integer program does not end, and probing takes too long: finer periods come first. With more choices it
/// is not even begun.
constexpr std::size_t kMaxRows = 20'000;
constexpr std::size_t kMaxRowsOfHighs = 30'000;
constexpr int kMaxChoices = 40'000;
/// The maximum number of reads (an op's distinct inputs, over all ops): some ten million coefficients. With 5.2 million
/// reads Clp ran out of memory, after minutes in which it could not be stopped.
constexpr std::size_t kMaxReads = 400'000;
/// Clp's presolve takes so long per read, and cannot be stopped; up to so many seconds do not matter.
constexpr double kSecondsPerRead = 1e-5;
constexpr double kLeastSeconds = 0.02;
constexpr double kTimeFactorGrowth = 2;
constexpr double kMaxTimeFactor = 1e6;
/// So often periods are made finer by what the linear program comes near to, where the integer one is too large.
constexpr int kMaxRefinements = 60;

/// More periods must close this part of the gap between bound and cutoff; without a cutoff, raise the bound by it.
constexpr std::int64_t kMinGain = 20;

RoundedSolution rounded(const PeriodProgram& program, std::span<const double> solution) {
  RoundedSolution result{.undecided = program.undecided(solution)};
  for (const double least : kMinParts) {
    RecomputePlan plan = program.plan(solution, least);
    const auto same = std::find(result.plans.begin(), result.plans.end(), plan);
    if (same == result.plans.end()) result.plans.push_back(std::move(plan));
  }
  return result;
}

/// Stages whose live memory is above the budget and locally largest: the highest in each of so many equal parts.
std::set<Stage> peaks(const Instance& instance, const std::vector<Bytes>& live, int parts) {
  const std::size_t count = live.size();
  std::vector<Stage> highest(at(parts), Stage{-1});
  for (std::size_t k = 0; k < count; ++k) {
    const bool rises = k == 0 || live[k - 1] < live[k];
    const bool falls = k + 1 == count || live[k + 1] <= live[k];
    if (!rises || !falls || live[k] <= instance.budget()) continue;
    Stage& best = highest[k * at(parts) / count];
    if (best < 0 || live[at(best)] < live[k]) best = Stage(k);
  }
  std::set<Stage> found(highest.begin(), highest.end());
  found.erase(Stage{-1});
  return found;
}

}  // namespace

PeriodProof::PeriodProof(const Instance& instance)
    : instance_(instance),
      live_(evaluate(instance, input_order(instance)).memory),
      ends_(peaks(instance, live_, 1)),
      out_(instance.op_count()) {
  // Tensors to keep may be recomputed after the last first run.
  if (stages_of(instance) > instance.op_count()) end_period(Stage{instance.op_count() - 1});
}

void PeriodProof::end_period(Stage stage) {
  if (stage >= 0 && stage + 1 < stages_of(instance_)) ends_.insert(stage);
}

bool PeriodProof::is_within_reach(const Instance& instance, double seconds) {
  std::size_t reads = 0;
  for (const OpId op : instance.ops()) reads += instance.inputs(op).size();
  return reads <= kMaxReads && static_cast<double>(reads) * kSecondsPerRead <= std::max(seconds, kLeastSeconds);
}

PeriodProgram PeriodProof::program(const Interrupted& interrupted) const {
  return {instance_, Periods(stages_of(instance_), ends_), events_, out_, interrupted};
}

ProofUpdate PeriodProof::step(const ProofLimits& given) {
  // Exclusions below the target hold below a cutoff that has decreased to it.
  if (given.cutoff <= target_) target_ = Duration::max();
  ProofLimits limits = given;
  limits.cutoff = std::min(given.cutoff, target_);
  const Next now = std::exchange(next_, Next::relax);
  ProofUpdate update = now == Next::relax ? relax(limits) : solve_whole(limits, now == Next::aim);
  if (!has_target()) return update;
  // Exclusions below the target alone are of no use to the search.
  update.bans_below = Duration(0);
  if (update.bound >= target_) miss(update);
  return update;
}

ProofUpdate PeriodProof::relax(const ProofLimits& limits) {
  ProofUpdate update{.bound = bound_, .exact_bound = exact_bound_};
  std::optional<Solved> solved = std::exchange(finer_, std::nullopt);
  if (!solved) {
    solved.emplace(program(limits.interrupted));
    solved->answer = solve_linear(solved->program, limits.interrupted);
  }
  periods_.emplace(std::move(solved->periods));
  program_ = std::move(solved->program);
  choices_ = 0;
  periods_->for_each_recompute([&](OpId, int, int) { ++choices_; });
  linear_ = std::move(solved->answer);
  const LinearAnswer& linear = linear_;
  if (linear.outcome == LinearAnswer::Outcome::no_solution) {
    const bool proved = !linear.prices.empty() && proves_no_solution(program_, linear.prices);
    // Where columns are out, it is only proved below the cutoff.
    if (proved && limits.cutoff == Duration::max()) update.infeasible = true;
    if (proved && limits.cutoff != Duration::max()) update.bound = update.exact_bound = limits.cutoff;
    update.finished = proved;
    // Clp does not always say why: then the integer program is to say so.
    if (!proved) next_ = Next::aim;
    return update;
  }
  update.finished = linear.outcome != LinearAnswer::Outcome::optimal;
  if (update.finished) return update;
  update.rounded = rounded(*periods_, linear.solution);
  rounded_ = update.rounded->plans.front();
  const ProgramBound bound = program_bound(program_, linear.prices);
  linear_bound_ = bound.bound;
  raise(std::min(limits.cutoff, bound.bound), update);
  update.finished = bound_ >= limits.cutoff;
  if (update.finished) return update;
  const int before = choices_;
  if (limits.cutoff != Duration::max()) {
    choices_ = rule_out(bound, limits.cutoff);
    update.bans = bans();
    update.bans_below = limits.cutoff;
  }
  // Without those that are out it says more.
  const bool pays = choices_ <= limits.choices && are_many(before - choices_, before);
  if (!pays) next_ = Next::aim;
  return update;
}

void PeriodProof::raise(Duration exact, ProofUpdate& update) {
  update.exact_bound = exact_bound_ = std::max(exact_bound_, exact);
  update.bound = bound_ = std::max(bound_, exact_bound_);
}

bool PeriodProof::is_over(const ProofLimits& limits) const {
  return limits.cutoff == Duration::max() ? limits.is_over(bound_) : limits.is_interrupted();
}

ProofUpdate PeriodProof::solve_whole(const ProofLimits& limits, bool aims) {
  ProofUpdate update{.bound = bound_, .exact_bound = exact_bound_};
  if (segments_ < kFewSegments && split(limits, update)) sharpening_ = Sharpening::on;
  if (finer_ || (aims && aim(limits))) return update;
  if (sharpening_ == Sharpening::on && !sharpen(limits, update)) sharpening_ = Sharpening::paused;
  if (finer_) return update;
  const bool by_highs = limits.mip == IntegerSolver::highs && !find_highs().name.empty();
  if (choices_ > limits.choices || program_.rows.size() > (by_highs ? kMaxRowsOfHighs : kMaxRows)) {
    if (split(limits, update) || (by_highs ? sharpen(limits, update) : refine_rounded())) return update;
    update.finished = choices_ > kMaxChoices;
    if (update.finished) return update;
  } else if (probe_whole(limits, update)) {
    return update;
  }
  if (limits.mip == IntegerSolver::off) {
    update.finished = true;
    return update;
  }
  double end = limits.clock() + time_factor_ * limits.seconds;
  bool is_outdated = false;
  const auto is_over = [&] {
    is_outdated = is_outdated || limits.is_outdated(bound_);
    if (is_outdated || finer_ || limits.is_interrupted()) return true;
    if (limits.clock() < end) return false;
    // It goes on where more periods would say no more: begun again it would take as long.
    grow_time_factor(limits, update);
    end += time_factor_ * limits.seconds;
    return finer_.has_value();
  };
  const IntegerAnswer answer = solve_integer(
      program_, {.cutoff = limits.cutoff, .interrupted = is_over, .stopped = limits.stopped, .by_highs = by_highs});
  update.solved_by = by_highs ? IntegerSolver::highs : IntegerSolver::cbc;
  if (is_outdated && answer.solution.empty()) {
    update.bound = bound_ = std::max(bound_, std::min(limits.cutoff, answer.bound));
    return update;
  }
  use(answer, limits, update);
  return update;
}

void PeriodProof::use(const IntegerAnswer& answer, const ProofLimits& limits, ProofUpdate& update) {
  bound_ = std::max(bound_, std::min(limits.cutoff, answer.bound));
  update.bound = bound_;
  if (answer.solution.empty()) {
    // Complete: nothing costs less than the cutoff. If not, more periods may say more.
    if (answer.complete && limits.cutoff != Duration::max()) update.bound = bound_ = limits.cutoff;
    if (!answer.complete && !finer_) grow_time_factor(limits, update);
    update.finished = answer.complete;
    return;
  }
  update.plan = periods_->plan(answer.solution);
  const std::size_t before = ends_.size() + events_.size();
  const bool broken = refine(*update.plan, kMendedOfInteger);
  // Near to a schedule, and as good as the relaxation knows: worth a repair.
  if (broken && linear_.outcome == LinearAnswer::Outcome::optimal)
    update.rounded = RoundedSolution{{*update.plan}, periods_->undecided(linear_.solution)};
  if (sharpening_ == Sharpening::paused) sharpening_ = Sharpening::on;
  // As cheap as the relaxation allows, and it holds the budget; or it does not, and the relaxation cannot say why.
  const bool is_stuck = broken && ends_.size() + events_.size() == before;
  const bool is_optimal = !broken && extra_duration(instance_, *update.plan) <= bound_;
  update.finished = answer.complete && (is_stuck || is_optimal);
}

/// Makes periods finer where an integer program does not end; where they say no more, it is to end, however long that takes.
void PeriodProof::grow_time_factor(const ProofLimits& limits, ProofUpdate& update) {
  time_factor_ *= split(limits, update) ? kTimeFactorGrowth : kMaxTimeFactor;
}

/// Counts memory where the plan takes too much, at the worst places; false if it does not.
bool PeriodProof::refine(const RecomputePlan& plan, std::size_t most) {
  const Sequence sequence = sequence_of(instance_, plan);
  std::vector<Excess> found;
  add_excesses(sequence, evaluate(instance_, sequence).memory, instance_.budget(), found);
  const bool broken = !found.empty();
  found.resize(std::min(found.size(), most));
  for (const Excess& excess : found) {
    const bool is_alone = (excess.stage == 0 || ends_.contains(excess.stage - 1)) &&
                          (excess.stage + 1 == stages_of(instance_) || ends_.contains(excess.stage));
    if (!excess.is_first && is_alone) events_.insert({excess.stage, excess.op});
    end_period(excess.stage);
    if (!excess.is_first) end_period(excess.stage - 1);
  }
  return broken;
}

/// Counts memory where what the linear program comes near to takes too much. False where it does not, or was done often.
bool PeriodProof::refine_rounded() {
  if (++refinements_ > kMaxRefinements) return false;
  const int periods = periods_->periods().count();
  if (program_.columns() / periods > kMaxColumns / (periods + static_cast<int>(kMendedOfLinear))) return false;
  const std::size_t before = ends_.size() + events_.size();
  return refine(rounded_, kMendedOfLinear) && ends_.size() + events_.size() > before;
}

/// More periods at peaks, where the linear program gains by it: the integer one takes longer then. False if not.
bool PeriodProof::split(const ProofLimits& limits, ProofUpdate& update) {
  if (segments_ >= kMaxPeriodSegments) return false;
  const int before = segments_;
  segments_ = std::max(2 * segments_, kFewSegments);
  const std::set<Stage> ends = ends_;
  for (const Stage stage : peaks(instance_, live_, segments_)) end_period(stage);
  if (ends_.size() == ends.size()) return split(limits, update);
  if (try_finer(limits, update)) {
    if (sharpening_ == Sharpening::untried) sharpening_ = Sharpening::paused;
    return true;
  }
  ends_ = ends;
  // Below a much lower cutoff it is tried again.
  if (is_over(limits)) segments_ = before;
  return false;
}

/// The same, where what the linear program comes near to takes too much.
bool PeriodProof::sharpen(const ProofLimits& limits, ProofUpdate& update) {
  const std::set<Stage> ends = ends_;
  const std::set<RecomputeEvent> events = events_;
  const bool broken = refine(rounded_, kMendedOfLinear);
  if (broken && ends_.size() + events_.size() > ends.size() + events.size() && try_finer(limits, update)) return true;
  ends_ = ends;
  events_ = events;
  return false;
}

/// Solves the linear program of today's periods. True where it raises the bound enough: then it is the next step's.
bool PeriodProof::try_finer(const ProofLimits& limits, ProofUpdate& update) {
  Solved finer(program(limits.interrupted));
  if (finer.program.columns() > kMaxColumns) return false;
  finer.answer = solve_linear(finer.program, [&] { return is_over(limits); });
  bool pays = finer.answer.outcome == LinearAnswer::Outcome::no_solution;
  if (finer.answer.outcome == LinearAnswer::Outcome::optimal) {
    const Duration bound = program_bound(finer.program, finer.answer.prices).bound;
    const Duration gap = limits.cutoff == Duration::max() ? linear_bound_ : limits.cutoff - linear_bound_;
    pays = (bound - linear_bound_).count() > gap.count() / kMinGain;
    raise(std::min(limits.cutoff, bound), update);
  }
  if (pays) finer_.emplace(std::move(finer));
  return pays;
}

}  // namespace remora
