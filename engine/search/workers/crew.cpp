// SPDX-License-Identifier: Apache-2.0
#include "engine/search/workers/crew.hpp"

#include "engine/search/workers/cp_workers.hpp"
#include "engine/search/workers/local_workers.hpp"
#include "engine/search/workers/relaxation_workers.hpp"

namespace remora {

CrewPlan crew_plan(const SolveOptions& options) {
  if (options.strategy == Strategy::cp) return {.complete = true, .benders = true, .neighbourhoods = 3};
  switch (options.workers) {
    case Workers::all:
      return {.complete = true, .benders = true, .roundings = true, .neighbourhoods = 2, .ruins = 3, .annealings = 1};
    case Workers::complete:
      return {.complete = true};
    case Workers::lns:
      return {.neighbourhoods = 4};
    case Workers::local:
      return {.ruins = 2, .annealings = 2};
    case Workers::ruin:
      return {.ruins = 4};
    case Workers::anneal:
      return {.annealings = 4};
  }
  return {};
}

Crew::Crew(const Instance& instance, const SolveOptions& options, const CompleteSearch& complete)
    : options_(options), plan_(crew_plan(options)), seed_(static_cast<std::uint64_t>(options.seed) * 1000) {
  const bool is_small = options.workers == Workers::complete || instance.op_count() <= complete.most_ops;
  if (!plan_.complete || !is_small) return;
  add(std::make_unique<CompleteWorker>(options, next_seed()));
  if (instance.op_count() <= complete.most_ops_of_every_round) exempt_ = 1;
}

void Crew::add_neighbourhoods(SearchPhase phase) {
  for (int i = 0; i < plan_.neighbourhoods; ++i) {
    if (phase == SearchPhase::feasibility) {
      add(std::make_unique<PeakWorker>(options_, next_seed()));
    } else {
      add(std::make_unique<NeighbourhoodWorker>(options_, next_seed()));
    }
  }
  // Where there is nothing to exchange it must leave the others' draws as they are.
  if (options_.workers != Workers::complete) {
    add(std::make_unique<ExchangeWorker>(static_cast<std::uint64_t>(options_.seed)));
  }
}

Mix input_order_crew(const Instance& instance, const SolveOptions& options, SearchPhase phase) {
  Crew crew(instance, options, {.most_ops = 10'000, .most_ops_of_every_round = 200});
  const bool shortens = phase == SearchPhase::duration;
  if (crew.plan().benders && shortens && options.benders && options.mip != IntegerSolver::off) {
    crew.add(std::make_unique<BendersWorker>(options, crew.next_seed()));
  }
  crew.add_neighbourhoods(phase);
  crew.add<RuinWorker>(crew.plan().ruins);
  crew.add<AnnealingWorker>(crew.plan().annealings);
  // Where it has nothing to do it must leave the others' draws as they are.
  if (crew.plan().roundings && options.period_bound) {
    crew.add_for_every_round(Crew::of_fixed_modes<RoundingWorker>(static_cast<std::uint64_t>(options.seed)));
  }
  return crew.mix();
}

}  // namespace remora
