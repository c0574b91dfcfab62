// SPDX-License-Identifier: Apache-2.0
//
// For a compiler that is built without exceptions: the C interface as C++ classes. Built with -fno-exceptions -fno-rtti.
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include <remora_c.hpp>

namespace {

int failed(const remora::c::Checked& what) {
  std::fprintf(stderr, "%s\n", what.error().c_str());
  return 65;
}

}  // namespace

int main() {
  constexpr int kLayers = 10;
  remora::c::Graph graph("skips");
  std::vector<std::int32_t> outputs;
  for (int layer = 0; layer < kLayers; ++layer) {
    std::vector<std::int32_t> inputs;
    if (layer > 0) inputs.push_back(outputs.back());
    if (layer >= kLayers / 2) inputs.push_back(outputs[static_cast<std::size_t>(kLayers - 1 - layer)]);
    outputs.push_back(graph.add_tensor(("t" + std::to_string(layer)).c_str(), 1 << 20, layer == kLayers - 1));
    graph.add_op(("layer" + std::to_string(layer)).c_str(), 100, inputs, {outputs.back()});
  }
  graph.set(remora_graph_set_fixed_memory, std::int64_t{1} << 20);

  remora::c::Options options;
  options.set("time-limit", "10");
  const remora::c::Instance instance(graph, "75%");
  const remora::c::Schedule schedule(instance, &options);
  // Whatever failed on the way is told here.
  if (!schedule.ok()) return failed(schedule);
  if (!schedule.found()) return 1;
  for (std::size_t step = 0; step < schedule.step_count(); ++step) {
    std::printf("%s", remora_graph_op_name(graph.get(), schedule.op(step)));
    for (std::size_t i = 0; i < schedule.release_count(step); ++i) {
      std::printf(", free %s", remora_graph_tensor_name(graph.get(), schedule.release(step, i)));
    }
    std::printf("\n");
  }
  std::printf("overhead %.2f %%\n", 100 * schedule.overhead());

  // A mistake is told once, by all that is made of it.
  remora::c::Graph wrong("wrong");
  wrong.add_tensor("a", 1);
  wrong.add_tensor("a", 1);
  const remora::c::Schedule none(remora::c::Instance(wrong, "75%"));
  std::printf("a mistake: %s\n", none.error().c_str());
  return none.ok() ? 1 : 0;
}
