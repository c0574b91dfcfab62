// SPDX-License-Identifier: Apache-2.0
#include "engine/search/workers/crew.hpp"

#include <utility>

#include "engine/search/workers/cp_workers.hpp"
#include "engine/search/workers/local_workers.hpp"
#include "engine/search/workers/relaxation_workers.hpp"

namespace remora {
namespace {

constexpr int kMostOpsForCompleteSearch = 10'000;
/// Up to here it may well end, and takes part in every round.
constexpr int kMostOpsForEveryRound = 200;

}  // namespace

CrewPlan crew_plan(Strategy strategy) {
  switch (strategy) {
    case Strategy::automatic:
    case Strategy::hierarchical:
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
    default:
      break;  // methods, not searches
  }
  return {};
}

void hire_neighbourhoods(int count, const SolveOptions& options, SearchPhase phase, std::uint64_t& seed,
                         std::vector<std::unique_ptr<Worker>>& workers) {
  for (int i = 0; i < count; ++i) {
    if (phase == SearchPhase::feasibility) {
      workers.push_back(std::make_unique<PeakWorker>(options, seed++));
    } else {
      workers.push_back(std::make_unique<NeighbourhoodWorker>(options, seed++));
    }
  }
}

Mix input_order_crew(const Instance& instance, const SolveOptions& options, SearchPhase phase) {
  const CrewPlan plan = crew_plan(options.strategy);
  // On a very large graph even the root of a complete search takes longer than all that the others need.
  const bool complete =
      plan.complete && (options.strategy == Strategy::complete || instance.op_count() <= kMostOpsForCompleteSearch);
  std::uint64_t seed = static_cast<std::uint64_t>(options.seed) * 1000;
  std::vector<std::unique_ptr<Worker>> workers;
  if (complete) workers.push_back(std::make_unique<CompleteWorker>(options, seed++));
  if (plan.benders && phase == SearchPhase::duration && options.benders) {
    workers.push_back(std::make_unique<BendersWorker>(options, seed++));
  }
  if (complete && phase == SearchPhase::duration && options.covering_stages) {
    workers.push_back(std::make_unique<StageBoundWorker>(options));
  }
  hire_neighbourhoods(plan.neighbourhoods, options, phase, seed, workers);
  for (int i = 0; i < plan.ruins; ++i) workers.push_back(std::make_unique<RuinWorker>(seed++));
  for (int i = 0; i < plan.annealings; ++i) workers.push_back(std::make_unique<AnnealingWorker>(seed++));
  const bool finishes = complete && instance.op_count() <= kMostOpsForEveryRound;
  return {std::move(workers), finishes ? std::size_t{1} : std::size_t{0}, seed};
}

}  // namespace remora
