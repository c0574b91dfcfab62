// SPDX-License-Identifier: Apache-2.0
#include "engine/groups/fixed_modes.hpp"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "engine/search/workers/local_workers.hpp"
#include "model/evaluate.hpp"
#include "model/sequence.hpp"

namespace remora {
namespace {

std::vector<ModeNumber> modes_of_first_runs(const Instance& instance, std::span<const Compute> runs) {
  std::vector<ModeNumber> modes(static_cast<std::size_t>(instance.op_count()), -1);
  for (const Compute& run : runs) {
    ModeNumber& mode = modes[run.op.index()];
    if (mode < 0) mode = run.mode;
  }
  return modes;
}

}  // namespace

std::optional<Instance> with_fixed_modes(const Instance& instance, const std::vector<ModeNumber>& modes) {
  auto graph = std::make_shared<Graph>(instance.graph());
  for (const OpId v : instance.ops()) {
    Op& op = (*graph)[v];
    if (!op.modes) continue;
    const Mode mode = mode_of(instance.graph(), v, modes[v.index()]);
    if (!mode.inner.empty()) return std::nullopt;
    op.duration = mode.duration;
    op.workspace = mode.workspace;
    for (std::size_t i = 0; i < op.outputs.size(); ++i) (*graph)[op.outputs[i]].size = mode.output_sizes[i];
    // First runs keep the graph's order, whatever they read.
    for (const TensorId t : mode.unread) {
      std::erase(op.inputs, t);
      if (instance.producer(t).valid()) op.after.push_back(instance.producer(t));
    }
    op.max_computes = std::min(instance.max_computes(v), instance.most_computes(v) / mode.computes);
    op.in_place.clear();
    op.modes.reset();
  }
  return Instance(std::move(graph), instance.problem());
}

bool FixedModesWorker::ready(const RoundInput& input) {
  return std::ranges::any_of(input.instance.ops(), [&](OpId op) { return input.instance.max_computes(op) > 1; });
}

RoundResult FixedModesWorker::run(const RoundInput& input) {
  const std::vector<Compute> incumbent = input.incumbent.computes(input.instance);
  std::vector<ModeNumber> modes = modes_of_first_runs(input.instance, incumbent);
  if (modes != modes_) {
    modes_ = std::move(modes);
    plain_ = with_fixed_modes(input.instance, modes_);
    inner_ = std::make_unique<RuinWorker>(seed_);
  }
  if (!plain_) return {};
  const Solution begin =
      make_solution(*plain_, within_limits(*plain_, plan_of(*plain_, ops_of(std::span<const Compute>(incumbent)))));
  const RoundInput plain{*plain_, begin, Duration(0), no_facts_, input.interrupted, input.effort, input.work};
  RoundResult result = inner_->run(plain);
  std::vector<Compute> runs = (result.solution ? *result.solution : begin).computes(*plain_);
  for (Compute& run : runs) run.mode = modes_[run.op.index()];
  result.solution.reset();
  result.lower_bound = Duration(0);
  result.infeasible = false;
  if (!modes_hold(input.instance, runs)) return result;
  Solution found = make_solution(input.instance, runs);
  if (better(input.instance, found, input.incumbent)) result.solution = std::move(found);
  return result;
}

}  // namespace remora
