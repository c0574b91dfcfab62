// SPDX-License-Identifier: Apache-2.0
#include "engine/search/search.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
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

namespace remora {
namespace {

/// The first round is so much shorter than a full one.
constexpr Effort kFirstRoundPart = 64;
/// Phase 1 looks so long for a schedule before the one and the other start is asked.
constexpr double kSecondsUntilSoon = 0.4;
constexpr Work kWorkUntilSoon(20'000);
constexpr double kPartUntilLate = 0.25;
/// A start far from the bound waits for the period relaxation for such a part of the time limit and so many seconds at most; then so many
/// rounds for what it leads to. It is not needed where a schedule is proved to be so near to the optimum.
constexpr double kPartForRelaxation = 0.1;
constexpr double kSecondsForRelaxation = 10;
constexpr int kRoundsOfRounding = 10;
constexpr double kPartOfWorkForRelaxation = 0.2;
constexpr double kNear = 0.01;
/// The prover's part of a core: at least, more while its bound rises, and where the search has found nothing in this part of its
/// time, a whole one if that is worth it.
constexpr double kMinShare = 0.1;
constexpr double kShareOfProgress = 0.25;
constexpr double kShareOfQuiet = 2;
/// A whole one, too, where the search could gain no more than this part of the extra time. An integer program may close a gap that the
/// bound does not tell of before: hardly one of that part.
constexpr double kSmallGap = 0.05;
constexpr double kHopelessGap = 0.3;
/// From such a part on the prover takes the place of one of the search's threads.
constexpr double kShareOfThread = 0.5;

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
               std::span<const OpId> warm_start)
    : instance_(instance),
      options_(options),
      problem_(describe_problem(instance, options)),
      seed_(options.seed),
      parts_(std::move(parts)) {
  std::optional<Solution> first = first_solution(instance, warm_start);
  infeasible_ = !first.has_value();
  if (first) incumbent_ = *std::move(first);
}

// The whole way of a search: bound, starts, phases.

void Search::run_session(const Session& session) {
  begin(session.deadline);
  until_ = std::max(session.until, plus(work_, Work(1)));
  if (prover_ && !is_decided() && options_.work_limit == 0) prover_->start(deadline_);
  if (!infeasible_) search_phases();
  if (prover_) prover_->pause();
  take_proof();
  stopped_at_ = deadline_.elapsed();
}

void Search::begin(const Deadline& deadline) {
  deadline_ = deadline;
  stopped_at_.reset();
  if (std::exchange(begun_, true) || infeasible_) return;
  if (proves() && !is_decided()) {
    const bool is_within_reach =
        instance_.has_modes() ? ModeProof::applies(instance_) : PeriodProof::is_within_reach(instance_);
    if (parts_.proof || is_within_reach)
      prover_ = std::make_unique<Prover>(steps_of_proof(), parts_.proof_rests, options_.mip);
    else
      report_.note = "without the period relaxation, whose programs would be too large";
  }
  if (prover_ && options_.work_limit == 0) prover_->start(deadline_);
  ask(When::at_once);
  if (holds_budget()) announce();
  find_bound();
  start_from_relaxation();
  if (prover_ && options_.work_limit > 0 && !is_decided()) {
    take_news(prover_->take_steps(holds_budget() ? incumbent_.extra : Duration::max(),
                                  part_of(work_limit(options_.work_limit), kPartOfWorkForRelaxation), deadline_));
  }
  ask(When::after_bound);
  if (!infeasible_) announce();
}

bool Search::awaits(When when) const {
  return std::ranges::any_of(parts_.starts, [&](const Start& start) { return start.when == when && start.offer; });
}

void Search::ask(When when) {
  for (Start& start : parts_.starts) {
    if (start.when != when || !start.offer) continue;
    take_proof();
    const auto offer = std::exchange(start.offer, {});
    if (!is_decided()) offer(*this);
    // Further starts may take long: what there is counts from now on.
    if (when == When::after_bound && holds_budget()) announce();
  }
}

/// The prover asks the same deadline.
void Search::excuse(double seconds) {
  if (prover_) prover_->stop();
  deadline_.excuse(seconds);
  if (prover_ && options_.work_limit == 0) prover_->start(deadline_);
}

void Search::announce() {
  if (!std::exchange(announced_, true)) tell(Event::start, Source::start);
}

void Search::search_phases() {
  const double first = deadline_.elapsed();
  run_rounds(SearchPhase::feasibility, [this] { return holds_budget(); });
  report_.reached_peak = incumbent_.peak;
  const double second = deadline_.elapsed();
  if (phase_ == SearchPhase::feasibility) report_.phase1_seconds = second;
  if (holds_budget()) {
    begin_phase_2();
    run_rounds(SearchPhase::duration, [this] { return is_decided(); });
    report_.phase2_seconds += deadline_.elapsed() - second;
  }
  seconds_in_phases_ += deadline_.elapsed() - first;
}

void Search::find_bound() {
  const double before = elapsed();
  SolveOptions options = options_;
  // The prover has a stronger one, and meanwhile the search goes on.
  if (options.covering == Covering::on && prover_ && options_.work_limit == 0) options.covering = Covering::lp;
  FirstBound bound = find_first_bound(instance_, options, deadline_);
  infeasible_ = bound.infeasible;
  certificate_ = std::move(bound.certificate);
  raise_bound(bound.lower_bound);
  exact_bound_ = bound.exact_bound;
  cover_ = std::move(bound.cover);
  if (bound.solved_by != IntegerSolver::off) integer_solvers_.insert(bound.solved_by);
  bound_seconds_ = elapsed() - before;
}

void Search::start_from_relaxation() {
  // Its choice is a plan of the staged form.
  const bool has_plan = !cover_.given_up.empty() && instance_.problem().order == OrderMode::input;
  if (is_decided() || !options_.covering_start || !has_plan) return;
  Solution suggested = make_solution(instance_, suggested_plan(instance_, cover_));
  if (better(instance_, suggested, incumbent_)) incumbent_ = std::move(suggested);
}

void Search::begin_phase_2() {
  if (std::exchange(phase_, SearchPhase::duration) == SearchPhase::duration) return;
  // In free order phases begin again and again: not worth a report.
  if (instance_.problem().order == OrderMode::input) tell(Event::phase, source_);
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
    take_proof();
    if (phase == SearchPhase::feasibility) {
      ask_if_none(When::soon_if_none, kSecondsUntilSoon, kWorkUntilSoon);
      ask_if_none(When::late_if_none, kPartUntilLate * options_.time_limit,
                  part_of(work_limit(options_.work_limit), kPartUntilLate));
    }
    ask_far_from_bound();
    if (finished() || infeasible_ || deadline_.cancelled()) return;
    const Effort most = std::min(effort, effort_of(work_of_round()));
    const RoundInput input{instance_, incumbent_, lower_bound_, cover_, interrupted, most, work_of_round()};
    const std::vector<Worker*> workers = mix->draw(input);
    if (workers.empty()) return;
    std::vector<RoundResult> results = run_round(workers, input);
    mix->learn(outcomes_of(workers, results, input));
    for (std::size_t i = 0; i < workers.size(); ++i) merge(workers[i]->source(), results[i]);
    tell(Event::round, source_);
  }
}

void Search::ask_if_none(When when, double seconds, Work work) {
  if (options_.work_limit > 0 ? work_ <= work : elapsed() <= seconds) return;  // a work limit knows no time
  if (!holds_budget()) ask(when);
}

/// Under a work limit it comes at once, or not at all.
bool Search::waits_for_relaxation() const {
  const double most = std::min(kSecondsForRelaxation, kPartForRelaxation * options_.time_limit);
  return prover_ && options_.work_limit == 0 && cover_.roundings == 0 && elapsed() < most;
}

void Search::ask_far_from_bound() {
  if (!awaits(When::far_from_bound)) return;
  if (cover_.roundings > 0) ++rounds_with_rounding_;
  if (cover_.roundings > 0 ? rounds_with_rounding_ <= kRoundsOfRounding : waits_for_relaxation()) return;
  const auto duration = static_cast<double>((instance_.baseline_duration() + incumbent_.extra).count());
  const bool is_near = static_cast<double>((incumbent_.extra - lower_bound_).count()) <= kNear * duration;
  // Now or never.
  if (holds_budget() && is_near)
    std::erase_if(parts_.starts, [](const Start& start) { return start.when == When::far_from_bound; });
  ask(When::far_from_bound);
}

std::vector<RoundResult> Search::run_round(const std::vector<Worker*>& workers, const RoundInput& input) const {
  std::vector<RoundResult> results(workers.size());
  run_tasks(threads_of_round(), workers.size(), [&](std::size_t i) {
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
  ensure(!holds_budget() || lower_bound_ <= incumbent_.extra, "search: the lower bound is above a schedule");
  if (improved || raised) tell(improved ? Event::schedule : Event::bound, source);
}

bool Search::proves() const {
  return parts_.proves && options_.period_bound && instance_.problem().order == OrderMode::input &&
         cover_mip_available();
}

void Search::take_proof() {
  if (!prover_) return;
  take_news(prover_->take());
  if (holds_budget()) prover_->set_cutoff(incumbent_.extra);
  prover_->set_share(prover_share());
}

Prover::Step Search::steps_of_proof() const {
  if (parts_.proof) return parts_.proof;
  const auto steps = [](auto proof) { return [proof](const ProofLimits& limits) { return proof->step(limits); }; };
  if (instance_.has_modes()) return steps(std::make_shared<ModeProof>(instance_));
  return steps(std::make_shared<PeriodProof>(instance_));
}

/// All of it until the first linear program is solved, and where there is no schedule, or none much better. Else as much as it is
/// worth: as long as the search finds better schedules, little; the longer it has found none, a part of its time, the more.
double Search::prover_share() const {
  if (!holds_budget() || cover_.roundings == 0 || incumbent_.extra <= lower_bound_) return 1;
  const auto extra = static_cast<double>(incumbent_.extra.count());
  const double gap = static_cast<double>((incumbent_.extra - lower_bound_).count()) / extra;
  if (gap <= kSmallGap) return 1;
  const double hope = std::clamp((kHopelessGap - gap) / (kHopelessGap - kSmallGap), 0.0, 1.0);
  const double worth = std::max(hope, part_of_gap_ahead());
  const double found = report_.history.empty() ? 0 : report_.history.back().seconds;
  const double now = std::max(elapsed(), 1e-3);
  const double quiet = std::min(1.0, kShareOfQuiet * (now - found) / now);
  return std::max(kMinShare, worth * std::max(kShareOfProgress, quiet));
}

/// The part of the gap that the proof would close in the time that is left, if its bound rose as it did in the last half of the time.
double Search::part_of_gap_ahead() const {
  const double now = elapsed();
  Duration before{};
  for (const auto& [seconds, bound] : proved_) {
    if (seconds > now / 2) break;
    before = bound;
  }
  const auto risen = static_cast<double>((proved_.empty() ? Duration{} : proved_.back().second - before).count());
  const auto gap = static_cast<double>((incumbent_.extra - lower_bound_).count());
  const double left = std::max(0.0, options_.time_limit - now);
  return std::min(1.0, risen / gap * left / std::max(now / 2, 1e-3));
}

void Search::take_news(std::vector<ProofUpdate> outcome) {
  for (ProofUpdate& item : outcome) {
    if (item.infeasible) refute();
    if (item.solved_by != IntegerSolver::off) integer_solvers_.insert(item.solved_by);
    if (item.plan) offer(make_solution(instance_, within_limits(instance_, *std::move(item.plan))), Source::periods);
    for (const std::vector<Compute>& sequence : item.sequences)
      offer(make_solution(instance_, sequence), Source::periods);
    if (item.rounded) {
      cover_.rounded = *std::move(item.rounded);
      ++cover_.roundings;
    }
    exact_bound_ = std::max(exact_bound_, item.exact_bound);
    if (options_.work_limit > 0) charge(item.work);
    if (item.bans_below > Duration(0)) {
      cover_.banned = std::move(item.bans);
      cover_.banned_below = item.bans_below;
    }
    if (item.bound <= lower_bound_) continue;
    raise_bound(item.bound);
    proved_.emplace_back(elapsed(), item.bound);
    ensure(!holds_budget() || lower_bound_ <= incumbent_.extra, "search: the period bound is above a schedule");
    if (announced_) tell(Event::bound, Source::periods);
  }
}

std::string Search::integer_solvers() const {
  std::string names;
  for (const IntegerSolver solver : integer_solvers_) {
    names += names.empty() ? "" : " and ";
    names += solver == IntegerSolver::highs ? find_highs().name : "COIN-OR CBC";
  }
  return names.empty() ? "none" : names;
}

/// Three threads on two cores would leave the prover two thirds of one.
int Search::threads_of_round() const {
  const int all = thread_count(options_);
  const bool gives_one = prover_ && holds_budget() && cover_.roundings > 0 &&
                         prover_->state() == Prover::State::works && prover_share() >= kShareOfThread;
  return gives_one ? std::max(1, all - 1) : all;
}

bool Search::limit_reached() const {
  return deadline_.reached() || work_ >= until_ || enough();
}

// Knowledge, and messages about it.

bool Search::is_decided() const {
  const auto duration = static_cast<double>((instance_.baseline_duration() + incumbent_.extra).count());
  const auto missing = static_cast<double>((incumbent_.extra - lower_bound_).count());
  return infeasible_ || (holds_budget() && missing <= options_.gap * duration);
}

void Search::take(Solution solution, Source source) {
  incumbent_ = std::move(solution);
  source_ = source;
  report_.history.push_back(
      {elapsed(), instance_.baseline_duration() + incumbent_.extra, incumbent_.peak, source_name(source)});
}

bool Search::offer(Solution solution, Source source) {
  if (!better(instance_, solution, incumbent_)) return false;
  take(std::move(solution), source);
  if (announced_) tell(Event::schedule, source);
  return true;
}

void Search::refute(const std::optional<Certificate>& certificate) {
  infeasible_ = true;
  if (!certificate_) certificate_ = certificate;
}

void Search::dismiss_workers() {
  feasibility_.reset();
  duration_.reset();
}

void Search::charge(Work work) {
  work_ += work;
  uncharged_ = {};
}

void Search::beat(Work so_far) {
  uncharged_ = so_far;
  tell(Event::round, source_);
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
          .work = (work_ + uncharged_).count()};
}

void Search::tell(Event event, Source source) const {
  if (listener_.tell) listener_.tell(progress(event, source));
}

bool Search::enough() const {
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
  solver.integer_solver = integer_solvers();
  if (exact_bound_ < lower_bound_ && !infeasible_) {
    const Duration exact = instance_.baseline_duration() + exact_bound_;
    solver.statistics.push_back({.name = "exact_lower_bound", .value = static_cast<double>(exact.count())});
  }
  if (!infeasible_) write_steps(instance_, incumbent_.computes(instance_), schedule);
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
