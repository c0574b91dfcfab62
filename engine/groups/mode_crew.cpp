// SPDX-License-Identifier: Apache-2.0
#include "engine/groups/mode_crew.hpp"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/groups/composition.hpp"
#include "engine/search/workers/complete_worker.hpp"
#include "engine/search/workers/crew.hpp"

namespace remora {
namespace {

/// Each with draws of its own.
constexpr int kCompositionsARound = 3;
/// Rounds of one worker don't draw what another draws.
constexpr std::uint64_t kRounds = 1'000'000;

/// A composition from the incumbent on, with other draws in every round.
class CompositionWorker : public Worker {
 public:
  CompositionWorker(const SolveOptions& options, std::uint64_t seed) : options_(options), seed_(seed * kRounds) {}

  [[nodiscard]] Source source() const override { return Source::modes; }

  RoundResult run(const RoundInput& input) override {
    const std::vector<Compute> incumbent = input.incumbent.computes(input.instance);
    const CompositionLimits limits{.effort = input.effort, .interrupted = input.interrupted};
    const Composition found = compose(input.instance, options_, seed_++, limits, incumbent);
    RoundResult result;
    result.work = work_of(found.effort, EffortOfWork::model);
    if (found.complete) result.lower_bound = found.extra;
    Solution solution = make_solution(input.instance, found.sequence);
    if (better(input.instance, solution, input.incumbent)) result.solution = std::move(solution);
    return result;
  }

 private:
  SolveOptions options_;
  std::uint64_t seed_;
};

}  // namespace

Mix mode_crew(const Instance& /*instance*/, const SolveOptions& options, SearchPhase /*phase*/) {
  const CrewPlan plan = crew_plan(options.strategy);
  std::uint64_t seed = static_cast<std::uint64_t>(options.seed) * 1000;
  std::vector<std::unique_ptr<Worker>> workers;
  if (plan.complete) workers.push_back(std::make_unique<CompleteWorker>(options, seed++));
  if (options.strategy != Strategy::complete) {
    for (int i = 0; i < kCompositionsARound; ++i)
      workers.push_back(std::make_unique<CompositionWorker>(options, seed++));
  }
  return {std::move(workers), plan.complete ? std::size_t{1} : std::size_t{0}, seed};
}

}  // namespace remora
