// SPDX-License-Identifier: Apache-2.0
//
// Neighbourhoods of the retention model: what posting one costs, and how many search nodes a second Gecode makes in it.
// Generated layered graphs (seed 1) at a budget of 90 %, from a schedule that a short search under a work limit found;
// the neighbourhoods are those of the large-neighbourhood search.
#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include <benchmark/benchmark.h>

#include "engine/ask/problem.hpp"
#include "engine/search/neighbourhood.hpp"
#include "engine/search/solution.hpp"
#include "frontends/generate/layered.hpp"
#include "model/cp/solve_retention.hpp"

namespace remora {
namespace {

constexpr int kFreeOps = 25;
constexpr std::int64_t kNodes = 600;
constexpr std::size_t kNeighbourhoods = 64;
/// Search nodes an op, enough for a first schedule and then some.
constexpr std::int64_t kWarmUpWork = 400;

struct Scene {
  std::unique_ptr<Instance> instance{};
  RecomputePlan plan{};
  Duration extra{};
  std::vector<std::vector<OpId>> neighbourhoods{};
};

Scene make_scene(int ops) {
  // The published members' density: RL250 has 944 edges, RL1000 has 5875.
  const std::int64_t edges = ops == 1000 ? 5875 : 944;
  const auto graph = std::make_shared<const Graph>(generate::generate_layered({.ops = ops, .edges = edges}));
  const Instance unlimited(graph, {});
  Scene scene;
  scene.instance = std::make_unique<Instance>(unlimited.with_budget(Bytes(baseline_peak(unlimited).count() * 9 / 10)));
  SolveOptions options;
  options.time_limit = kNoTimeLimit;
  options.work_limit = kWarmUpWork * ops;
  const Schedule schedule = solve(*scene.instance, options);
  Sequence sequence;
  for (const Step& step : schedule.steps) sequence.push_back(step.op);
  scene.plan = plan_of(*scene.instance, sequence);
  scene.extra = schedule.duration - scene.instance->baseline_duration();
  const ScheduleView view(*scene.instance, computes_of(sequence_of(*scene.instance, scene.plan)));
  Random random(1);
  while (scene.neighbourhoods.size() < kNeighbourhoods) {
    const Relaxation relaxation = kRelaxations[scene.neighbourhoods.size() % kRelaxations.size()];
    auto free_ops = relax(view, relaxation, kFreeOps, random);
    if (free_ops.size() == kFreeOps) scene.neighbourhoods.push_back(std::move(free_ops));
  }
  return scene;
}

const Scene& scene_of(int ops) {
  static std::map<int, Scene> scenes;
  const auto at = scenes.find(ops);
  return at != scenes.end() ? at->second : scenes.emplace(ops, make_scene(ops)).first->second;
}

cp::RetentionProblem problem_of(const Scene& scene, std::size_t number) {
  return {*scene.instance,
          computes_of(sequence_of(*scene.instance, scene.plan)),
          scene.neighbourhoods[number % kNeighbourhoods],
          {scene.instance->budget(), scene.extra}};
}

/// Time for one neighbourhood: the constant problem and Gecode's root space.
void post_neighbourhood(benchmark::State& state) {
  const Scene& scene = scene_of(static_cast<int>(state.range(0)));
  std::size_t number = 0;
  for (auto _ : state) {
    const cp::RetentionProblem problem = problem_of(scene, number++);
    const cp::RetentionSearch search(problem, {});
    benchmark::DoNotOptimize(&search);
  }
}
BENCHMARK(post_neighbourhood)->Arg(250)->Arg(1000)->Unit(benchmark::kMicrosecond);

/// Search alone, without posting; the counter is nodes a second.
void search_neighbourhood(benchmark::State& state) {
  const Scene& scene = scene_of(static_cast<int>(state.range(0)));
  std::size_t number = 0;
  std::int64_t nodes = 0;
  for (auto _ : state) {
    state.PauseTiming();
    const cp::RetentionProblem problem = problem_of(scene, number);
    cp::SearchSettings settings;
    settings.noise = 0.2;
    settings.seed = ++number;
    auto search = std::make_unique<cp::RetentionSearch>(problem, settings);
    state.ResumeTiming();
    nodes += search->advance(kNodes).nodes;
    state.PauseTiming();
    search.reset();
    state.ResumeTiming();
  }
  state.counters["nodes"] = benchmark::Counter(static_cast<double>(nodes), benchmark::Counter::kIsRate);
}
BENCHMARK(search_neighbourhood)->Arg(250)->Arg(1000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace remora
