// SPDX-License-Identifier: Apache-2.0
//
// Whatever a writer writes, its reader reads, and gives back to the letter: random documents of every format that has both.
#include <functional>
#include <limits>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "frontends/formats/banks_json.hpp"
#include "frontends/formats/interchange.hpp"
#include "frontends/formats/json.hpp"
#include "frontends/formats/pipeline_json.hpp"
#include "frontends/text/text.hpp"
#include "tests/support/placement_oracle.hpp"
#include "tests/support/random_devices.hpp"
#include "tests/support/random_modes.hpp"

namespace remora::json {
namespace {

using test::chance;
using test::draw;
using text::written;

/// Names that have to be escaped, and some that are alike but for one letter.
std::string draw_name(std::mt19937& random, const std::string& begin) {
  constexpr std::array<const char*, 5> kEnds{"", "\"q\"", "\\\n\t", "\xc3\xa9\xe2\x82\xac", "/[0].x"};
  return begin + kEnds[random() % kEnds.size()];
}

Status draw_status(std::mt19937& random) {
  constexpr std::array kAll{Status::optimal, Status::feasible, Status::infeasible, Status::unknown};
  return kAll[random() % kAll.size()];
}

/// Sound ones: outputs are cut where their size allows it, some inputs with a window.
std::vector<Axis> draw_axes(std::mt19937& random, const Graph& graph, const Op& op) {
  std::vector<Axis> axes;
  for (int i = draw(random, 1, 3); i > 0; --i) {
    Axis axis{.extent = draw(random, 1, 6)};
    axis.workspace = Bytes(op.workspace.count() / axis.extent);
    for (const TensorId t : op.outputs) {
      Cut cut{.tensor = t, .step = draw(random, 1, 2)};
      cut.length = cut.step;
      cut.rows = axis.extent * cut.step - draw(random, 0, static_cast<int>(cut.step) - 1);
      const std::int64_t size = graph[t].size.count();
      cut.stride = Bytes(size / cut.rows);
      if (cut.stride.count() % 2 == 0 && chance(random, 50)) cut.stride = Bytes(cut.stride.count() / 2);
      const bool fits = cut.stride.count() > 0 && size % (cut.rows * cut.stride.count()) == 0;
      if (fits && chance(random, 80)) {
        axis.cuts.push_back(cut);
      } else {
        axis.sums.push_back(t);
      }
    }
    const bool cuts_input = !op.inputs.empty() && graph[op.inputs[0]].size == Bytes(7);
    if (cuts_input && chance(random, 50)) {
      const std::int64_t rows = chance(random, 50) ? 7 : 1;
      axis.cuts.push_back({.tensor = op.inputs[0],
                           .rows = rows,
                           .stride = Bytes(1),
                           .step = draw(random, 1, 3),
                           .offset = draw(random, -2, 2),
                           .length = draw(random, 1, 4)});
    }
    axes.push_back(std::move(axis));
  }
  return axes;
}

Graph draw_graph(std::mt19937& random) {
  Graph graph{.name = draw_name(random, "graph"), .fixed_memory = Bytes(draw(random, 0, 999))};
  for (int i = draw(random, 0, 2); i > 0; --i)
    graph.add_tensor(draw_name(random, "input" + std::to_string(i)), Bytes(7));
  if (chance(random, 30)) graph.recompute_allocates = Allocation::all;
  const int count = draw(random, 0, 30);
  const bool has_axes = chance(random, 30);
  for (int i = 0; i < count; ++i) {
    Op op{.name = draw_name(random, "op" + std::to_string(i)),
          .duration = Duration(draw(random, 0, 999)),
          .workspace = Bytes(draw(random, 0, 1))};
    const int known = static_cast<int>(graph.tensors.size());
    for (int j = draw(random, 0, 3); j > 0 && known > 0; --j) op.inputs.emplace_back(draw(random, 0, known - 1));
    for (int j = draw(random, 1, 2); j > 0; --j) {
      const std::string number = std::to_string(i) + "." + std::to_string(j);
      op.outputs.push_back(graph.add_tensor(number, Bytes(draw(random, 0, 49)), chance(random, 50)));
    }
    op.recompute = chance(random, 75);
    if (chance(random, 30)) op.max_computes = draw(random, 1, 5);
    op.phase = static_cast<Phase>(draw(random, 0, 3));
    if (i > 0 && chance(random, 50)) op.backward_of = OpId(draw(random, 0, i - 1));
    if (i > 0 && chance(random, 30)) op.after.emplace_back(draw(random, 0, i - 1));
    if (!op.inputs.empty() && chance(random, 30)) op.in_place = {{op.outputs[0], op.inputs[0]}};
    if (chance(random, 20)) op.extra = R"({"x":[1,{"y":"z"}]})";
    if (has_axes && chance(random, 30)) op.axes = draw_axes(random, graph, op);
    graph.add_op(std::move(op));
  }
  if (chance(random, 70)) return graph;
  Graph with_modes = *test::with_random_modes(random, graph);
  for (Op& op : with_modes.ops) {
    if (!op.modes || !chance(random, 20)) continue;
    for (InnerPeak& peak : op.modes->inner) {
      if (!peak.freed.empty()) peak.freed.back().most = Bytes(draw(random, 0, 9));
    }
  }
  return with_modes;
}

DeviceGraph draw_device_graph(std::mt19937& random) {
  DeviceGraph graph = test::random_device_graph(random, draw(random, 1, 3), 8);
  if (chance(random, 50)) test::draw_lanes(random, graph, 3);
  return graph;
}

SolverReport draw_report(std::mt19937& random) {
  SolverReport report{.version = "0.1.0",
                      .seed = random(),
                      .threads = draw(random, 0, 9),
                      .max_computes = draw(random, 1, 64),
                      .time_limit = chance(random, 30) ? std::numeric_limits<double>::infinity() : 1.0 / 3,
                      .work_limit = draw(random, 0, 9),
                      .work = draw(random, 0, 9),
                      .seconds = 0.1,
                      .phase1_seconds = 2e-9,
                      .phase2_seconds = draw(random, 0, 5) / 7.0,
                      .reached_peak = Bytes(draw(random, 0, 9)),
                      .note = chance(random, 50) ? draw_name(random, "note") : ""};
  if (chance(random, 30)) report.optimal_for_max_computes = chance(random, 50) ? kAnyNumber : draw(random, 1, 9);
  report.bound_for_any_number = chance(random, 30);
  for (int i = draw(random, 0, 2); i > 0; --i)
    report.history.push_back({0.25 * i, Duration(9 - i), Bytes(i), draw_name(random, "lns")});
  if (chance(random, 50)) report.statistics = {{"levels", 3}, {"compose", 0.125, Statistic::Unit::seconds}};
  if (chance(random, 50)) report.options = {{"z", "1"}, {"a", draw_name(random, "2")}};
  return report;
}

/// Of any steps, whether they can be run or not.
Schedule draw_schedule(std::mt19937& random, const Graph& graph) {
  Schedule schedule{.graph = graph.name,
                    .status = draw_status(random),
                    .order = chance(random, 50) ? OrderMode::free : OrderMode::input,
                    .budget = Bytes(draw(random, 0, 99)),
                    .duration = Duration(draw(random, 0, 99)),
                    .baseline_duration = Duration(draw(random, 0, 99)),
                    .peak_memory = Bytes(draw(random, 0, 99)),
                    .baseline_peak_memory = Bytes(draw(random, 0, 99)),
                    .lower_bound = Duration(draw(random, 0, 99)),
                    .solver = draw_report(random)};
  if (chance(random, 50)) schedule.graph_sha256 = std::string(64, 'a');
  if (chance(random, 30)) schedule.reading = {"--training", draw_name(random, "--dim=n")};
  const int ops = static_cast<int>(graph.ops.size());
  if (ops == 0) return schedule;
  if (!schedule.has_schedule()) {
    if (chance(random, 50))
      schedule.certificate = Certificate{.op = OpId(ops - 1), .required = Bytes(9), .tensors = {TensorId(0)}};
    return schedule;
  }
  for (int i = draw(random, 0, 9); i > 0; --i) {
    const OpId op(draw(random, 0, ops - 1));
    schedule.steps.push_back({.op = op, .free = chance(random, 50) ? graph[op].outputs : std::vector<TensorId>{}});
    if (chance(random, 10)) schedule.steps.back().mode = draw(random, 1, kMaxModes - 1);
  }
  if (chance(random, 50)) return schedule;
  schedule.arena = Arena{.alignment = Bytes(draw(random, 1, 9)), .size = Bytes(draw(random, 0, 99))};
  for (const Step& step : schedule.steps) {
    Arena::Allocations made;
    for (const TensorId tensor : graph[step.op].outputs) made.outputs.emplace_back(tensor, Bytes(draw(random, 0, 9)));
    if (chance(random, 30)) made.workspace = Bytes(draw(random, 0, 9));
    schedule.arena->steps.push_back(made);
  }
  return schedule;
}

DeviceSchedule draw_device_schedule(std::mt19937& random, const DeviceGraph& graph) {
  DeviceSchedule schedule{.graph = graph.graph.name,
                          .status = draw_status(random),
                          .order = chance(random, 50) ? OrderMode::free : OrderMode::input,
                          .objective = chance(random, 50) ? Objective::energy : Objective::duration,
                          .copies = chance(random, 50) ? CopyMode::overlap : CopyMode::sequential,
                          .duration = Duration(draw(random, 0, 99)),
                          .energy = Energy(draw(random, 0, 99)),
                          .baseline_duration = Duration(draw(random, 0, 99)),
                          .lower_bound = draw(random, 0, 99),
                          .solver = draw_report(random)};
  schedule.baseline_cost =
      schedule.objective == Objective::energy ? draw(random, 0, 99) : schedule.baseline_duration.count();
  const int devices = static_cast<int>(graph.devices.size());
  for (int d = 0; d < devices; ++d) {
    schedule.budget.push_back(chance(random, 70) ? std::optional(Bytes(draw(random, 0, 99))) : std::nullopt);
    schedule.peak_memory.push_back(Bytes(draw(random, 0, 99)));
    schedule.baseline_peak_memory.push_back(Bytes(draw(random, 0, 99)));
  }
  if (chance(random, 30)) schedule.duration_limit = Duration(draw(random, 0, 99));
  if (chance(random, 30)) schedule.energy_limit = Energy(draw(random, 0, 99));
  for (int i = schedule.has_schedule() ? draw(random, 0, 9) : 0; i > 0; --i) {
    DeviceStep step{.device = DeviceId(draw(random, 0, devices - 1))};
    const TensorId tensor(draw(random, 0, static_cast<int>(graph.graph.tensors.size()) - 1));
    if (devices > 1 && chance(random, 30)) {
      step.copied = tensor;
      step.to = DeviceId((static_cast<int>(step.device) + 1) % devices);
    } else {
      step.op = OpId(draw(random, 0, static_cast<int>(graph.graph.ops.size()) - 1));
    }
    if (chance(random, 50)) step.free = {{tensor, DeviceId(draw(random, 0, devices - 1))}};
    schedule.steps.push_back(std::move(step));
  }
  return schedule;
}

Curve draw_curve(std::mt19937& random) {
  Curve curve{.graph = draw_name(random, "g"),
              .order = chance(random, 50) ? OrderMode::free : OrderMode::input,
              .max_computes = draw(random, 1, 4),
              .fixed_memory = Bytes(5),
              .baseline_duration = Duration(100),
              .baseline_peak_memory = Bytes(45),
              .seconds = 2.5};
  if (chance(random, 50)) curve.graph_sha256 = std::string(64, 'b');
  if (chance(random, 30)) curve.device = draw_name(random, "gpu");
  if (chance(random, 50)) curve.least_budget = Bytes(12);
  const int count = draw(random, 0, 6);
  const int infeasible = draw(random, 0, 2);
  for (int i = 0; i < count; ++i) {
    CurvePoint point{.budget = Bytes(20 + 3 * i), .lower_bound = Duration(100 - i), .seconds = i / 3.0};
    const bool is_last = i == count - 1 && count % 2 > 0;
    point.status = i < infeasible ? Status::infeasible : is_last ? Status::optimal : Status::feasible;
    if (i == infeasible && chance(random, 50)) point.status = Status::unknown;
    if (point.has_schedule()) {
      point.duration = Duration(point.status == Status::optimal ? 100 - i : 150 - i);
      point.peak_memory = Bytes(19);
      point.found_under = point.budget;
      if (chance(random, 50)) point.schedule_file = draw_name(random, "points/" + std::to_string(i));
      if (chance(random, 30)) point.max_computes = curve.max_computes + 1;
    }
    curve.points.push_back(point);
  }
  return curve;
}

PipelineStage draw_stage(std::mt19937& random) {
  const auto time = [&] { return Duration(draw(random, 0, 99)); };
  const auto size = [&] { return Bytes(draw(random, 0, 99)); };
  PipelineStage stage{.name = draw_name(random, "stage"), .fixed_memory = size()};
  for (int i = draw(random, 1, 4); i > 0; --i) {
    stage.modes.push_back({draw_name(random, "m"), time(), time(), time(), size(), size(), size(), size(), size()});
  }
  return stage;
}

/// A document of some format, and what its reader and writer make of the text.
struct Case {
  std::string text{};
  std::function<std::string(const std::string&)> again{};
};

struct Format {
  const char* name = "";
  std::function<Case(std::mt19937&)> make{};
};

const std::vector<Format>& formats() {
  static const std::vector<Format> all{
      {"remora-graph 1 and 2",
       [](std::mt19937& random) {
         const auto write = [](const Graph& graph) {
           return written([&](std::ostream& out) { write_graph(out, graph); });
         };
         const Graph graph = draw_graph(random);
         EXPECT_EQ(read_graph(Text(write(graph))), graph);
         return Case{write(graph), [=](const std::string& text) { return write(read_graph(Text(text))); }};
       }},
      {"remora-graph 2 and 3",
       [](std::mt19937& random) {
         const auto write = [](const DeviceGraph& graph) {
           return written([&](std::ostream& out) { write_graph(out, graph); });
         };
         const DeviceGraph graph = draw_device_graph(random);
         EXPECT_EQ(read_device_graph(Text(write(graph))), graph);
         return Case{write(graph), [=](const std::string& text) { return write(read_device_graph(Text(text))); }};
       }},
      {"remora-schedule",
       [](std::mt19937& random) {
         const Graph graph = draw_graph(random);
         const auto write = [=](const Schedule& schedule) {
           return written([&](std::ostream& out) { write_schedule(out, schedule, graph); });
         };
         const Schedule schedule = draw_schedule(random, graph);
         const Schedule read = read_schedule(Text(write(schedule)), graph);
         EXPECT_EQ(read.steps, schedule.steps);
         EXPECT_EQ(read.arena, schedule.arena);
         return Case{write(schedule), [=](const std::string& text) { return write(read_schedule(Text(text), graph)); }};
       }},
      {"remora-schedule over devices",
       [](std::mt19937& random) {
         const DeviceGraph graph = draw_device_graph(random);
         const auto write = [=](const DeviceSchedule& schedule) {
           return written([&](std::ostream& out) { write_schedule(out, schedule, graph); });
         };
         const DeviceSchedule schedule = draw_device_schedule(random, graph);
         const DeviceSchedule read = read_schedule(Text(write(schedule)), graph);
         EXPECT_EQ(read.steps, schedule.steps);
         EXPECT_EQ(read.budget, schedule.budget);
         return Case{write(schedule), [=](const std::string& text) { return write(read_schedule(Text(text), graph)); }};
       }},
      {"remora-curve",
       [](std::mt19937& random) {
         const auto write = [](const Curve& curve) {
           return written([&](std::ostream& out) { write_curve(out, curve); });
         };
         const Curve curve = draw_curve(random);
         EXPECT_EQ(read_curve(Text(write(curve))).points, curve.points);
         return Case{write(curve), [=](const std::string& text) { return write(read_curve(Text(text))); }};
       }},
      {"remora-stage",
       [](std::mt19937& random) {
         const auto write = [](const PipelineStage& stage) {
           return written([&](std::ostream& out) { write_stage(out, stage); });
         };
         const PipelineStage stage = draw_stage(random);
         EXPECT_EQ(read_stage(Text(write(stage))), stage);
         return Case{write(stage), [=](const std::string& text) { return write(read_stage(Text(text))); }};
       }},
      {"remora-banks",
       [](std::mt19937& random) {
         Random numbers(random());
         const BankProblem problem = test::random_bank_problem(numbers);
         BankPlacement placed;
         for (const auto& choices : problem.choices) placed.banks.push_back(choices.back().bank);
         placed.offsets.resize(problem.buffers.size(), Bytes(draw(random, 0, 9)));
         const auto write = [=](const BankProblem& of) {
           return written([&](std::ostream& out) { write_bank_placement(out, of, placed); });
         };
         return Case{write(problem), [=](const std::string& text) { return write(read_bank_problem(Text(text))); }};
       }},
      {"a table of buffers", [](std::mt19937& random) {
         Random numbers(random());
         std::vector<Buffer> buffers = test::random_buffers(numbers);
         for (Buffer& buffer : buffers) buffer.id = draw_name(random, buffer.id + ",");
         std::vector<Bytes> offsets;
         for (const Buffer& buffer : buffers) offsets.push_back(Bytes(draw(random, 0, 99) * buffer.alignment.count()));
         const bool is_placed = chance(random, 50);
         const std::string text = written([&](std::ostream& out) {
           interchange::write_buffers(out, buffers, is_placed ? offsets : std::vector<Bytes>{});
         });
         for (std::size_t i = 0; i < buffers.size(); ++i) {
           buffers[i].offset = is_placed ? std::optional(offsets[i]) : std::nullopt;
         }
         EXPECT_EQ(interchange::read_buffers(text, ""), buffers);
         return Case{text, [=](const std::string& of) {
                       const std::vector<Buffer> read = interchange::read_buffers(of, "");
                       std::vector<Bytes> at;
                       for (const Buffer& buffer : read) at.push_back(buffer.offset.value_or(Bytes(0)));
                       return written([&](std::ostream& out) {
                         interchange::write_buffers(out, read, is_placed ? at : std::vector<Bytes>{});
                       });
                     }};
       }}};
  return all;
}

TEST(RoundTrip, WhatIsReadIsWrittenAgainToTheLetter) {
  for (const Format& format : formats()) {
    for (unsigned seed = 1; seed <= 200; ++seed) {
      SCOPED_TRACE(std::string(format.name) + ", seed " + std::to_string(seed));
      std::mt19937 random(seed);
      const Case one = format.make(random);
      ASSERT_EQ(one.again(one.text), one.text);
      if (testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace remora::json
