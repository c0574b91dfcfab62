// SPDX-License-Identifier: Apache-2.0
//
// A compiler pass in miniature: a training step of a small multilayer perceptron, built by calls, scheduled under 75 %
// of its peak, and printed as the runtime would execute it.
#include <atomic>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <remora/remora.hpp>

namespace {

using remora::Bytes;
using remora::Duration;
using remora::OpId;
using remora::TensorId;

/// Layers forward, a loss, layers backward; a gradient reads the layer's input and the gradient after it.
std::shared_ptr<const remora::Graph> training_step(int layers) {
  auto graph = std::make_shared<remora::Graph>();
  graph->name = "perceptron";
  graph->fixed_memory = Bytes(64 << 20);
  std::vector<TensorId> activations{graph->add_tensor("input", Bytes(4 << 20))};
  std::vector<OpId> forward;
  for (int layer = 0; layer < layers; ++layer) {
    const std::string name = "layer" + std::to_string(layer);
    const TensorId output = graph->add_tensor(name + ".out", Bytes(8 << 20));
    forward.push_back(graph->add_op({.name = name,
                                     .duration = Duration(1000),
                                     .inputs = {activations.back()},
                                     .outputs = {output},
                                     .phase = remora::Phase::forward}));
    activations.push_back(output);
  }
  TensorId gradient = graph->add_tensor("loss.grad", Bytes(1 << 20));
  graph->add_op({.name = "loss",
                 .duration = Duration(100),
                 .inputs = {activations.back()},
                 .outputs = {gradient},
                 .phase = remora::Phase::loss});
  for (int layer = layers - 1; layer >= 0; --layer) {
    const auto at = static_cast<std::size_t>(layer);
    const std::string name = "layer" + std::to_string(layer) + ".grad";
    const TensorId weights = graph->add_tensor(name + ".weights", Bytes(1 << 20), /*keep=*/true);
    const TensorId before = graph->add_tensor(name + ".input", Bytes(8 << 20));
    graph->add_op({.name = name,
                   .duration = Duration(2000),
                   .inputs = {activations[at], gradient},
                   .outputs = {weights, before},
                   .phase = remora::Phase::backward,
                   .backward_of = forward[at]});
    gradient = before;
  }
  return graph;
}

void print_steps(const remora::Graph& graph, const remora::Schedule& schedule) {
  std::vector<int> runs(graph.ops.size());
  for (const remora::Step& step : schedule.steps) {
    const remora::Op& op = graph.ops[static_cast<std::size_t>(step.op)];
    std::printf("%s%s", op.name.c_str(), runs[static_cast<std::size_t>(step.op)]++ > 0 ? " again" : "");
    for (const TensorId t : step.free) {
      std::printf(", free %s", graph.tensors[static_cast<std::size_t>(t)].name.c_str());
    }
    std::printf("\n");
  }
}

}  // namespace

int main() {
  try {
    const auto graph = training_step(8);
    remora::Request request{.graph = graph};
    request.budget = remora::budget_of("75%", request);
    request.options.time_limit = 10;
    std::atomic<bool> cancel = false;  // another thread may set it
    remora::SolveCallbacks callbacks;
    callbacks.cancel = &cancel;
    callbacks.incumbent = [](const remora::Schedule& schedule) {
      std::printf("incumbent: overhead %.2f %%\n", 100 * schedule.overhead());
    };
    const remora::Answer answer = remora::solve(request, callbacks);
    const remora::Schedule& schedule = answer.schedule;  // replayed
    if (!schedule.has_schedule()) {
      std::printf("%s\n", remora::text::refusal_line(*graph, schedule, answer.refusal).c_str());
      return 1;
    }
    print_steps(*graph, schedule);
    std::printf("overhead %.2f %%%s, peak %lld of %lld bytes\n", 100 * schedule.overhead(),
                schedule.status == remora::Status::optimal ? " (optimal)" : "",
                static_cast<long long>(schedule.peak_memory.count()),
                static_cast<long long>(schedule.baseline_peak_memory.count()));
  } catch (const remora::InputError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 65;
  }
  return 0;
}
