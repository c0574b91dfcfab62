// SPDX-License-Identifier: Apache-2.0
//
// The covering relaxation alone, from the instance to CBC's bound, on generated layered graphs (seed 1) at a budget of
// 80 %. The counters are the bounds in percent of the baseline duration, and whether the integer program was solved.
#include <memory>

#include <benchmark/benchmark.h>

#include "engine/bound/cover_mip.hpp"
#include "frontends/generate/layered.hpp"
#include "model/evaluate.hpp"

namespace remora {
namespace {

constexpr double kSeconds = 10;

void bound_layered(benchmark::State& state) {
  const auto graph = std::make_shared<const Graph>(generate::generate_layered({.ops = state.range(0), .seed = 1}));
  const Instance unlimited(graph, {});
  const Instance instance = unlimited.with_budget(Bytes(baseline_peak(unlimited).count() * 4 / 5));
  CoverMipResult result;
  for (auto _ : state) {
    CoverMipLimits limits;
    limits.seconds = kSeconds;
    result = solve_cover_mip(covering_relaxation(instance), limits);
  }
  const auto percent = [&](Duration extra) {
    return 100.0 * static_cast<double>(extra.count()) / static_cast<double>(instance.baseline_duration().count());
  };
  state.counters["lp"] = percent(result.priced.bound);
  state.counters["bound"] = percent(result.bound);
  state.counters["solved"] = result.complete ? 1 : 0;
}
BENCHMARK(bound_layered)->Arg(500)->Arg(1000)->Arg(5000)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace remora
