// SPDX-License-Identifier: Apache-2.0
//
// What a reader takes, its writer writes, and the reader takes that again.
#include <algorithm>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "frontends/batch/manifest.hpp"
#include "frontends/batch/question.hpp"
#include "frontends/formats/interchange.hpp"
#include "frontends/formats/json.hpp"
#include "frontends/hlo/reader.hpp"
#include "frontends/hlo/sliceable.hpp"
#include "frontends/machine/machine.hpp"
#include "frontends/tflite/arena.hpp"
#include "frontends/tflite/writer.hpp"
#include "model/budget.hpp"
#include "model/error.hpp"
#include "model/verify.hpp"
#include "tests/frontends/formats/samples.hpp"
#include "tests/fuzz/target.hpp"

namespace remora::fuzz {
namespace {

template <class Write>
std::string text_of(const Write& write) {
  std::ostringstream out;
  write(out);
  return std::move(out).str();
}

void expect_written_again(const Graph& graph) {
  const auto write = [](const Graph& one) { return text_of([&](std::ostream& out) { json::write_graph(out, one); }); };
  std::string text;
  try {
    text = write(graph);
  } catch (const InputError&) {
    return;  // names of other formats that JSON cannot hold
  }
  expect(write(json::read_graph(json::Text(text))) == text, "a written graph is read as it was");
}

const Graph& sample() {
  static const Graph graph = json::read_graph(json::Text(json::kEveryKey));
  return graph;
}

/// The example of docs/guide/devices.md's format: two devices and a link each way.
constexpr std::string_view kTwoDevices = R"({"format": "remora-graph", "version": 2, "name": "two-devices",
 "devices": [{"name": "gpu"}, {"name": "cpu"}],
 "links": [{"from": "gpu", "to": "cpu", "latency": 1, "bytes": 2, "per": 1},
           {"from": "cpu", "to": "gpu", "latency": 1, "bytes": 2, "per": 1}],
 "tensors": [{"name": "x", "size": 4, "home": ["cpu"]}, {"name": "a", "size": 2},
             {"name": "b", "size": 2, "keep": true, "home": "gpu"}],
 "ops": [{"name": "A", "on": {"gpu": {"duration": 1}, "cpu": {"duration": 3}}, "inputs": ["x"], "outputs": ["a"]},
         {"name": "B", "on": {"gpu": {"duration": 1, "workspace": 1}}, "inputs": ["a"], "outputs": ["b"]}]})";

}  // namespace

void fuzz_graph(Input bytes) {
  static_cast<void>(json::names_devices(json::Text(bytes)));
  expect_written_again(json::read_graph(json::Text(bytes)));
}

void fuzz_schedule(Input bytes) {
  static_cast<void>(json::read_reading(json::Text(bytes)));
  const Schedule schedule = json::read_schedule(json::Text(bytes), sample());
  const bool valid = verify(sample(), schedule).valid();
  const std::string text = text_of([&](std::ostream& out) { json::write_schedule(out, schedule, sample()); });
  expect(verify(sample(), json::read_schedule(json::Text(text), sample())).valid() == valid,
         "a schedule stays as valid");
}

void fuzz_device_graph(Input bytes) {
  const DeviceGraph graph = json::read_device_graph(json::Text(bytes));
  const auto write = [](const DeviceGraph& one) {
    return text_of([&](std::ostream& out) { json::write_graph(out, one); });
  };
  const std::string text = write(graph);
  expect(write(json::read_device_graph(json::Text(text))) == text, "a written device graph is read as it was");
}

void fuzz_device_schedule(Input bytes) {
  static const DeviceGraph graph = json::read_device_graph(json::Text(kTwoDevices));
  const DeviceSchedule schedule = json::read_schedule(json::Text(bytes), graph);
  const bool valid = verify(graph, schedule).valid();
  const std::string text = text_of([&](std::ostream& out) { json::write_schedule(out, schedule, graph); });
  expect(verify(graph, json::read_schedule(json::Text(text), graph)).valid() == valid,
         "a device schedule stays as valid");
}

void fuzz_curve(Input bytes) {
  static_cast<void>(json::is_curve(json::Text(bytes)));
  const Curve curve = json::read_curve(json::Text(bytes));
  const auto write = [](const Curve& one) { return text_of([&](std::ostream& out) { json::write_curve(out, one); }); };
  const std::string text = write(curve);
  expect(write(json::read_curve(json::Text(text))) == text, "a written curve is read as it was");
}

void fuzz_buffers(Input bytes) {
  const std::vector<Buffer> buffers = interchange::read_buffers(bytes, "b.csv");
  const std::string text = text_of([&](std::ostream& out) { interchange::write_buffers(out, buffers); });
  expect(interchange::read_buffers(text, "b.csv").size() == buffers.size(), "written buffers are read as they were");
}

void fuzz_costs(Input bytes) {
  Graph graph = sample();
  const interchange::CostTable table = interchange::read_costs(bytes, "c.csv");
  static_cast<void>(
      interchange::apply_costs(graph, table, interchange::cost_names(graph), [](OpId, OpId) { return 2.0; }));
  expect_written_again(graph);
}

void fuzz_hlo(Input bytes) {
  static_cast<void>(hlo::looks_like_module(bytes));
  const hlo::LoweredModule module = hlo::lower_module(std::string(bytes), "module", {});
  Sequence order;
  for (std::size_t op = 0; op < module.graph.ops.size(); ++op) order.emplace_back(op);
  expect(hlo::stale_reads(module, order).empty(), "the order of the graph reads nothing that is destroyed");
  expect(!hlo::rewrite_module(module, order).empty(), "a module is written");
  const hlo::SliceableGraph sliceable = hlo::sliceable_graph(module);
  for (const OpId op : order) {
    if (sliceable.graph[op].axes.empty()) continue;
    const Region region{.parts = {{{op, 0}}}, .slices = 2};
    expect(!hlo::slice_module(module, sliceable, std::span(&region, 1)).empty(), "a module in slices is written");
    break;
  }
}

void fuzz_tflite(Input bytes) {
  static_cast<void>(tflite::looks_like_model(bytes));
  const tflite::ArenaTensors tensors = tflite::read_arena_tensors(bytes, "model");
  std::vector<Bytes> offsets;
  Bytes end;
  for (const Buffer& buffer : tensors.buffers) {
    offsets.push_back(end);
    // Beyond what a plan can say, which is refused.
    end = std::min(end + buffer.size, Bytes(std::int64_t{1} << 40));
  }
  const std::string planned = tflite::with_plan(bytes, "model", tensors, offsets);
  const std::vector<std::int32_t> plan = tflite::read_plan(planned, "planned");
  expect(plan.size() == tensors.count, "a plan has an offset for each tensor");
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    expect(plan[tensors.numbers[i]] == offsets[i].count(), "a plan that is read is the one that was written");
  }
  const tflite::LoweredModel lowered = tflite::lower_model(bytes, "model");
  // Each op in slices, along its first axis; what has no independent slices is refused.
  for (std::size_t v = 0; v < std::min<std::size_t>(lowered.graph.ops.size(), 8); ++v) {
    if (lowered.graph.ops[v].axes.empty()) continue;
    const std::vector<Region> regions{{.parts = {{{OpId(v), 0}}}, .slices = 3}};
    const SlicedGraph sliced = slice(lowered.graph, regions, tflite::slice_run());
    Sequence order;
    for (const OpId op : sliced.ops.ids()) order.push_back(op);
    const std::string written = tflite::rewrite_model(bytes, lowered, regions, sliced, order);
    static_cast<void>(tflite::lower_model(written, "rewritten"));
  }
}

void fuzz_device(Input bytes) {
  static_cast<void>(read_machine(bytes, "device"));
}

void fuzz_manifest(Input bytes) {
  const auto check = [](batch::Task& task) {
    if (task.budget.empty()) throw InputError("$.budget", "is missing");
  };
  const batch::Manifest manifest = batch::read_manifest(bytes, "/folder", check);
  if (!manifest.faults.empty()) return;
  const std::string text = batch::manifest_text(manifest.tasks);
  const batch::Manifest again = batch::read_manifest(text, "/other", check);
  expect(again.faults.empty() && batch::manifest_text(again.tasks) == text, "a written manifest is read as it was");
}

void fuzz_record(Input bytes) {
  try {
    static_cast<void>(batch::read_error(bytes));
  } catch (const InputError&) {
  }
  try {
    static_cast<void>(batch::read_figures(bytes));
  } catch (const InputError&) {
  }
  static_cast<void>(batch::utf8_text(std::string(bytes)));
  // Whatever the key: that of the record is worked out before the two are compared.
  static_cast<void>(batch::read_record(bytes, std::string(64, '0')));
}

void fuzz_budget(Input bytes) {
  const Bytes fixed(1000);
  const Bytes peak(std::int64_t{1} << 40);
  expect(parse_budget(std::string(bytes), fixed, peak) >= Bytes(0), "a budget is not negative");
}

}  // namespace remora::fuzz
