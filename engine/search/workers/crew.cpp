// SPDX-License-Identifier: Apache-2.0
#include "engine/search/workers/crew.hpp"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "engine/free/joint_annealing_worker.hpp"
#include "engine/free/reorder_worker.hpp"
#include "engine/search/workers/annealing_worker.hpp"
#include "engine/search/workers/benders_worker.hpp"
#include "engine/search/workers/complete_worker.hpp"
#include "engine/search/workers/neighbourhood_worker.hpp"
#include "engine/search/workers/peak_worker.hpp"
#include "engine/search/workers/ruin_worker.hpp"
#include "engine/search/workers/stage_bound_worker.hpp"

namespace remora {
namespace {

constexpr int kMostOpsForCompleteSearch = 10'000;
/// Up to here it may well end, and takes part in every round.
constexpr int kMostOpsForEveryRound = 200;

/// In free order every place in the sequence is a choice: complete search ends on much smaller graphs only.
constexpr int kMostOpsForFreeComplete = 40;
constexpr int kMostOpsForFreeEveryRound = 12;

/// How many workers of each kind take part under a strategy.
struct Crew {
  bool complete = false;
  bool benders = false;
  int neighbourhoods = 0;
  int ruins = 0;
  int annealings = 0;
  /// In free order only, in place of those that know one order.
  int reorderings = 0;
  int joints = 0;
};

/// The same strategy in free order. What searches along one order has its turn elsewhere (engine/free/free_search.hpp).
Crew free_crew(const Crew& crew) {
  return {.complete = crew.complete,
          .neighbourhoods = crew.neighbourhoods,
          .reorderings = std::min(2, crew.ruins),
          .joints = std::min(4, 2 * crew.annealings)};
}

Crew crew_of(Strategy strategy) {
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

}  // namespace

Mix make_mix(const Instance& instance, const SolveOptions& options, int phase) {
  const bool is_free = instance.options().order == OrderMode::free;
  Crew crew = crew_of(options.strategy);
  if (is_free) crew = free_crew(crew);
  // On a very large graph even the root of a complete search takes longer than all that the others need.
  const int most_for_complete = is_free ? kMostOpsForFreeComplete : kMostOpsForCompleteSearch;
  if (options.strategy != Strategy::complete) crew.complete &= instance.op_count() <= most_for_complete;
  std::uint64_t seed = static_cast<std::uint64_t>(options.seed) * 1000;
  std::vector<std::unique_ptr<Worker>> workers;
  if (crew.complete) workers.push_back(std::make_unique<CompleteWorker>(options, seed++));
  if (crew.benders && phase == 2 && options.benders) {
    workers.push_back(std::make_unique<BendersWorker>(options, seed++));
  }
  if (crew.complete && phase == 2 && options.covering_stages && !is_free) {
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
  for (int i = 0; i < crew.reorderings; ++i) workers.push_back(std::make_unique<ReorderWorker>(seed++));
  for (int i = 0; i < crew.joints; ++i) workers.push_back(std::make_unique<JointAnnealingWorker>(seed++));
  const int most_for_every_round = is_free ? kMostOpsForFreeEveryRound : kMostOpsForEveryRound;
  const bool finishes = crew.complete && instance.op_count() <= most_for_every_round;
  return {std::move(workers), finishes ? std::size_t{1} : std::size_t{0}, seed};
}

}  // namespace remora
