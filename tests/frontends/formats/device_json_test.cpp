// SPDX-License-Identifier: Apache-2.0
//
// Graphs and schedules of several devices: read, refused by path, written, replayed.
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "frontends/formats/json.hpp"
#include "model/devices/schedule.hpp"
#include "tests/frontends/formats/samples.hpp"

namespace remora::json {
namespace {

constexpr const char* kTwoDevices = R"({"format": "remora-graph", "version": 2, "name": "two-devices",
 "devices": [{"name": "gpu"}, {"name": "cpu", "fixed_memory": 0}],
 "links": [{"from": "gpu", "to": "cpu", "latency": 1, "bytes": 2, "per": 1}, {"from": "cpu", "to": "gpu", "latency": 1, "bytes": 2, "per": 1, "energy": 4}],
 "tensors": [{"name": "x", "size": 4, "home": ["cpu"]}, {"name": "a", "size": 2}, {"name": "b", "size": 2, "keep": true, "home": "gpu"}],
 "ops": [{"name": "A", "on": {"gpu": {"duration": 1}, "cpu": {"duration": 3, "energy": 2}}, "inputs": ["x"], "outputs": ["a"]},
         {"name": "B", "on": {"gpu": {"duration": 1, "workspace": 1}}, "inputs": ["a"], "outputs": ["b"]}]})";

DeviceGraph two_devices() {
  return read_device_graph(Text(kTwoDevices));
}

constexpr DeviceId kGpu(0);
constexpr DeviceId kCpu(1);

TEST(DeviceGraph, IsReadAndWritten) {
  EXPECT_TRUE(names_devices(Text(kTwoDevices)));
  EXPECT_FALSE(names_devices(Text(kFigure1)));
  EXPECT_FALSE(names_devices(Text(R"({"devices": )")));
  const DeviceGraph graph = two_devices();
  ASSERT_EQ(graph.devices.size(), 2U);
  EXPECT_EQ(graph.places[TensorId(0)].home, std::vector<DeviceId>{kCpu});
  EXPECT_EQ(graph.runs[OpId(0)].size(), 2U);
  EXPECT_EQ(run_cost(graph, OpId(1), kCpu), nullptr);
  EXPECT_EQ(copy_cost(graph, TensorId(0), kCpu, kGpu), (CopyCost{Duration(3), Energy(4)}));
  EXPECT_EQ(copy_cost(graph, TensorId(0), kGpu, kGpu), std::nullopt);
}

/// Of the graph with something replaced.
void expect_faults(std::string_view graph, const std::vector<Malformed>& faults) {
  for (const Malformed& fault : faults) {
    SCOPED_TRACE(std::string(fault.from) + " -> " + std::string(fault.to));
    const std::string text = replaced(graph, fault.from, fault.to);
    ASSERT_FALSE(text.empty());
    const Fault found = fault_of([&] { static_cast<void>(read_device_graph(Text(text))); });
    EXPECT_EQ(found.place, fault.place) << found.what;
    EXPECT_NE(found.what.find(fault.fragment), std::string::npos) << found.what;
  }
}

TEST(DeviceGraph, NamesThePlaceOfEveryFault) {
  const std::vector<Malformed> faults = {
      {R"([{"name": "gpu"}, {"name": "cpu", "fixed_memory": 0}])", "[]", "$.links[0].from", "no device"},
      {R"("fixed_memory": 0})", R"("fixed_memory": -1})", "$.devices[1].fixed_memory", "negative"},
      {R"({"name": "cpu", "fixed_memory": 0})", R"({"name": "gpu"})", "$.links[0].to", R"(no device "cpu")"},
      {R"("name": "two-devices",)", R"("name": "n", "fixed_memory": 3,)", "$.fixed_memory", "must be absent"},
      {R"("from": "gpu", "to": "cpu")", R"("from": "gpu", "to": "gpu")", "$.links[0].to", "to itself"},
      {R"("from": "gpu", "to": "cpu")", R"("from": "cpu", "to": "gpu")", "$.links[1]", "a second link"},
      {R"("bytes": 2)", R"("bytes": 0)", "$.links[0].bytes", "at least 1"},
      {R"("home": ["cpu"])", R"("home": [])", "$.tensors[0].home", "names no device"},
      {R"("home": ["cpu"])", R"("home": "cpu")", "$.tensors[0].home", "must be an array"},
      {R"("home": ["cpu"])", R"("home": ["tpu"])", "$.tensors[0].home[0]", R"(no device "tpu")"},
      {R"("home": ["cpu"])", R"("copy": [{"from": "cpu", "to": "cpu", "duration": 1}])", "$.tensors[0].copy[0]",
       "no link"},
      {R"("home": "gpu")", R"("home": ["gpu"])", "$.tensors[2].home", "must be a device"},
      {R"("name": "a", "size": 2)", R"("name": "a", "size": 2, "home": "gpu")", "$.tensors[1].home", "keep"},
      {R"({"gpu": {"duration": 1, "workspace": 1}})", "{}", "$.ops[1].on", "can run nowhere"},
      {R"("gpu": {"duration": 1, "workspace": 1})", R"("tpu": {"duration": 1})", "$.ops[1].on.tpu", "no device"},
      {R"("gpu": {"duration": 1, "workspace": 1})", R"("gpu": {"workspace": 1})", "$.ops[1].on.gpu", "missing"},
      {R"("name": "B",)", R"("name": "B", "duration": 2,)", "$.ops[1].duration", "must be absent"},
      {R"("inputs": ["a"])", R"("inputs": ["y"])", "$.ops[1].inputs[0]", R"(no tensor "y")"},
      {R"("size": 4)", R"("size": 9223372036854775807)", "$.tensors[1].size", "64 bits"},
      {R"("size": 4)", R"("size": 1223372036854775807)", "$.tensors[0]", "64 bits"},
      {R"("latency": 1)", R"("latency": 9223372036854775800)", "$.tensors[0]", "64 bits"},
  };
  expect_faults(kTwoDevices, faults);
}

constexpr const char* kLanes = R"({"format": "remora-graph", "version": 3, "name": "lanes",
 "devices": [{"name": "gpu", "lanes": ["compute", "comm"]}, {"name": "cpu"}],
 "collectives": [{"kind": "all_gather", "group": 8, "times": [[10, 3], [20, 10], [30, 11]]},
                 {"kind": "all_gather", "latency": 2, "bytes": 4, "per": 3}, {"kind": "all_reduce", "bytes": 1, "per": 1}],
 "tensors": [{"name": "a", "size": 4}, {"name": "b", "size": 4}, {"name": "c", "size": 4, "keep": true}],
 "ops": [{"name": "A", "lane": "comm", "collective": {"kind": "all_gather", "bytes": 13, "group": 8}, "inputs": [], "outputs": ["a"]},
         {"name": "B", "duration": 1, "inputs": ["a"], "outputs": ["b"]},
         {"name": "C", "on": {"gpu": {"duration": 5, "lane": "comm"}, "cpu": {"duration": 7}}, "collective": {"kind": "all_reduce", "bytes": 4},
          "inputs": ["b"], "outputs": ["c"]}]})";

TEST(DeviceGraph, HasLanes) {
  EXPECT_TRUE(names_devices(Text(kLanes)));
  const DeviceGraph graph = read_device_graph(Text(kLanes));
  EXPECT_TRUE(has_lanes(graph));
  EXPECT_FALSE(has_lanes(two_devices()));
  EXPECT_EQ(run_cost(graph, OpId(0), kGpu)->lane, LaneId(1));
  EXPECT_EQ(run_cost(graph, OpId(1), kGpu)->lane, LaneId(0));
  EXPECT_EQ(run_cost(graph, OpId(2), kGpu)->lane, LaneId(1));
  EXPECT_EQ(run_cost(graph, OpId(2), kCpu)->lane, LaneId(0));
  // What is gathered may be gathered again; a sum is made once.
  EXPECT_TRUE(graph.graph[OpId(0)].recompute);
  EXPECT_FALSE(graph.graph[OpId(2)].recompute);
  std::ostringstream out;
  write_graph(out, graph);
  EXPECT_EQ(read_device_graph(Text(out.str())), graph);
  // A sum that may be made again still may once it is written.
  const DeviceGraph allowed = read_device_graph(
      Text(replaced(kLanes, R"("all_reduce", "bytes": 4},)", R"("all_reduce", "bytes": 4}, "recompute": "allowed",)")));
  EXPECT_TRUE(allowed.graph[OpId(2)].recompute);
  std::ostringstream summed;
  write_graph(summed, allowed);
  EXPECT_EQ(read_device_graph(Text(summed.str())), allowed);
  // In version 2 they are unknown keys; the gather has no duration then.
  const std::string older = replaced(kLanes, R"("version": 3)", R"("version": 2)");
  EXPECT_EQ(fault_of([&] { static_cast<void>(read_device_graph(Text(older))); }).place, "$.ops[0]");
}

TEST(DeviceGraph, TakesDurationsOfCollectivesFromTheTable) {
  const auto lasts = [](std::string_view collective) {
    const std::string text = replaced(kLanes, R"({"kind": "all_gather", "bytes": 13, "group": 8})", collective);
    return run_cost(read_device_graph(Text(text)), OpId(0), kGpu)->duration.count();
  };
  EXPECT_EQ(lasts(R"({"kind": "all_gather", "bytes": 1, "group": 8})"), 3);
  EXPECT_EQ(lasts(R"({"kind": "all_gather", "bytes": 10, "group": 8})"), 3);
  // 3 + 7 * 3 / 10, rounded up.
  EXPECT_EQ(lasts(R"({"kind": "all_gather", "bytes": 13, "group": 8})"), 6);
  EXPECT_EQ(lasts(R"({"kind": "all_gather", "bytes": 30, "group": 8})"), 11);
  EXPECT_EQ(lasts(R"({"kind": "all_gather", "bytes": 45, "group": 8})"), 17);
  EXPECT_EQ(lasts(R"({"kind": "all_gather", "bytes": 45, "group": 4})"), 36);
  EXPECT_EQ(lasts(R"({"kind": "all_gather", "bytes": 0})"), 2);
  EXPECT_EQ(lasts(R"({"kind": "all_reduce", "bytes": 9})"), 9);
}

TEST(DeviceGraph, NamesThePlaceOfFaultsInLanes) {
  const std::vector<Malformed> faults = {
      {R"(["compute", "comm"])", "[]", "$.devices[0].lanes", "names no lane"},
      {R"(["compute", "comm"])", R"(["comm", "comm"])", "$.devices[0].lanes[1]", "taken by another lane"},
      {R"("lane": "comm", "coll)", R"("lane": "copy", "coll)", "$.ops[0].lane", R"(no lane "copy")"},
      {R"("lane": "comm"})", R"("lane": "copy"})", "$.ops[2].on.gpu.lane", R"(no lane "copy")"},
      {R"({"duration": 7})", R"({"duration": 7, "lane": "comm"})", "$.ops[2].on.cpu.lane", R"("cpu" has no lane)"},
      {R"({"kind": "all_gather", "bytes": 13)", R"({"kind": "gather", "bytes": 13)", "$.ops[0].collective.kind",
       "one of"},
      {R"({"kind": "all_gather", "bytes": 13)", R"({"kind": "send", "bytes": 13)", "$.ops[0].collective",
       "has none for"},
      {R"("bytes": 13)", R"("bytes": 9223372036854775807)", "$.ops[0]", "64 bits"},
      {R"([20, 10])", R"([10, 10])", "$.collectives[0].times[1][0]", "more than"},
      {R"([20, 10])", R"([20])", "$.collectives[0].times[1]", "[bytes, duration]"},
      {R"("bytes": 4, "per": 3)", R"("bytes": 0, "per": 3)", "$.collectives[1].bytes", "1"},
      {R"("version": 3)", R"("version": 5)", "$.version", "versions 1 to 4"},
  };
  expect_faults(kLanes, faults);
}

/// The steps as a schedule with what they take.
DeviceSchedule schedule_of(const DeviceGraph& graph, const std::vector<DeviceStep>& steps) {
  const DeviceEvaluation evaluation = evaluate(graph, steps);
  EXPECT_EQ(evaluation.unsupplied, std::nullopt);
  DeviceSchedule schedule{.graph = graph.graph.name, .status = Status::feasible};
  schedule.budget.assign(graph.devices.size(), std::nullopt);
  schedule.duration = evaluation.duration;
  schedule.energy = evaluation.energy;
  schedule.peak_memory = evaluation.peak;
  schedule.steps = with_releases(evaluation, steps);
  return schedule;
}

TEST(DeviceSchedule, TheFormatsExampleTakesWhatItSays) {
  const DeviceGraph graph = two_devices();
  const DeviceStep copy_x{.copied = TensorId(0), .device = kCpu, .to = kGpu};
  const DeviceStep copy_a{.copied = TensorId(1), .device = kCpu, .to = kGpu};
  const auto run = [](int op, DeviceId device) { return DeviceStep{.op = OpId(op), .device = device}; };
  const DeviceSchedule moved = schedule_of(graph, {copy_x, run(0, kGpu), run(1, kGpu)});
  EXPECT_EQ(moved.duration, Duration(5));
  EXPECT_EQ(moved.peak_memory[kGpu], Bytes(6));
  EXPECT_TRUE(verify(graph, moved).valid()) << verify(graph, moved).errors.front();
  DeviceSchedule beside = schedule_of(graph, {run(0, kCpu), copy_a, run(1, kGpu)});
  EXPECT_EQ(beside.duration, Duration(6));
  EXPECT_EQ(beside.energy, Energy(6));
  EXPECT_EQ(beside.peak_memory[kGpu], Bytes(5));
  EXPECT_TRUE(verify(graph, beside).valid());
  beside.budget[kGpu] = Bytes(4);
  EXPECT_FALSE(verify(graph, beside).valid());
  EXPECT_EQ(evaluate(graph, std::vector<DeviceStep>{run(0, kGpu)}).unsupplied, 0);
}

TEST(DeviceSchedule, IsReadAndWritten) {
  const DeviceGraph graph = two_devices();
  const DeviceStep copy_a{.copied = TensorId(1), .device = kCpu, .to = kGpu};
  DeviceSchedule schedule =
      schedule_of(graph, {{.op = OpId(0), .device = kCpu}, copy_a, {.op = OpId(1), .device = kGpu}});
  schedule.steps[1].free.clear();
  schedule.steps[2].free.push_back({TensorId(1), kCpu});
  schedule.objective = Objective::energy;
  schedule.budget[kGpu] = Bytes(5);
  schedule.baseline_peak_memory = schedule.peak_memory;
  std::ostringstream out;
  write_schedule(out, schedule, graph);
  const DeviceSchedule again = read_schedule(Text(out.str()), graph);
  EXPECT_EQ(again.steps, schedule.steps);
  EXPECT_EQ(again.objective, Objective::energy);
  EXPECT_EQ(again.budget[kGpu], Bytes(5));
  EXPECT_EQ(again.budget[kCpu], std::nullopt);
  EXPECT_EQ(again.peak_memory[kGpu], schedule.peak_memory[kGpu]);
  EXPECT_NE(out.str().find(R"("free": ["a", ["a", "cpu"]])"), std::string::npos) << out.str();
  const auto place = [&](std::string_view from, std::string_view to) {
    const std::string text = replaced(out.str(), from, to);
    return fault_of([&] { static_cast<void>(read_schedule(Text(text), graph)); }).place;
  };
  EXPECT_EQ(place(R"("device": "cpu")", R"("device": "tpu")"), "$.steps[0].device");
  EXPECT_EQ(place(R"("copy": "a")", R"("copy": "y")"), "$.steps[1].copy");
  EXPECT_EQ(place(R"(["a", "cpu"])", R"(["a"])"), "$.steps[2].free[1]");
  EXPECT_EQ(place(R"("energy")", R"("speed")"), "$.objective");
}

}  // namespace
}  // namespace remora::json
