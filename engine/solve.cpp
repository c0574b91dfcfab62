// SPDX-License-Identifier: Apache-2.0
#include "engine/solve.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include "engine/bound/cover_facts.hpp"
#include "engine/bound/cover_mip.hpp"
#include "engine/bound/covering.hpp"
#include "engine/bound/footprint.hpp"
#include "engine/deadline.hpp"
#include "engine/search/annealing_worker.hpp"
#include "engine/search/benders_worker.hpp"
#include "engine/search/complete_worker.hpp"
#include "engine/search/neighbourhood_worker.hpp"
#include "engine/search/peak_worker.hpp"
#include "engine/search/rounds.hpp"
#include "engine/search/ruin_worker.hpp"
#include "engine/search/stage_bound_worker.hpp"
#include "engine/strategies/greedy.hpp"
#include "engine/version.hpp"
#include "model/error.hpp"

namespace remora {
namespace {

constexpr int kMostOpsForCompleteSearch = 10'000;
/// Up to here it may well end, and takes part in every round.
constexpr int kMostOpsForEveryRound = 200;
/// CBC's share of the time limit, and its limits.
constexpr double kCoverShare = 0.2;
constexpr double kMostCoverSeconds = 5;
constexpr double kUnlimitedSeconds = 1e9;
constexpr std::int64_t kCoverNodes = 5000;

/// How many workers of each kind take part under a strategy.
struct Crew {
  bool complete = false;
  bool benders = false;
  int neighbourhoods = 0;
  int ruins = 0;
  int annealings = 0;
};

Crew crew_of(Strategy strategy) {
  switch (strategy) {
    case Strategy::automatic:
      return {.complete = true, .benders = true, .neighbourhoods = 2, .ruins = 3, .annealings = 1};
    case Strategy::cp:
      return {.complete = true, .benders = true, .neighbourhoods = 3};
    case Strategy::complete:
      return {.complete = true};
    case Strategy::lns:
      return {.neighbourhoods = 4};
    case Strategy::local:
      return {.ruins = 2, .annealings = 2};
    case Strategy::ruin:
      return {.ruins = 4};
    case Strategy::anneal:
      return {.annealings = 4};
    case Strategy::none:
    case Strategy::greedy:
      break;
  }
  return {};
}

/// The strategy's workers of one phase.
Mix make_mix(const Instance& instance, const SolveOptions& options, int phase) {
  Crew crew = crew_of(options.strategy);
  // On a very large graph even the root of a complete search takes longer than all that the others need.
  if (options.strategy != Strategy::complete) crew.complete &= instance.op_count() <= kMostOpsForCompleteSearch;
  std::uint64_t seed = static_cast<std::uint64_t>(options.seed) * 1000;
  std::vector<std::unique_ptr<Worker>> workers;
  if (crew.complete) workers.push_back(std::make_unique<CompleteWorker>(options, seed++));
  if (crew.benders && phase == 2 && options.benders) {
    workers.push_back(std::make_unique<BendersWorker>(options, seed++));
  }
  if (crew.complete && phase == 2 && options.covering_stages) {
    workers.push_back(std::make_unique<StageBoundWorker>(options));
  }
  for (int i = 0; i < crew.neighbourhoods; ++i) {
    if (phase == 1) {
      workers.push_back(std::make_unique<PeakWorker>(options, seed++));
    } else {
      workers.push_back(std::make_unique<NeighbourhoodWorker>(options, seed++));
    }
  }
  for (int i = 0; i < crew.ruins; ++i) workers.push_back(std::make_unique<RuinWorker>(seed++));
  for (int i = 0; i < crew.annealings; ++i) workers.push_back(std::make_unique<AnnealingWorker>(seed++));
  const bool finishes = crew.complete && instance.op_count() <= kMostOpsForEveryRound;
  return {std::move(workers), finishes ? std::size_t{1} : std::size_t{0}, seed};
}

/// Everything but the steps: what is known before and without a search.
Schedule describe(const Instance& instance, const SolveOptions& options) {
  Schedule schedule;
  schedule.graph = instance.graph().name;
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

void write_steps(const Instance& instance, const Solution& solution, Schedule& schedule) {
  schedule.steps = steps_of(instance, sequence_of(instance, solution.plan));
  schedule.duration = instance.baseline_duration() + solution.extra;
  schedule.peak_memory = solution.peak;
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
  if (ascent.event.valid()) schedule.certificate = cover_certificate(instance, problem, ascent.event);
  const bool exceeded = std::any_of(problem.excess.begin(), problem.excess.end(), [](Bytes b) { return b > Bytes(0); });
  if (state.infeasible || !exceeded || !options.covering_mip) return;
  auto mip = solve_cover_mip(problem, cover_mip_limits(options, deadline));
  state.infeasible = mip.infeasible;
  state.lower_bound = std::max(state.lower_bound, mip.bound);
  if (mip.infeasible) schedule.certificate = cover_certificate(instance, problem, mip.event, mip.given_up);
  state.cover.given_up = std::move(mip.given_up);
  if (options.reduced_costs) state.cover.priced = std::move(mip.priced);
}

/// The input order or, if that is better, the warm start.
Solution first_solution(const Instance& instance, std::span<const OpId> warm_start) {
  Solution plain = make_solution(instance, RecomputePlan{});
  if (warm_start.empty()) return plain;
  if (!is_staged(instance, warm_start)) {
    throw InputError("warm start",
                     "its first computes don't follow the input order, or the recomputes of a stage don't");
  }
  std::vector<int> computes(static_cast<std::size_t>(instance.op_count()), 1);
  RecomputePlan plan = plan_of(instance, warm_start);
  std::erase_if(plan, [&](const Recompute& recompute) {
    return ++computes[static_cast<std::size_t>(recompute.op)] > instance.max_computes(recompute.op);
  });
  Solution warm = make_solution(instance, std::move(plan));
  return better(instance, warm, plain) ? warm : plain;
}

/// What the relaxation gives up, given up, if that is better.
void start_from_relaxation(const Instance& instance, const SolveOptions& options, SearchState& state) {
  if (!options.covering_start || state.cover.given_up.empty()) return;
  Solution suggested = make_solution(instance, suggested_plan(instance, state.cover));
  if (better(instance, suggested, state.incumbent)) state.incumbent = std::move(suggested);
}

bool is_search(Strategy strategy) {
  return strategy != Strategy::none && strategy != Strategy::greedy;
}

/// The plan of a strategy that does not search.
RecomputePlan heuristic_plan(const Instance& instance, Strategy strategy) {
  return strategy == Strategy::greedy ? greedy_plan(instance) : RecomputePlan{};
}

/// Phases 1 and 2 of Moccasin, section 2.4.
void search(const Instance& instance, const SolveOptions& options, const SolveCallbacks& callbacks,
            const Deadline& deadline, SearchState& state, SolverReport& report) {
  Rounds rounds(instance, options, callbacks, deadline, state);
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
}

}  // namespace

Schedule solve(const Instance& instance, const SolveOptions& options, const SolveCallbacks& callbacks,
               std::span<const OpId> warm_start) {
  check_options(options);
  if (instance.options().order != OrderMode::input) throw InputError("order", "solve keeps to the input order so far");
  if (instance.has_options()) throw InputError("compute_options", "solve takes graphs without options per op");
  const Deadline deadline(options.time_limit, callbacks.cancel);
  Schedule schedule = describe(instance, options);
  SearchState state;
  state.incumbent = first_solution(instance, warm_start);
  bound(instance, options, deadline, state, schedule);
  if (!state.infeasible && is_search(options.strategy)) {
    start_from_relaxation(instance, options, state);
    search(instance, options, callbacks, deadline, state, schedule.solver);
  } else if (!state.infeasible) {
    state.incumbent = make_solution(instance, heuristic_plan(instance, options.strategy));
    schedule.solver.reached_peak = state.incumbent.peak;
  }
  schedule.lower_bound = instance.baseline_duration() + state.lower_bound;
  if (state.incumbent.peak <= instance.budget()) {
    write_steps(instance, state.incumbent, schedule);
    schedule.status = state.incumbent.extra <= state.lower_bound ? Status::optimal : Status::feasible;
  } else {
    schedule.status = state.infeasible ? Status::infeasible : Status::unknown;
  }
  schedule.solver.work = state.work;
  schedule.solver.history = std::move(state.history);
  schedule.solver.seconds = deadline.elapsed();
  return schedule;
}

}  // namespace remora
