// SPDX-License-Identifier: Apache-2.0
//
// A GPU with a host's memory beside it: eight layers there and back, whose activations are copied out and in again, or made again,
// while half of them fit.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <remora/remora.hpp>

namespace {

using remora::Bytes;
using remora::DeviceId;
using remora::Duration;
using remora::TensorId;

constexpr DeviceId kGpu{0};
constexpr DeviceId kHost{1};

std::shared_ptr<const remora::DeviceGraph> there_and_back(int layers) {
  auto graph = std::make_shared<remora::DeviceGraph>();
  remora::Graph& ops = graph->graph;
  ops.name = "there and back";
  graph->devices.push_back({.name = "gpu"});
  graph->devices.push_back({.name = "host"});  // runs nothing: a store
  for (const auto& [from, to] : {std::pair(kGpu, kHost), std::pair(kHost, kGpu)}) {
    graph->links.push_back({.from = from, .to = to, .latency = Duration(10), .bytes = Bytes(1024), .per = Duration(1)});
  }
  const auto add = [&](const std::string& name, std::vector<TensorId> inputs, bool keep) {
    const TensorId output = ops.add_tensor(name + ".out", Bytes(1 << 20), keep);
    graph->places.push_back({});
    ops.add_op({.name = name, .inputs = std::move(inputs), .outputs = {output}});
    graph->runs.push_back({{.device = kGpu, .duration = Duration(1000)}});
    return output;
  };
  std::vector<TensorId> outputs;
  for (int layer = 0; layer < layers; ++layer) {
    const std::string name = "layer" + std::to_string(layer);
    outputs.push_back(add(name, outputs.empty() ? outputs : std::vector<TensorId>{outputs.back()}, false));
  }
  TensorId gradient = outputs.back();
  for (int layer = layers - 2; layer >= 0; --layer) {
    const TensorId activation = outputs[static_cast<std::size_t>(layer)];
    gradient = add("layer" + std::to_string(layer) + ".grad", {activation, gradient}, layer == 0);
  }
  remora::validate(*graph);
  return graph;
}

void print_steps(const remora::DeviceGraph& graph, const remora::DeviceSchedule& schedule) {
  for (const remora::DeviceStep& step : schedule.steps) {
    if (step.is_copy()) {
      std::printf("copy %s from %s to %s", graph.graph[step.copied].name.c_str(),
                  graph.devices[step.device].name.c_str(), graph.devices[step.to].name.c_str());
    } else {
      std::printf("run %s on %s", graph.graph[step.op].name.c_str(), graph.devices[step.device].name.c_str());
    }
    for (const auto& [tensor, device] : step.free) std::printf(", free %s", graph.graph[tensor].name.c_str());
    std::printf("\n");
  }
}

}  // namespace

int main() {
  try {
    const auto graph = there_and_back(8);
    remora::devices::Request request{.graph = graph};
    request.budget.assign(graph->devices.size(), std::nullopt);
    request.budget[kGpu] = Bytes(5 << 20);  // the host has no limit
    request.copies = remora::CopyMode::overlap;
    request.options.work_limit = 2000;
    request.options.time_limit = 60;
    remora::devices::Callbacks callbacks;
    callbacks.progress = [](const remora::Progress& news) {
      if (news.phase > 1)
        std::printf("%s: %lld\n", source_name(news.source), static_cast<long long>(news.duration.count()));
    };
    const remora::devices::Answer answer = remora::devices::solve(request, callbacks);
    const remora::DeviceSchedule& schedule = answer.schedule;
    if (!schedule.has_schedule()) {
      std::printf("%s\n", remora::text::refusal_line(*graph, schedule, answer.refusal).c_str());
      return 1;
    }
    print_steps(*graph, schedule);
    std::printf("duration %lld, at least %lld; %lld bytes on the GPU\n",
                static_cast<long long>(schedule.duration.count()), static_cast<long long>(schedule.lower_bound),
                static_cast<long long>(schedule.peak_memory[kGpu].count()));
    return 0;
  } catch (const remora::InputError& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
}
