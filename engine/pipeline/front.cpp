// SPDX-License-Identifier: Apache-2.0
#include "engine/pipeline/front.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/ask/ask.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"

namespace remora {
namespace {

/// The first backward op.
OpId border_of(const Graph& graph) {
  const auto first =
      std::find_if(graph.ops.begin(), graph.ops.end(), [](const Op& op) { return op.phase == Phase::backward; });
  if (first == graph.ops.end()) throw InputError("ops", "a stage needs ops with \"phase\": \"backward\"");
  const auto late = std::find_if(first, graph.ops.end(), [](const Op& op) { return op.phase != Phase::backward; });
  if (late != graph.ops.end()) {
    throw InputError("ops[" + std::to_string(late - graph.ops.begin()) + "]",
                     "a stage's forward ops come before all its backward ops");
  }
  return OpId(static_cast<std::size_t>(first - graph.ops.begin()));
}

/// The graph with a stand-in before op `border`, which takes the workspace.
Graph with_border(const Graph& graph, OpId border, Bytes workspace) {
  Graph result = graph;
  result.ops = {};
  const auto moved = [&](OpId op) { return op >= border ? OpId(op + 1) : op; };
  for (OpId v(0); v.index() < graph.ops.size(); v = OpId(v + 1)) {
    if (v == border) {
      Op stand_in{.name = "", .workspace = workspace, .recompute = false, .phase = Phase::loss};
      // Longer than the names that it must not be.
      std::size_t longest = 0;
      for (const Op& op : graph.ops) longest = std::max(longest, op.name.size());
      for (const Tensor& tensor : graph.tensors) longest = std::max(longest, tensor.name.size());
      stand_in.name.assign(longest + 1, '|');
      stand_in.outputs = {result.add_tensor(stand_in.name, Bytes(0))};
      result.add_op(std::move(stand_in));
    }
    Op op = graph[v];
    if (op.backward_of.valid()) op.backward_of = moved(op.backward_of);
    for (OpId& earlier : op.after) earlier = moved(earlier);
    result.add_op(std::move(op));
  }
  return result;
}

/// The amounts of a sequence of the graph with the stand-in.
StageMode mode_of(const Instance& instance, const Sequence& sequence, OpId stand_in) {
  const Evaluation evaluation = evaluate(instance, sequence);
  const auto border = std::find(sequence.begin(), sequence.end(), stand_in);
  const auto place = static_cast<std::size_t>(border - sequence.begin());
  const Bytes fixed = instance.graph().fixed_memory;
  StageMode mode{.saved = evaluation.memory[place] - instance.graph()[stand_in].workspace - fixed};
  for (std::size_t i = 0; i < sequence.size(); ++i) {
    const Bytes beside = evaluation.memory[i] - fixed - mode.saved;
    Bytes& most = i < place ? mode.forward_transient : mode.backward_transient;
    if (i != place) most = std::max(most, beside);
    (i < place ? mode.forward : mode.backward) += instance.graph()[sequence[i]].duration;
  }
  return mode;
}

bool is_no_better(const StageMode& a, const StageMode& b) {
  return a.forward + a.backward >= b.forward + b.backward && a.saved >= b.saved &&
         a.forward_transient >= b.forward_transient && a.backward_transient >= b.backward_transient;
}

}  // namespace

PipelineStage stage_of(const std::shared_ptr<const Graph>& graph, int modes, const SolveOptions& options,
                       const std::atomic<bool>* cancel) {
  if (modes < 2) throw InputError("modes", "must be at least 2, not " + std::to_string(modes));
  expect_one_mode(*graph, "a stage of a pipeline");
  const OpId border = border_of(*graph);
  const auto plain = std::make_shared<const Graph>(with_border(*graph, border, Bytes(0)));
  Sequence once;
  for (OpId v(0); v.index() < plain->ops.size(); v = OpId(v + 1)) once.push_back(v);
  const Instance instance(plain, {});
  PipelineStage stage{.name = graph->name, .fixed_memory = graph->fixed_memory};
  stage.modes.push_back(mode_of(instance, once, border));
  const Bytes peak = evaluate(instance, once).peak;
  const Bytes all = stage.modes.front().saved;
  Allowance allowance(limits_of(options), cancel);
  for (int i = 1; i < modes && !allowance.is_over(); ++i) {
    const Bytes saved(static_cast<std::int64_t>(Wide{all.count()} * (modes - i) / modes));
    const auto narrowed =
        std::make_shared<const Graph>(with_border(*graph, border, peak - graph->fixed_memory - saved));
    Request request{.graph = narrowed, .budget = peak, .options = within(options, allowance.share(1.0 / (modes - i)))};
    const Schedule found = solve(request, {.cancel = cancel}).schedule;
    allowance.spend(Work(found.solver.work));
    if (found.status == Status::infeasible) break;
    if (!found.has_schedule()) continue;
    StageMode mode = mode_of(Instance(narrowed, {}), ops_of(found), border);
    const bool is_new = std::none_of(stage.modes.begin(), stage.modes.end(),
                                     [&](const StageMode& other) { return is_no_better(mode, other); });
    if (is_new) stage.modes.push_back(std::move(mode));
  }
  for (std::size_t i = 0; i < stage.modes.size(); ++i) stage.modes[i].name = "mode " + std::to_string(i);
  return stage;
}

Table<StageId, PipelineStage> stages_of(const std::vector<StageSource>& sources, int modes, const SolveOptions& options,
                                        const Allowance& allowance) {
  constexpr double kShareOfModes = 0.7;
  std::map<const Graph*, PipelineStage> made;
  for (const StageSource& source : sources) {
    if (source.graph) made.try_emplace(source.graph.get());
  }
  auto graphs_left = static_cast<double>(made.size());
  Table<StageId, PipelineStage> stages;
  for (const StageSource& source : sources) {
    if (!source.graph) {
      stages.push_back(source.stage);
      continue;
    }
    PipelineStage& stage = made[source.graph.get()];
    if (stage.modes.empty()) {
      try {
        stage = stage_of(source.graph, modes, within(options, allowance.share(kShareOfModes / graphs_left)),
                         allowance.deadline().cancel());
      } catch (const InputError& error) {
        throw InputError(source.place, error.what());
      }
      --graphs_left;
    }
    stages.push_back(stage);
  }
  return stages;
}

}  // namespace remora
