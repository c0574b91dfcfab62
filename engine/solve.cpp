// SPDX-License-Identifier: Apache-2.0
#include "engine/solve.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "engine/bound/cover_mip.hpp"
#include "engine/bound/covering.hpp"
#include "engine/bound/footprint.hpp"
#include "engine/deadline.hpp"
#include "engine/search/crew.hpp"
#include "engine/search/rounds.hpp"
#include "engine/search/start.hpp"
#include "engine/strategies/method.hpp"
#include "engine/version.hpp"
#include "model/error.hpp"

namespace remora {
namespace {

/// CBC's share of the time limit, and its limits.
constexpr double kCoverShare = 0.2;
constexpr double kMostCoverSeconds = 5;
constexpr double kUnlimitedSeconds = 1e9;
constexpr std::int64_t kCoverNodes = 5000;

/// Everything but the steps: what is known before and without a search.
Schedule describe(const Instance& instance, const SolveOptions& options) {
  Schedule schedule;
  schedule.graph = instance.graph().name;
  schedule.order = instance.options().order;
  schedule.budget = instance.budget();
  schedule.baseline_duration = instance.baseline_duration();
  schedule.baseline_peak_memory = baseline_peak(instance);
  schedule.solver.version = version();
  schedule.solver.seed = static_cast<std::uint64_t>(options.seed);
  schedule.solver.threads = thread_count(options);
  schedule.solver.max_computes = instance.options().max_computes;
  schedule.solver.time_limit = options.time_limit;
  schedule.solver.work_limit = options.work_limit;
  schedule.solver.options = describe_options(options);
  return schedule;
}

/// What a solve ends with: a sequence and what the evaluator says of it.
struct Found {
  std::vector<OpId> sequence{};
  Duration duration{};
  Bytes peak{};
};

Found found(const Instance& instance, std::vector<OpId> sequence) {
  const Evaluation evaluation = evaluate(instance, sequence);
  return {std::move(sequence), evaluation.duration, evaluation.peak};
}

/// How much of a solve CBC may take.
CoverMipLimits cover_mip_limits(const SolveOptions& options, const Deadline& deadline) {
  CoverMipLimits limits;
  // Under a work limit nothing may depend on time.
  limits.seconds =
      options.work_limit > 0 ? kUnlimitedSeconds : std::min(kMostCoverSeconds, options.time_limit * kCoverShare);
  limits.nodes = kCoverNodes;
  limits.interrupted = [&deadline] { return deadline.reached(); };
  return limits;
}

/// What can be said without a search: infeasibility with its certificate, a lower bound, and what guides the search.
void bound(const Instance& instance, const SolveOptions& options, const Deadline& deadline, SearchState& state,
           Schedule& schedule) {
  state.infeasible = least_budget(instance) > instance.budget();
  schedule.certificate = footprint_certificate(instance);
  if (state.infeasible || !options.covering_bound) return;
  CoverProblem& problem = state.cover.problem;
  problem = covering_relaxation(instance, options.covering_limits);
  const auto ascent = covering_bound(problem);
  state.infeasible = ascent.infeasible;
  state.lower_bound = ascent.extra;
  // What is resident at an event is known for the input order only.
  const bool is_certain = instance.options().order == OrderMode::input;
  if (ascent.event.valid() && is_certain) schedule.certificate = cover_certificate(instance, problem, ascent.event);
  const bool exceeded = std::any_of(problem.excess.begin(), problem.excess.end(), [](Bytes b) { return b > Bytes(0); });
  if (state.infeasible || !exceeded || !options.covering_mip) return;
  auto mip = solve_cover_mip(problem, cover_mip_limits(options, deadline));
  state.infeasible = mip.infeasible;
  state.lower_bound = std::max(state.lower_bound, mip.bound);
  if (mip.infeasible && is_certain)
    schedule.certificate = cover_certificate(instance, problem, mip.event, mip.given_up);
  state.cover.given_up = std::move(mip.given_up);
  if (options.reduced_costs) state.cover.priced = std::move(mip.priced);
}

/// Phases 1 and 2 of Moccasin, section 2.4.
void search(const Instance& instance, const SolveOptions& options, const SolveCallbacks& callbacks,
            const Deadline& deadline, SearchState& state, SolverReport& report) {
  Rounds rounds(instance, options, callbacks, deadline, state);
  const double begin = deadline.elapsed();
  rounds.report(1, "start");
  const auto holds_budget = [&] { return state.incumbent.peak <= instance.budget(); };
  rounds.run(1, make_mix(instance, options, 1), holds_budget);
  report.phase1_seconds = deadline.elapsed();
  report.reached_peak = state.incumbent.peak;
  if (holds_budget()) {
    rounds.report(2, "phase 2");
    rounds.run(2, make_mix(instance, options, 2), [&] { return state.incumbent.extra <= state.lower_bound; });
    report.phase2_seconds = deadline.elapsed() - report.phase1_seconds;
  }
  if (!report.statistics.empty()) report.statistics.emplace_back("polish_seconds", deadline.elapsed() - begin);
}

/// The two phases from the best start there is.
Found run_search(const Instance& instance, const SolveOptions& options, const SolveCallbacks& callbacks,
                 const Deadline& deadline, SearchState& state, SolverReport& report) {
  if (!state.infeasible) {
    start_from_relaxation(instance, options, state);
    start_from_groups(instance, options, deadline, state, report);
    search(instance, options, callbacks, deadline, state, report);
  }
  report.work = state.work;
  report.history = std::move(state.history);
  return {sequence_of(instance, state.incumbent.plan), instance.baseline_duration() + state.incumbent.extra,
          state.incumbent.peak};
}

/// The one answer of a method of the literature; nothing if it has none that the instance permits.
std::optional<Found> run_method(const Instance& instance, const SolveOptions& options, const SolveCallbacks& callbacks,
                                const Deadline& deadline, SearchState& state, SolverReport& report) {
  if (state.infeasible) return std::nullopt;
  MethodResult result = method_of(options.strategy)({instance, options, deadline});
  state.lower_bound = std::max(state.lower_bound, result.lower_bound);
  report.work = result.work;
  report.note = std::move(result.note);
  if (result.sequence.empty() && instance.op_count() > 0) return std::nullopt;
  if (!is_permitted(instance, result.sequence)) {
    report.note +=
        (report.note.empty() ? "" : "; ") +
        std::string("its sequence is not one of this problem: other order, or more computes of an op than allowed");
    return std::nullopt;
  }
  Found answer = found(instance, std::move(result.sequence));
  report.reached_peak = answer.peak;
  const std::string name = strategy_name(options.strategy);
  report.history.push_back({deadline.elapsed(), answer.duration, answer.peak, name});
  if (callbacks.progress) {
    const int phase = answer.peak <= instance.budget() ? 2 : 1;
    const Duration bound = instance.baseline_duration() + state.lower_bound;
    callbacks.progress({deadline.elapsed(), phase, name, answer.duration, answer.peak, bound, report.work});
  }
  return answer;
}

void write_steps(const Instance& instance, const Found& answer, Schedule& schedule) {
  schedule.steps = steps_of(instance, answer.sequence);
  schedule.duration = answer.duration;
  schedule.peak_memory = answer.peak;
  schedule.status = answer.duration <= schedule.lower_bound ? Status::optimal : Status::feasible;
}

void check_problem(const Instance& instance, const SolveOptions& options) {
  check_options(options);
  const bool searches = method_of(options.strategy) == nullptr;
  if (searches && instance.options().order != OrderMode::input) {
    throw InputError("order", "the search keeps to the input order so far");
  }
  if (instance.has_options()) throw InputError("compute_options", "solve takes graphs without options per op");
}

}  // namespace

Schedule solve(const Instance& instance, const SolveOptions& options, const SolveCallbacks& callbacks,
               std::span<const OpId> warm_start) {
  check_problem(instance, options);
  const Deadline deadline(options.time_limit, callbacks.cancel);
  Schedule schedule = describe(instance, options);
  SearchState state;
  const bool searches = method_of(options.strategy) == nullptr;
  state.incumbent = first_solution(instance, searches ? warm_start : std::span<const OpId>{});
  bound(instance, options, deadline, state, schedule);
  const std::optional<Found> answer = searches
                                          ? run_search(instance, options, callbacks, deadline, state, schedule.solver)
                                          : run_method(instance, options, callbacks, deadline, state, schedule.solver);
  schedule.lower_bound = instance.baseline_duration() + state.lower_bound;
  schedule.status = state.infeasible ? Status::infeasible : Status::unknown;
  if (answer && answer->peak <= instance.budget()) write_steps(instance, *answer, schedule);
  schedule.solver.seconds = deadline.elapsed();
  return schedule;
}

}  // namespace remora
