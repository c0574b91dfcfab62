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

/// One checkpoint says as much as many on training graphs, a few nearly as much on others (docs/design/bounds.md).
constexpr int kFewSegments = 8;
constexpr int kMostSegments = 32;
/// A program with more periods is left out where it would have more columns: it takes minutes.
constexpr int kMostColumns = 150'000;
/// Places that are mended at once where a replay breaks of what the linear program comes near to, and of a plan of the integer one.
constexpr std::size_t kMendedOfLinear = 4;
constexpr std::size_t kMendedOfInteger = 2;
/// With more rows the integer program does not end, and probing takes too long: finer periods come first. With more choices it
/// is not even begun.
constexpr std::size_t kMostRows = 20'000;
constexpr std::size_t kMostRowsOfHighs = 30'000;
constexpr int kMostChoices = 40'000;
/// Of a graph with more reads (an op's distinct inputs, over all ops) the program has some ten million coefficients: with
/// 100,000 ops and 5.2 million reads Clp's memory ran out, in minutes in which nothing could stop it.
constexpr std::size_t kMostReads = 400'000;
constexpr double kPatienceGrowth = 2;
constexpr double kMostPatience = 1e6;
/// So often periods are made finer by what the linear program comes near to, where the integer one is too large.
constexpr int kMostRefinements = 60;

/// More periods must close this part of the gap between bound and ceiling; without a ceiling, raise the bound by it.
constexpr std::int64_t kLeastGain = 20;

bool takes_more_than(Work most, const Program& program) {
  return work_of_linear(program) > most;
}

RoundedSolution rounded(const PeriodProgram& program, std::span<const double> solution) {
  RoundedSolution result{.undecided = program.undecided(solution)};
  for (const double least : kLeastParts) {
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
  // What must be kept may be recomputed after the last first compute.
  if (stages_of(instance) > instance.op_count()) end_period(Stage{instance.op_count() - 1});
}

void PeriodProof::end_period(Stage stage) {
  if (stage >= 0 && stage + 1 < stages_of(instance_)) ends_.insert(stage);
}

bool PeriodProof::is_within_reach(const Instance& instance) {
  std::size_t reads = 0;
  for (const OpId op : instance.ops()) reads += instance.inputs(op).size();
  return reads <= kMostReads;
}

PeriodProgram PeriodProof::program(const Interrupted& interrupted) const {
  return {instance_, Periods(stages_of(instance_), ends_), events_, out_, interrupted};
}

ProofNews PeriodProof::step(const ProofLimits& given) {
  // What is out below the target is out below a ceiling that has come down to it.
  if (given.ceiling <= target_) target_ = Duration::max();
  ProofLimits limits = given;
  limits.ceiling = std::min(given.ceiling, target_);
  const Next now = std::exchange(next_, Next::relax);
  ProofNews news = now == Next::relax ? relax(limits) : solve_whole(limits, now == Next::aim);
  if (!has_target()) return news;
  // What is out below the target alone is of no use to the search.
  news.bans_below = Duration(0);
  if (news.bound >= target_) miss(news);
  return news;
}

ProofNews PeriodProof::relax(const ProofLimits& limits) {
  ProofNews news{.bound = bound_, .exact_bound = exact_bound_};
  std::optional<Solved> solved = std::exchange(finer_, std::nullopt);
  if (!solved) {
    solved.emplace(program(limits.interrupted));
    news.finished = takes_more_than(limits.work, solved->program);
    if (news.finished) return news;
    news.work = work_of_linear(solved->program);
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
    // Where columns are out, it is only proved below the ceiling.
    if (proved && limits.ceiling == Duration::max()) news.infeasible = true;
    if (proved && limits.ceiling != Duration::max()) news.bound = news.exact_bound = limits.ceiling;
    news.finished = proved;
    // Clp does not always say why: then the integer program is to say so.
    if (!proved) next_ = Next::aim;
    return news;
  }
  news.finished = linear.outcome != LinearAnswer::Outcome::optimal;
  if (news.finished) return news;
  news.rounded = rounded(*periods_, linear.solution);
  rounded_ = news.rounded->plans.front();
  const ProgramBound bound = program_bound(program_, linear.prices);
  linear_bound_ = bound.bound;
  raise(std::min(limits.ceiling, bound.bound), news);
  news.finished = bound_ >= limits.ceiling;
  if (news.finished) return news;
  const int before = choices_;
  if (limits.ceiling != Duration::max()) {
    choices_ = rule_out(bound, limits.ceiling);
    news.bans = bans();
    news.bans_below = limits.ceiling;
  }
  // Without those that are out it says more.
  const bool pays = choices_ <= limits.choices && are_many(before - choices_, before);
  if (!pays || takes_more_than(limits.work - news.work, program_)) next_ = Next::aim;
  return news;
}

void PeriodProof::raise(Duration exact, ProofNews& news) {
  news.exact_bound = exact_bound_ = std::max(exact_bound_, exact);
  news.bound = bound_ = std::max(bound_, exact_bound_);
}

bool PeriodProof::is_over(const ProofLimits& limits) const {
  return limits.ceiling == Duration::max() ? limits.is_over(bound_) : limits.is_interrupted();
}

ProofNews PeriodProof::solve_whole(const ProofLimits& limits, bool aims) {
  ProofNews news{.bound = bound_, .exact_bound = exact_bound_};
  if (segments_ < kFewSegments && split(limits, news)) sharpening_ = Sharpening::on;
  if (finer_ || (aims && aim(limits))) return news;
  if (sharpening_ == Sharpening::on && !sharpen(limits, news)) sharpening_ = Sharpening::paused;
  if (finer_) return news;
  // Work is counted in CBC's nodes.
  const bool by_highs = limits.mip == IntegerSolver::highs && limits.work == Work::max() && !find_highs().name.empty();
  if (choices_ > limits.choices || program_.rows.size() > (by_highs ? kMostRowsOfHighs : kMostRows)) {
    if (split(limits, news) || (by_highs ? sharpen(limits, news) : refine_rounded())) return news;
    news.finished = choices_ > (limits.work == Work::max() ? kMostChoices : limits.choices);
    if (news.finished) return news;
  } else if (probe_whole(limits, news)) {
    return news;
  }
  if (limits.mip == IntegerSolver::off) {
    news.finished = true;
    return news;
  }
  double end = cpu_seconds_of_thread() + patience_ * limits.seconds;
  bool is_outdated = false;
  const auto is_over = [&] {
    is_outdated = is_outdated || limits.is_outdated(bound_);
    if (is_outdated || finer_ || limits.is_interrupted()) return true;
    if (cpu_seconds_of_thread() < end) return false;
    // It goes on where more periods would say no more: begun again it would take as long.
    grow_patience(limits, news);
    end += patience_ * limits.seconds;
    return finer_.has_value();
  };
  const std::int64_t nodes = std::min(limits.nodes, nodes_within(limits.work, program_));
  news.finished = nodes <= 0;
  if (news.finished) return news;
  const IntegerAnswer answer = solve_integer(
      program_, {.ceiling = limits.ceiling, .nodes = nodes, .interrupted = is_over, .by_highs = by_highs});
  news.work = work_of_integer(program_, answer.nodes);
  news.solved_by = by_highs ? IntegerSolver::highs : IntegerSolver::cbc;
  if (is_outdated && answer.solution.empty()) {
    news.bound = bound_ = std::max(bound_, std::min(limits.ceiling, answer.bound));
    return news;
  }
  use(answer, limits, news);
  return news;
}

void PeriodProof::use(const IntegerAnswer& answer, const ProofLimits& limits, ProofNews& news) {
  bound_ = std::max(bound_, std::min(limits.ceiling, answer.bound));
  news.bound = bound_;
  if (answer.solution.empty()) {
    // Complete: nothing costs less than the ceiling. If not, more periods may say more.
    if (answer.complete && limits.ceiling != Duration::max()) news.bound = bound_ = limits.ceiling;
    if (!answer.complete && !finer_) grow_patience(limits, news);
    news.finished = answer.complete;
    return;
  }
  news.plan = periods_->plan(answer.solution);
  const std::size_t before = ends_.size() + events_.size();
  const bool broken = refine(*news.plan, kMendedOfInteger);
  // Near to a schedule, and as good as the relaxation knows: worth a repair.
  if (broken && linear_.outcome == LinearAnswer::Outcome::optimal)
    news.rounded = RoundedSolution{{*news.plan}, periods_->undecided(linear_.solution)};
  if (sharpening_ == Sharpening::paused) sharpening_ = Sharpening::on;
  // As cheap as the relaxation allows, and it holds the budget; or it does not, and the relaxation cannot say why.
  const bool is_stuck = broken && ends_.size() + events_.size() == before;
  const bool is_optimal = !broken && extra_duration(instance_, *news.plan) <= bound_;
  news.finished = answer.complete && (is_stuck || is_optimal);
}

/// Makes periods finer where an integer program does not end; where they say no more, it is to end, however long that takes.
void PeriodProof::grow_patience(const ProofLimits& limits, ProofNews& news) {
  patience_ *= split(limits, news) ? kPatienceGrowth : kMostPatience;
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
  if (++refinements_ > kMostRefinements) return false;
  const int periods = periods_->periods().count();
  if (program_.columns() / periods > kMostColumns / (periods + static_cast<int>(kMendedOfLinear))) return false;
  const std::size_t before = ends_.size() + events_.size();
  return refine(rounded_, kMendedOfLinear) && ends_.size() + events_.size() > before;
}

/// More periods at peaks, where the linear program gains by it: the integer one takes longer then. False if not.
bool PeriodProof::split(const ProofLimits& limits, ProofNews& news) {
  if (segments_ >= kMostSegments) return false;
  const int before = segments_;
  segments_ = std::max(2 * segments_, kFewSegments);
  const std::set<Stage> ends = ends_;
  for (const Stage stage : peaks(instance_, live_, segments_)) end_period(stage);
  if (ends_.size() == ends.size()) return split(limits, news);
  if (try_finer(limits, news)) {
    if (sharpening_ == Sharpening::untried) sharpening_ = Sharpening::paused;
    return true;
  }
  ends_ = ends;
  // Below a much lower ceiling it is tried again.
  if (is_over(limits)) segments_ = before;
  return false;
}

/// The same, where what the linear program comes near to takes too much.
bool PeriodProof::sharpen(const ProofLimits& limits, ProofNews& news) {
  const std::set<Stage> ends = ends_;
  const std::set<RecomputeEvent> events = events_;
  const bool broken = refine(rounded_, kMendedOfLinear);
  if (broken && ends_.size() + events_.size() > ends.size() + events.size() && try_finer(limits, news)) return true;
  ends_ = ends;
  events_ = events;
  return false;
}

/// Solves the linear program of today's periods. True where it raises the bound enough: then it is the next step's.
bool PeriodProof::try_finer(const ProofLimits& limits, ProofNews& news) {
  Solved finer(program(limits.interrupted));
  if (finer.program.columns() > kMostColumns || takes_more_than(limits.work - news.work, finer.program)) return false;
  news.work = plus(news.work, work_of_linear(finer.program));
  finer.answer = solve_linear(finer.program, [&] { return is_over(limits); });
  bool pays = finer.answer.outcome == LinearAnswer::Outcome::no_solution;
  if (finer.answer.outcome == LinearAnswer::Outcome::optimal) {
    const Duration bound = program_bound(finer.program, finer.answer.prices).bound;
    const Duration gap = limits.ceiling == Duration::max() ? linear_bound_ : limits.ceiling - linear_bound_;
    pays = (bound - linear_bound_).count() > gap.count() / kLeastGain;
    raise(std::min(limits.ceiling, bound), news);
  }
  if (pays) finer_.emplace(std::move(finer));
  return pays;
}

}  // namespace remora
