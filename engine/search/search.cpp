// SPDX-License-Identifier: Apache-2.0
#include "engine/search/search.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "engine/base/options.hpp"
#include "engine/base/tasks.hpp"
#include "engine/bound/cover_mip.hpp"
#include "engine/bound/first_bound.hpp"
#include "engine/bound/highs.hpp"
#include "engine/bound/modes/mode_proof.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/sequence.hpp"

namespace remora {
namespace {

/// The first round is so much shorter than a full one.
constexpr Effort kFirstRoundPart = 64;
/// Phase 1 looks so long for a schedule before the one and the other start is asked.
constexpr double kSecondsUntilSoon = 0.4;
constexpr double kPartUntilLate = 0.25;
/// A start far from the bound waits for the period relaxation for such a part of the time limit and so many seconds at
/// most; then so many rounds for what it leads to. It is not needed where a schedule is proved to be so near to the
/// optimum.
constexpr double kPartForRelaxation = 0.1;
constexpr double kSecondsForRelaxation = 10;
constexpr int kRoundsOfRounding = 10;
constexpr double kNear = 0.01;
/// The prover's part of a core: at least, more while its bound rises, and where the search has found nothing in this
/// part of its time, a whole one if that is worth it.
constexpr double kMinShare = 0.1;
constexpr double kShareOfProgress = 0.25;
constexpr double kShareOfQuiet = 2;
/// A whole one, too, where the search could gain no more than this part of the extra time. An integer program may close
/// a gap that the bound does not tell of before: hardly one of that part.
constexpr double kSmallGap = 0.05;
constexpr double kHopelessGap = 0.3;
/// The part of the rest of a work limit that it may use at once.
constexpr double kMostOfRest = 0.5;
/// From such a part on the prover takes the place of one of the search's threads.
constexpr double kShareOfThread = 0.5;
/// An integer solver's bound may exceed the optimum by this part of it: 27,000 random programs show 3e-8 at most.
constexpr double kToleranceOfSolvers = 1e-7;

/// Each worker's improvement of the peak above the budget, otherwise of the extra duration; and of the bound.
std::vector<Mix::Outcome> outcomes_of(const std::vector<Worker*>& workers, const std::vector<RoundResult>& results,
                                      const RoundInput& input) {
  std::vector<Mix::Outcome> round;
  for (std::size_t i = 0; i < workers.size(); ++i) {
    Mix::Outcome outcome{workers[i]};
    if (results[i].solution && better(input.instance, *results[i].solution, input.incumbent)) {
      const Solution& found = *results[i].solution;
      const Bytes less = input.incumbent.peak - std::max(found.peak, input.instance.budget());
      outcome.schedule =
          static_cast<double>(less > Bytes(0) ? less.count() : (input.incumbent.extra - found.extra).count());
    }
    if (results[i].lower_bound > input.lower_bound) {
      outcome.bound = static_cast<double>((results[i].lower_bound - input.lower_bound).count());
    }
    round.push_back(outcome);
  }
  return round;
}

}  // namespace

Search::Search(const Instance& instance, const SolveOptions& options, SearchParts parts,
               std::span<const Compute> warm_start)
    : instance_(instance),
      options_(options),
      limits_(limits_of(options)),
      problem_(describe_problem(instance, options)),
      seed_(options.seed),
      parts_(std::move(parts)) {
  FirstSolution first = first_solution(instance, warm_start);
  infeasible_ = first.is_infeasible;
  has_no_start_ = !first.solution && !infeasible_;
  if (first.solution) incumbent_ = *std::move(first.solution);
  if (has_no_start_) report_.note = "no choice of modes was found that their limits of runs allow";
}

// The whole way of a search: bound, starts, phases.

void Search::run_session(const Session& session) {
  begin(session.deadline);
  until_ = std::max(session.until, plus(work_, Work(1)));
  if (prover_ && !is_decided()) prover_->start(deadline_);
  if (!has_no_schedule()) {
    const double first = deadline_.elapsed();
    run_rounds(SearchPhase::feasibility, [this] { return holds_budget(); });
    report_.reached_peak = incumbent_.peak;
    const double second = deadline_.elapsed();
    if (phase_ == SearchPhase::feasibility) report_.phase1_seconds = second;
    if (holds_budget()) {
      const bool begins = std::exchange(phase_, SearchPhase::duration) == SearchPhase::feasibility;
      // In free order phases begin again and again: not worth a report.
      if (begins && instance_.problem().order == OrderMode::input) notify(Event::phase, source_);
      run_rounds(SearchPhase::duration, [this] { return is_decided(); });
      report_.phase2_seconds += deadline_.elapsed() - second;
    }
    seconds_in_phases_ += deadline_.elapsed() - first;
  }
  if (prover_) {
    settle_prover();
    prover_->pause();
  }
  exchange_with_prover();
  stopped_at_ = deadline_.elapsed();
}

void Search::begin(const Deadline& deadline) {
  deadline_ = deadline;
  stopped_at_.reset();
  if (std::exchange(begun_, true) || has_no_schedule()) return;
  make_prover();
  if (prover_) prover_->start(deadline_);
  try_starts(When::at_once);
  if (holds_budget()) announce();

  const double before = elapsed();
  SolveOptions options = options_;
  // The prover has a stronger bound, and meanwhile the search goes on.
  if (options.covering == Covering::on && prover_) options.covering = Covering::lp;
  FirstBound bound = find_first_bound(instance_, options, deadline_);
  infeasible_ = bound.infeasible;
  certificate_ = std::move(bound.certificate);
  raise_bound(bound.lower_bound);
  exact_bound_ = bound.exact_bound;
  cover_ = std::move(bound.cover);
  if (bound.solved_by != IntegerSolver::off) integer_solvers_.insert(bound.solved_by);
  bound_seconds_ = elapsed() - before;

  // The covering relaxation's choice of recomputations is a plan of the staged form.
  const bool has_plan = !cover_.given_up.empty() && instance_.problem().order == OrderMode::input;
  if (has_plan && options_.covering_start && !is_decided()) {
    Solution suggested = make_solution(instance_, suggested_plan(instance_, cover_));
    if (better(instance_, suggested, incumbent_)) incumbent_ = std::move(suggested);
  }
  try_starts(When::after_bound);
  if (!infeasible_) announce();
}

/// The prover of the period relaxation or, if ops have several modes, of the relaxation of modes; none if the problem
/// is too large for either.
void Search::make_prover() {
  const bool proves =
      parts_.proves && options_.period_bound && instance_.problem().order == OrderMode::input && cover_mip_available();
  if (!proves || is_decided()) return;
  const bool by_periods = has_plans(instance_);
  const bool applies =
      by_periods ? PeriodProof::is_within_reach(instance_, limits_.time_to_spare()) : ModeProof::applies(instance_);
  if (!parts_.proof && !applies) {
    report_.note = "without the period relaxation, whose programs would be too large";
    return;
  }
  const auto steps = [](auto proof) -> Prover::Step {
    return [proof](const ProofLimits& limits) { return proof->step(limits); };
  };
  Prover::Step step = parts_.proof;
  if (!step) {
    step = by_periods ? steps(std::make_shared<PeriodProof>(instance_)) : steps(std::make_shared<ModeProof>(instance_));
  }
  prover_ = std::make_unique<Prover>(
      std::move(step),
      Prover::Settings{.may_rest = parts_.proof_rests, .counts_work = limits_.counts_work(), .mip = options_.mip});
}

void Search::try_starts(When when) {
  for (Start& start : parts_.starts) {
    if (start.when != when || !start.offer) continue;
    exchange_with_prover();
    const auto offer = std::exchange(start.offer, {});
    if (!is_decided()) offer(*this);
    // Further starts may take long: what there is counts from now on.
    if (when == When::after_bound && holds_budget()) announce();
  }
}

void Search::exclude_seconds(double seconds) {
  // The prover asks the same deadline.
  if (prover_) prover_->stop();
  deadline_.exclude(seconds);
  if (prover_) prover_->start(deadline_);
}

void Search::announce() {
  if (!std::exchange(announced_, true)) notify(Event::start, Source::start);
}

// Rounds: workers as tasks over one incumbent.

void Search::run_rounds(SearchPhase phase, const std::function<bool()>& finished) {
  std::optional<Mix>& mix = phase == SearchPhase::feasibility ? feasibility_ : duration_;
  if (!mix) {
    SolveOptions options = options_;
    options.seed = seed_;
    mix = parts_.crew(instance_, options, phase);
  }
  const std::function<bool()> interrupted = [this] { return deadline_.reached(); };
  Effort effort = kRoundEffort / kFirstRoundPart;
  for (; !finished() && !infeasible_ && !limit_reached(); effort = std::min(kRoundEffort, 2 * effort)) {
    exchange_with_prover();
    if (phase == SearchPhase::feasibility) {
      try_starts_if_none(When::soon_if_none, kSecondsUntilSoon);
      try_starts_if_none(When::late_if_none, kPartUntilLate * limits_.on_clock());
    }
    try_starts_far_from_bound();
    if (finished() || infeasible_ || deadline_.cancelled()) return;
    grant_to_prover();
    const Effort most = std::min(effort, effort_of(work_of_round()));
    const RoundInput input{instance_, incumbent_, lower_bound_, cover_, interrupted, most, work_of_round()};
    const std::vector<Worker*> workers = mix->draw(input);
    if (workers.empty()) return;
    std::vector<RoundResult> results = run_round(workers, input);
    // From here to the next round the prover does nothing under a work limit: what is known does not depend on time.
    if (prover_) settle_prover();
    mix->learn(outcomes_of(workers, results, input));
    for (std::size_t i = 0; i < workers.size(); ++i) merge(workers[i]->source(), results[i]);
    notify(Event::round, source_);
  }
}

void Search::try_starts_if_none(When when, double seconds) {
  if (clock() > seconds && !holds_budget()) try_starts(when);
}

void Search::try_starts_far_from_bound() {
  const auto is_far_start = [](const Start& start) { return start.when == When::far_from_bound && start.offer; };
  if (std::ranges::none_of(parts_.starts, is_far_start)) return;
  if (cover_.roundings > 0) {
    if (++rounds_with_rounding_ <= kRoundsOfRounding) return;
  } else {
    const double most = std::min(kSecondsForRelaxation, kPartForRelaxation * limits_.on_clock());
    if (prover_ && clock() < most) return;
  }
  const auto duration = static_cast<double>((instance_.baseline_duration() + incumbent_.extra).count());
  const bool is_near = static_cast<double>((incumbent_.extra - lower_bound_).count()) <= kNear * duration;
  // Now or never.
  if (holds_budget() && is_near) std::erase_if(parts_.starts, is_far_start);
  try_starts(When::far_from_bound);
}

std::vector<RoundResult> Search::run_round(const std::vector<Worker*>& workers, const RoundInput& input) const {
  const int all = thread_count(options_);
  // Three threads on two cores would leave the prover two thirds of one.
  const bool gives_one = prover_ && holds_budget() && cover_.roundings > 0 &&
                         prover_->state() == Prover::State::works && prover_share() >= kShareOfThread;
  std::vector<RoundResult> results(workers.size());
  run_tasks(gives_one ? std::max(1, all - 1) : all, workers.size(), [&](std::size_t i) {
    if (!deadline_.cancelled()) results[i] = workers[i]->run(input);
  });
  return results;
}

void Search::merge(Source source, RoundResult& result) {
  // At least one, so that a worker without anything to do can't keep a search under a work limit alive.
  work_ += std::max(Work(1), result.work);
  infeasible_ = infeasible_ || result.infeasible;
  const bool raised = result.lower_bound > lower_bound_;
  raise_bound(result.lower_bound);
  if (source != Source::benders) exact_bound_ = std::max(exact_bound_, result.lower_bound);
  const bool improved = result.solution && better(instance_, *result.solution, incumbent_);
  if (improved) take(*std::move(result.solution), source);
  if (improved || raised) notify(improved ? Event::schedule : Event::bound, source);
}

void Search::exchange_with_prover() {
  if (!prover_) return;
  settle_prover();
  update_from_proof(prover_->take());
  if (holds_budget()) prover_->set_cutoff(incumbent_.extra);
  share_of_prover_ = prover_share();
  prover_->set_share(share_of_prover_);
}

void Search::grant_to_prover() {
  if (!prover_) return;
  // The share is one of two cores, of which the other workers have the rest.
  part_of_prover_ = share_of_prover_ / (2 - share_of_prover_);
  const Work others = work_ - work_of_prover_;
  const Work more = part_of(others - std::exchange(granted_for_, others), part_of_prover_);
  const std::optional<Work> granted = prover_->grant(more, part_of(until_ - work_, kMostOfRest));
  granted_ = granted.value_or(Work(0));
  if (!granted) part_of_prover_ = 0;
}

void Search::settle_prover() {
  const Work done = prover_->settle(deadline_);
  work_of_prover_ += done;
  work_ += done;
  granted_ = Work(0);
}

Work Search::work_of_round() const {
  if (until_ == Work::max()) return Work::max();
  const Work left = part_of(until_ - work_ - granted_, 1 / (1 + part_of_prover_));
  return std::max(Work(1), Work(left.count() / static_cast<std::int64_t>(kWorkersOfRound)));
}

/// All of a core until the first linear program is solved, and if there is no schedule, or none much better. Otherwise
/// the longer the search has found nothing better, the larger a part: as much as the proof is worth.
double Search::prover_share() const {
  if (!holds_budget() || cover_.roundings == 0 || incumbent_.extra <= lower_bound_) return 1;
  const auto missing = static_cast<double>((incumbent_.extra - lower_bound_).count());
  const double gap = missing / static_cast<double>(incumbent_.extra.count());
  if (gap <= kSmallGap) return 1;
  const double hope = std::clamp((kHopelessGap - gap) / (kHopelessGap - kSmallGap), 0.0, 1.0);

  // The part of the gap that the proof would close in the time that is left, if its bound rose as it did in the last
  // half of the time.
  const double elapsed_now = clock();
  Duration before{};
  for (const auto& [seconds, bound] : proved_) {
    if (seconds > elapsed_now / 2) break;
    before = bound;
  }
  const auto risen = static_cast<double>((proved_.empty() ? Duration{} : proved_.back().second - before).count());
  const double left = std::max(0.0, limits_.on_clock() - elapsed_now);
  const double ahead = std::min(1.0, risen / missing * left / std::max(elapsed_now / 2, 1e-3));

  const double now = std::max(elapsed_now, 1e-3);
  const double quiet = std::min(1.0, kShareOfQuiet * (now - found_at_) / now);
  return std::max(kMinShare, std::max(hope, ahead) * std::max(kShareOfProgress, quiet));
}

void Search::update_from_proof(std::vector<ProofUpdate> outcome) {
  for (ProofUpdate& item : outcome) {
    if (item.infeasible) prove_infeasible();
    if (item.solved_by != IntegerSolver::off) integer_solvers_.insert(item.solved_by);
    if (item.plan) offer(make_solution(instance_, within_limits(instance_, *std::move(item.plan))), Source::periods);
    for (const std::vector<Compute>& sequence : item.sequences)
      offer(make_solution(instance_, sequence), Source::periods);
    if (item.rounded) {
      cover_.rounded = *std::move(item.rounded);
      ++cover_.roundings;
    }
    exact_bound_ = std::max(exact_bound_, item.exact_bound);
    if (item.bans_below > Duration(0)) {
      cover_.banned = std::move(item.bans);
      cover_.banned_below = item.bans_below;
    }
    if (item.bound <= lower_bound_) continue;
    raise_bound(item.bound);
    proved_.emplace_back(clock(), lower_bound_);
    if (announced_) notify(Event::bound, Source::periods);
  }
}

bool Search::limit_reached() const {
  return deadline_.reached() || work_ >= until_ || is_stopped_by_caller();
}

// Knowledge, and messages about it.

bool Search::is_decided() const {
  const auto duration = static_cast<double>((instance_.baseline_duration() + incumbent_.extra).count());
  const auto missing = static_cast<double>((incumbent_.extra - lower_bound_).count());
  return has_no_schedule() || (holds_budget() && missing <= options_.gap * duration);
}

void Search::raise_bound(Duration extra) {
  lower_bound_ = std::max(lower_bound_, extra);
  correct_bound();
}

/// A schedule may be better than an integer solver's bound by what its tolerances hide, but not by more, and never
/// better than what whole numbers prove.
void Search::correct_bound() {
  if (!holds_budget() || lower_bound_ <= incumbent_.extra) return;
  const auto excess = static_cast<double>((lower_bound_ - incumbent_.extra).count());
  const bool is_hidden = excess <= kToleranceOfSolvers * static_cast<double>(lower_bound_.count());
  ensure(is_hidden && exact_bound_ <= incumbent_.extra, "search: a lower bound is above a schedule");
  lower_bound_ = incumbent_.extra;
}

void Search::take(Solution solution, Source source) {
  incumbent_ = std::move(solution);
  correct_bound();
  source_ = source;
  found_at_ = clock();
  report_.history.push_back(
      {elapsed(), instance_.baseline_duration() + incumbent_.extra, incumbent_.peak, source_name(source)});
}

bool Search::offer(Solution solution, Source source) {
  if (!better(instance_, solution, incumbent_)) return false;
  take(std::move(solution), source);
  if (announced_) notify(Event::schedule, source);
  return true;
}

void Search::prove_infeasible(const std::optional<Certificate>& certificate) {
  infeasible_ = true;
  if (!certificate_) certificate_ = certificate;
}

void Search::clear_workers() {
  feasibility_.reset();
  duration_.reset();
}

void Search::add_work(Work work) {
  work_ += work;
  pending_work_ = {};
}

void Search::report_round(Work so_far) {
  pending_work_ = so_far;
  notify(Event::round, source_);
}

Progress Search::progress(Event event, Source source) const {
  // In free order there are turns in place of phases.
  const bool is_free = instance_.problem().order == OrderMode::free;
  const bool shortens = is_free ? holds_budget() : phase_ == SearchPhase::duration;
  return {.seconds = elapsed(),
          .phase = shortens ? 2 : 1,
          .event = event,
          .source = source,
          .duration = instance_.baseline_duration() + incumbent_.extra,
          .peak = incumbent_.peak,
          .lower_bound = instance_.baseline_duration() + lower_bound_,
          .work = (work_ + pending_work_).count()};
}

void Search::notify(Event event, Source source) const {
  if (listener_.progress) listener_.progress(progress(event, source));
}

bool Search::is_stopped_by_caller() const {
  return listener_.enough && listener_.enough(progress(Event::round, source_));
}

Schedule Search::answer() const {
  Schedule schedule = problem_;
  schedule.certificate = certificate_;
  schedule.lower_bound = instance_.baseline_duration() + lower_bound_;
  schedule.status = infeasible_ ? Status::infeasible : Status::unknown;
  SolverReport& solver = schedule.solver;
  solver.work = work_.count();
  solver.seconds = elapsed();
  solver.phase1_seconds = report_.phase1_seconds;
  solver.phase2_seconds = report_.phase2_seconds;
  solver.reached_peak = report_.reached_peak;
  solver.history = report_.history;
  solver.note = report_.note;
  if (prover_ && prover_->state() == Prover::State::died) {
    solver.note +=
        std::string(solver.note.empty() ? "" : "; ") + "the proof ended early, for want of memory or threads";
  }
  solver.statistics = report_.statistics;
  for (const IntegerSolver by : integer_solvers_) {
    solver.integer_solver += solver.integer_solver.empty() ? "" : " and ";
    solver.integer_solver += by == IntegerSolver::highs ? find_highs().name : "COIN-OR CBC";
  }
  if (integer_solvers_.empty()) solver.integer_solver = "none";
  if (exact_bound_ < lower_bound_ && !infeasible_) {
    const Duration exact = instance_.baseline_duration() + exact_bound_;
    solver.statistics.push_back({.name = "exact_lower_bound", .value = static_cast<double>(exact.count())});
  }
  if (!has_no_schedule()) write_steps(instance_, incumbent_.computes(instance_), schedule);
  return schedule;
}

Schedule describe_problem(const Instance& instance, const SolveOptions& options) {
  Schedule schedule;
  schedule.graph = instance.graph().name;
  schedule.order = instance.problem().order;
  schedule.budget = instance.budget();
  schedule.baseline_duration = instance.baseline_duration();
  schedule.baseline_peak_memory = baseline_peak(instance);
  schedule.solver.version = version();
  schedule.solver.seed = static_cast<std::uint64_t>(options.seed);
  schedule.solver.threads = thread_count(options);
  schedule.solver.max_computes = instance.problem().max_computes;
  schedule.solver.time_limit = options.time_limit;
  schedule.solver.work_limit = options.work_limit;
  schedule.solver.options = describe_options(options);
  return schedule;
}

void write_steps(const Instance& instance, std::span<const Compute> sequence, Schedule& schedule) {
  const Evaluation evaluation = evaluate(instance, sequence);
  if (evaluation.peak > instance.budget()) return;
  schedule.steps = steps_of(instance, sequence);
  schedule.duration = evaluation.duration;
  schedule.peak_memory = evaluation.peak;
  schedule.status = evaluation.duration <= schedule.lower_bound ? Status::optimal : Status::feasible;
}

}  // namespace remora
