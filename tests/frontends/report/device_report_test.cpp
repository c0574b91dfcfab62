// SPDX-License-Identifier: Apache-2.0
//
// Reports of schedules over several devices: their numbers against the evaluator's and the verifier's, and each form that is written.
#include <sstream>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/devices/solve.hpp"
#include "frontends/report/figures.hpp"
#include "frontends/report/page.hpp"
#include "frontends/text/text.hpp"
#include "model/random.hpp"

namespace remora::report {
namespace {

using nlohmann::json;

constexpr DeviceId kGpu(0);
constexpr DeviceId kHost(1);

/// A chain of ops on a GPU with a store beside it, each read again on the way back, as training does.
std::shared_ptr<const DeviceGraph> training_chain(int layers) {
  auto graph = std::make_shared<DeviceGraph>();
  graph->graph.name = "chain";
  graph->graph.meta = R"({"duration_unit": "ns"})";
  graph->devices = Table<DeviceId, Device>(std::vector<Device>{{"gpu", Bytes(3)}, {"host", Bytes(0)}});
  graph->links = {{kGpu, kHost, Duration(1), Bytes(2), Duration(1), Energy(1)},
                  {kHost, kGpu, Duration(1), Bytes(2), Duration(1), Energy(1)}};
  const auto add = [&](const std::string& name, std::vector<TensorId> inputs, bool keep) {
    const TensorId made(graph->graph.tensors.size());
    graph->graph.tensors.push_back({.name = name, .size = Bytes(4), .keep = keep});
    graph->places.push_back({});
    graph->graph.ops.push_back({.name = "run-" + name, .type = "Op", .inputs = std::move(inputs), .outputs = {made}});
    graph->runs.push_back({{kGpu, Duration(5), Bytes(1), Energy(2)}});
    return made;
  };
  std::vector<TensorId> forward;
  for (int i = 0; i < layers; ++i) {
    std::vector<TensorId> inputs;
    if (i > 0) inputs.push_back(forward.back());
    forward.push_back(add("a" + std::to_string(i), inputs, false));
  }
  TensorId gradient = add("loss", {forward.back()}, false);
  for (int i = layers; i-- > 1;) {
    gradient = add("g" + std::to_string(i), {gradient, forward[at(i - 1)]}, i == 1);
  }
  validate(*graph);
  return graph;
}

DeviceSchedule solved(const DeviceGraph& graph, std::int64_t budget, CopyMode copies = CopyMode::sequential,
                      int max_computes = 2) {
  devices::Problem problem{.copies = copies, .max_computes = max_computes};
  problem.budget.assign(graph.devices.size(), std::nullopt);
  problem.budget[kGpu] = Bytes(budget);
  DeviceSchedule schedule = solve(graph, problem, {.time_limit = 1e9, .work_limit = 400}).schedule;
  if (schedule.has_schedule()) {
    EXPECT_TRUE(verify(graph, schedule).valid());
  }
  return schedule;
}

json data_block(const std::string& page, const std::string& id) {
  const std::string open = "id=\"" + id + "\">";
  const auto first = page.find(open) + open.size();
  return json::parse(page.substr(first, page.find("</script>", first) - first));
}

std::string page_text(const std::shared_ptr<const DeviceGraph>& graph, const DeviceSchedule& schedule) {
  Page page{.graph = {graph, &graph->graph}, .devices = graph, .duration_unit = "ns"};
  page.device_schedules.push_back(schedule);
  std::ostringstream out;
  write_page(out, page);
  return out.str();
}

TEST(DeviceReport, ProfileAgreesWithTheVerifier) {
  const auto graph = training_chain(8);
  for (const std::int64_t budget : {100, 28, 24, 20, 16}) {
    SCOPED_TRACE(budget);
    const DeviceSchedule schedule = solved(*graph, budget);
    if (!schedule.has_schedule()) continue;
    const DeviceVerdict verdict = verify(*graph, schedule);
    const DeviceProfile profile = profile_of(*graph, schedule);
    EXPECT_EQ(profile.peak, verdict.peak);
    EXPECT_EQ(profile.peak_step, verdict.peak_step);
    EXPECT_EQ(profile.times.back(), verdict.duration);
    ASSERT_EQ(profile.times.size(), schedule.steps.size() + 1);
    Duration duration;
    Energy energy;
    int again = 0;
    int copies = 0;
    for (const LaneUse& runs : profile.lanes) {
      duration += runs.duration;
      energy += runs.energy;
      again += runs.again;
    }
    for (const LinkUse& use : profile.links) {
      duration += use.duration;
      energy += use.energy;
      copies += use.times;
    }
    EXPECT_EQ(duration, verdict.duration);
    EXPECT_EQ(energy, verdict.energy);
    EXPECT_EQ(again, verdict.recomputes);
    EXPECT_EQ(copies, verdict.copies);
    // Memory once more, from the stays: what is there, the workspace, and what is fixed.
    for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
      Bytes here = profile.base[kGpu];
      for (const TensorStay& stay : profile.stays) {
        const int step = static_cast<int>(i);
        if (stay.device == kGpu && stay.first_step <= step && step <= stay.last_step) here += Bytes(4);
      }
      if (!schedule.steps[i].is_copy()) here += Bytes(1);
      EXPECT_EQ(here, profile.memory[kGpu][i]) << i;
    }
  }
}

TEST(DeviceReport, PageCarriesTheNumbers) {
  const auto graph = training_chain(6);
  // What runs once must be copied.
  const DeviceSchedule schedule = solved(*graph, 20, CopyMode::sequential, 1);
  ASSERT_TRUE(schedule.has_schedule());
  const DeviceProfile profile = profile_of(*graph, schedule);
  ASSERT_GT(profile.transfers.size(), 0U);
  const std::string text = page_text(graph, schedule);
  const json shown = data_block(text, "graph-data");
  EXPECT_EQ(shown["devices"]["name"], json({"gpu", "host"}));
  EXPECT_EQ(shown["devices"]["fixed"], json({3, 0}));
  EXPECT_FALSE(shown.contains("before"));
  const json data = data_block(text, "schedule-data-0");
  EXPECT_EQ(data["duration"], schedule.duration.count());
  EXPECT_EQ(data["energy"], schedule.energy.count());
  EXPECT_EQ(data["steps"].size(), schedule.steps.size());
  EXPECT_EQ(data["times"].back(), schedule.duration.count());
  EXPECT_EQ(data["devices"][0]["budget"], 20);
  EXPECT_TRUE(data["devices"][1]["budget"].is_null());
  EXPECT_EQ(data["devices"][0]["peak"], profile.peak[kGpu].count());
  EXPECT_EQ(data["devices"][0]["begun"].size() * 3, data["devices"][0]["stays"].size());
  EXPECT_EQ(data["transfers"].size(), 7 * profile.transfers.size());
  EXPECT_EQ(data["links"].size(), 6 * profile.links.size());
  EXPECT_EQ(data["runs"].size(), 10U);
  EXPECT_EQ(data["streams"].size(), 2 + profile.links.size());
}

TEST(DeviceReport, FiguresAndTablesAreWritten) {
  const auto graph = training_chain(6);
  // What runs once must be copied.
  const DeviceSchedule schedule = solved(*graph, 20, CopyMode::sequential, 1);
  ASSERT_TRUE(schedule.has_schedule());
  const DeviceProfile profile = profile_of(*graph, schedule);
  const std::vector<Figure> figures = device_figures(*graph, schedule, profile);
  ASSERT_EQ(figures.size(), 3U);
  ASSERT_EQ(figures[0].lanes.size(), 2 + profile.links.size());
  double busy = 0;
  for (const Lane& lane : figures[0].lanes) {
    for (const Bar& bar : lane.bars) busy += bar.end - bar.first;
  }
  EXPECT_NEAR(busy, static_cast<double>(schedule.duration.count()), 1e-6);
  const std::string drawing = svg(figures);
  EXPECT_NE(drawing.find("gpu -&gt; host"), std::string::npos);
  EXPECT_NE(drawing.find("budget 20 B"), std::string::npos);
  EXPECT_EQ(drawing.find("<svg", 1), std::string::npos) << "one document";

  std::ostringstream table;
  write_device_table(table, *graph, profile);
  const std::string rows = table.str();
  interchange::CsvReader reader(rows, "table");
  std::int64_t duration = 0;
  std::size_t count = 0;
  for (auto row = reader.next(); row; row = reader.next()) {
    ASSERT_EQ(row->size(), 10U);
    if (count++ > 0) duration += std::stoll(row->at(8));
  }
  EXPECT_EQ(count, 1 + profile.runs.size() + profile.transfers.size());
  EXPECT_EQ(duration, schedule.duration.count());
}

/// Lanes by real starts: no lane has two steps at once, lanes together have, and memory holds the budget at all times.
TEST(DeviceReport, OverlappedStepsStandWhereTheyRun) {
  const auto graph = training_chain(8);
  const DeviceSchedule schedule = solved(*graph, 24, CopyMode::overlap);
  ASSERT_TRUE(schedule.has_schedule());
  const DeviceProfile profile = profile_of(*graph, schedule);
  ASSERT_EQ(profile.steps.size(), schedule.steps.size());
  EXPECT_TRUE(std::is_sorted(profile.times.begin(), profile.times.end()));
  EXPECT_EQ(profile.times.back(), schedule.duration);
  EXPECT_EQ(profile.peak, schedule.peak_memory);
  const std::vector<Figure> figures = device_figures(*graph, schedule, profile);
  double busy = 0;
  for (const Lane& lane : figures[0].lanes) {
    for (std::size_t i = 0; i < lane.bars.size(); ++i) {
      busy += lane.bars[i].end - lane.bars[i].first;
      EXPECT_LE(lane.bars[i].end, static_cast<double>(schedule.duration.count()));
      if (i > 0) {
        EXPECT_LE(lane.bars[i - 1].end, lane.bars[i].first);
      }
    }
  }
  EXPECT_GT(busy, static_cast<double>(schedule.duration.count()));
  for (std::size_t i = 0; i < profile.steps.size(); ++i) {
    EXPECT_LE(profile.memory[kGpu][i], Bytes(24));
    EXPECT_LE(profile.times[i], profile.ends[i]);
    Bytes stays = profile.base[kGpu];
    for (const TensorStay& stay : profile.stays) {
      const int step = static_cast<int>(i);
      if (stay.device == kGpu && stay.first_step <= step && step <= stay.last_step) stays += Bytes(4);
    }
    EXPECT_LE(stays, profile.memory[kGpu][i] + Bytes(4)) << i;
  }
  const json data = data_block(page_text(graph, schedule), "schedule-data-0");
  EXPECT_EQ(data["copies"], "overlap");
  EXPECT_EQ(data["ends"].size(), data["steps"].size());
}

/// Every third op of the chain on a lane of its own: each lane has a row in each form, and its runs stand there, one after the other.
TEST(DeviceReport, EachLaneHasARow) {
  auto graph = std::make_shared<DeviceGraph>(*training_chain(8));
  graph->devices[kGpu].lanes = {"compute", "gather"};
  for (std::size_t v = 0; v < graph->runs.size(); v += 3) graph->runs[OpId(v)][0].lane = LaneId(1);
  validate(*graph);
  const DeviceSchedule schedule = solved(*graph, 28, CopyMode::overlap);
  ASSERT_TRUE(schedule.has_schedule());
  const DeviceProfile profile = profile_of(*graph, schedule);
  const std::vector<std::string> names = stream_names(*graph, profile);
  ASSERT_EQ(names.size(), 3 + profile.links.size());
  EXPECT_EQ(names[0], "gpu: compute");
  EXPECT_EQ(names[1], "gpu: gather");
  EXPECT_EQ(names[2], "host");
  ASSERT_EQ(profile.stream.size(), profile.steps.size());
  std::vector<int> steps(names.size(), 0);
  for (std::size_t i = 0; i < profile.steps.size(); ++i) {
    const DeviceStep& step = profile.steps[i];
    const std::size_t stream = profile.stream[i];
    ++steps[stream];
    if (step.is_copy()) {
      EXPECT_EQ(names[stream], link_name(*graph, step.device, step.to));
    } else {
      EXPECT_EQ(stream, step.op.index() % 3 == 0 ? 1U : 0U);
    }
  }
  int runs = 0;
  for (std::size_t i = 0; i < profile.lanes.size(); ++i) {
    EXPECT_EQ(profile.lanes[i].times, steps[i]);
    EXPECT_EQ(profile.lanes[i].duration, Duration(5 * steps[i]));
    runs += profile.lanes[i].times;
  }
  EXPECT_GE(runs, static_cast<int>(graph->runs.size()));

  const std::vector<Figure> figures = device_figures(*graph, schedule, profile);
  ASSERT_EQ(figures[0].lanes.size(), names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    const Lane& lane = figures[0].lanes[i];
    EXPECT_EQ(lane.name, names[i]);
    EXPECT_EQ(lane.bars.size(), static_cast<std::size_t>(steps[i]));
    for (std::size_t k = 1; k < lane.bars.size(); ++k) EXPECT_LE(lane.bars[k - 1].end, lane.bars[k].first);
  }

  const json data = data_block(page_text(graph, schedule), "schedule-data-0");
  EXPECT_EQ(data["streams"], json(names));
  EXPECT_EQ(data["stream"], json(profile.stream));
  EXPECT_EQ(data["runs"].size(), 15U);
}

TEST(DeviceReport, SaysWhyThereIsNoSchedule) {
  const auto graph = training_chain(6);
  const DeviceSchedule schedule = solved(*graph, 9);
  ASSERT_EQ(schedule.status, Status::infeasible);
  const json data = data_block(page_text(graph, schedule), "schedule-data-0");
  EXPECT_EQ(data["status"], "infeasible");
  EXPECT_TRUE(data["steps"].empty());
  bool told = false;
  for (const json& pair : data["solver"]["pairs"]) told = told || pair[0] == "Note";
  EXPECT_TRUE(told);
}

}  // namespace
}  // namespace remora::report
