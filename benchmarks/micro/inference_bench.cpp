// SPDX-License-Identifier: Apache-2.0
//
// What each inference of the retention model saves, what the branching rule, and what learned nogoods: failures and nodes of the complete
// search that proves the optimum, with all inferences, with one of them off, and by domain size. The search begins with
// the optimum's cost plus one as its bound (found beforehand), so that luck in finding schedules plays no part; it is
// stopped at kMaxNodes.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "benchmarks/instances/checkmate.hpp"
#include "frontends/generate/layered.hpp"
#include "model/cp/solve_retention.hpp"
#include "model/evaluate.hpp"

namespace remora {
namespace {

constexpr std::int64_t kMaxNodes = 2'000'000;

struct Fixture {
  std::string name{};
  std::function<Graph()> generate{};
  int percent = 100;
  int max_computes = 2;
};

struct Variant {
  std::string name{};
  cp::Inferences inferences{};
  cp::BranchingRule rule = cp::BranchingRule::overload;
  bool learn = false;
};

std::vector<Fixture> fixtures() {
  return {{"layered_100_at_90", [] { return generate::generate_layered({.ops = 100, .edges = 210, .seed = 1}); }, 90},
          {"layered_60_at_70", [] { return generate::generate_layered({.ops = 60, .seed = 3}); }, 70},
          {"layered_60_at_80_thrice", [] { return generate::generate_layered({.ops = 60, .seed = 3}); }, 80, 3},
          {"unet_at_60", [] { return instances::checkmate({.network = "unet"}); }, 60}};
}

std::vector<Variant> variants() {
  return {{"all", {}},
          {"without_forced_recompute", {.forced_recompute = false}},
          {"without_impossible_recompute", {.impossible_recompute = false}},
          {"without_useless_recompute", {.useless_recompute = false}},
          {"without_later_recompute", {.later_recompute = false}},
          {"without_cover_bound", {.cover_bound = false}},
          {"without_costly_recompute", {.costly_recompute = false}},
          {"branching_by_domain_size", {}, cp::BranchingRule::domain_size},
          {"with_nogoods", {}, cp::BranchingRule::overload, true}};
}

cp::SearchOutcome prove(const Instance& instance, Duration below, const Variant& variant) {
  const auto all = input_order(instance);
  const cp::RetentionProblem problem(instance, computes_of(input_order(instance)), all, {instance.budget(), below},
                                     variant.inferences);
  cp::SearchSettings settings;
  settings.node_limit = kMaxNodes;
  settings.rule = variant.rule;
  settings.learn = variant.learn;
  return cp::solve_retention(problem, settings);
}

/// The optimum, by raising the cutoff: a search without any would lose itself in dear schedules.
Duration optimum(const Instance& instance) {
  for (Duration below(instance.baseline_duration().count() / 500 + 1);; below += below) {
    const auto outcome = prove(instance, below, {.learn = true});
    if (outcome.sequence && outcome.complete) return outcome.extra;
  }
}

void prove_optimum(benchmark::State& state, const Fixture& fixture, const Variant& variant) {
  const auto graph = std::make_shared<const Graph>(fixture.generate());
  const Instance unlimited(graph, {.max_computes = fixture.max_computes});
  const Bytes base = unlimited.base_memory();
  const Bytes budget(base.count() + (baseline_peak(unlimited) - base).count() * fixture.percent / 100);
  const Instance instance = unlimited.with_budget(budget);
  const Duration best = optimum(instance);
  cp::SearchOutcome outcome;
  for (auto _ : state) outcome = prove(instance, best + Duration(1), variant);
  state.counters["failures"] = static_cast<double>(outcome.failures);
  state.counters["nodes"] = static_cast<double>(outcome.nodes);
  state.counters["optimum"] = static_cast<double>(best.count());
  state.counters["proved"] = outcome.complete ? 1 : 0;
}

const bool kRegistered = [] {
  for (const Fixture& fixture : fixtures()) {
    for (const Variant& variant : variants()) {
      const std::string name = "prove/" + fixture.name + "/" + variant.name;
      benchmark::RegisterBenchmark(
          name.c_str(), [fixture, variant](benchmark::State& state) { prove_optimum(state, fixture, variant); })
          ->Iterations(1)
          ->Unit(benchmark::kMillisecond);
    }
  }
  return true;
}();

}  // namespace
}  // namespace remora
