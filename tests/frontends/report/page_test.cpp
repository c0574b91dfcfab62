// SPDX-License-Identifier: Apache-2.0
#include "frontends/report/page.hpp"

#include <sstream>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "frontends/report/figures.hpp"
#include "frontends/report/markup.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/instance.hpp"
#include "model/verify.hpp"
#include "tests/frontends/formats/solved_graphs.hpp"
#include "tests/support/random_graph.hpp"

namespace remora::report {
namespace {

using nlohmann::json;

std::string text_of(const Page& page) {
  std::ostringstream out;
  write_page(out, page);
  return out.str();
}

/// The data block `id` of a page.
json block(const std::string& page, const std::string& id) {
  const std::string open = "id=\"" + id + "\">";
  const auto first = page.find(open) + open.size();
  return json::parse(page.substr(first, page.find("</script>", first) - first));
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

Page page_of(const test::SolvedGraph& solved) {
  return {.graph = solved.graph, .duration_unit = "ns", .schedules = {solved.schedule}};
}

/// Stays as [tensor, first, last], read from their compact form.
std::vector<TensorStay> stays_of(const json& flat) {
  std::vector<TensorStay> stays;
  int first = 0;
  for (std::size_t i = 0; i < flat.size(); i += 3) {
    first += flat[i + 1].get<int>();
    stays.push_back({TensorId(flat[i].get<int>()), DeviceId(0), first, first + flat[i + 2].get<int>()});
  }
  return stays;
}

TEST(ReportPage, CarriesTheSchedulesNumbers) {
  for (const test::SolvedGraph& solved : test::solved_graphs()) {
    SCOPED_TRACE(solved.about);
    const std::string text = text_of(page_of(solved));
    const json schedule = block(text, "schedule-data-0");
    EXPECT_EQ(schedule["duration"], solved.schedule.duration.count());
    EXPECT_EQ(schedule["peak_memory"], solved.schedule.peak_memory.count());
    EXPECT_EQ(schedule["budget"], solved.schedule.budget.count());
    const ScheduleProfile profile = profile_of(solved.graph, solved.schedule);
    ASSERT_EQ(schedule["steps"].size(), profile.after.ops.size());
    for (std::size_t i = 0; i < profile.after.ops.size(); ++i) {
      EXPECT_EQ(schedule["steps"][i], std::int32_t{profile.after.ops[i]});
      EXPECT_EQ(schedule["memory"][i], profile.after.memory[i].count());
    }
    const std::vector<TensorStay> stays = stays_of(schedule["stays"]);
    ASSERT_EQ(stays.size(), profile.after.stays.size());
    for (std::size_t i = 0; i < stays.size(); ++i) {
      EXPECT_EQ(stays[i].tensor, profile.after.stays[i].tensor);
      EXPECT_EQ(stays[i].first_step, profile.after.stays[i].first_step);
      EXPECT_EQ(stays[i].last_step, profile.after.stays[i].last_step);
    }
    EXPECT_EQ(schedule["recomputed"].size(), 10 * profile.recomputed_ops.size());
    EXPECT_EQ(schedule["retained"].size(), 3 * profile.retained.size());
    const json graph = block(text, "graph-data");
    EXPECT_EQ(graph["ops"]["name"].size(), solved.graph->ops.size());
    EXPECT_EQ(graph["before"]["peak"], profile.before.peak.count());
  }
}

TEST(ReportPage, AllowsItsOwnScriptAndStyleOnlyAndFetchesNothing) {
  const std::string text = text_of(page_of(test::solved_graphs().front()));
  EXPECT_NE(text.find("default-src 'none'"), std::string::npos);
  EXPECT_NE(text.find("style-src " + policy_hash(kPageStyle)), std::string::npos);
  EXPECT_EQ(text.find("unsafe-inline"), std::string::npos);
  for (const char* fetch : {"src=\"", "@import", "url(", "fetch(", "XMLHttpRequest", "http:"}) {
    // The name of SVG's namespace is no address.
    EXPECT_EQ(count(text, fetch), std::string(fetch) == "http:" ? 1U : 0U) << fetch;
  }
  EXPECT_EQ(count(text, "http://www.w3.org/2000/svg"), 1U);
}

TEST(ReportPage, NamesCannotLeaveTheirPlaces) {
  const std::string evil = "</script><script>alert(1)</script><!--<img src=x onerror=alert(1)>";
  Graph graph{.name = evil};
  const TensorId a = graph.add_tensor(evil, Bytes(1), true);
  graph.add_op({.name = evil, .type = evil, .duration = Duration(1), .outputs = {a}});
  Schedule schedule{.status = Status::optimal, .budget = Bytes(1), .duration = Duration(1), .peak_memory = Bytes(1)};
  schedule.steps = {{.op = OpId(0)}};
  schedule.solver.note = evil;
  schedule.solver.history = {{.seconds = 1, .duration = Duration(1), .peak = Bytes(1), .source = evil}};
  ASSERT_TRUE(verify(graph, schedule).valid());
  const std::string text = text_of({.graph = std::make_shared<const Graph>(graph), .schedules = {schedule}});
  const std::string plain = text_of(page_of(test::solved_graphs().front()));
  EXPECT_EQ(count(text, "<script"), count(plain, "<script"));
  EXPECT_EQ(count(text, "</script"), count(plain, "</script"));
  EXPECT_EQ(text.find("<img"), std::string::npos);
  EXPECT_EQ(text.find("<!--"), std::string::npos);
  EXPECT_EQ(block(text, "graph-data")["ops"]["name"][0], evil);
}

TEST(ReportPage, RefusesNamesThatAreNoText) {
  Graph graph;
  const TensorId a = graph.add_tensor("a\xff", Bytes(1));
  graph.add_op({.name = "A", .outputs = {a}});
  std::ostringstream out;
  EXPECT_THROW(write_page(out, {.graph = std::make_shared<const Graph>(graph), .schedules = {Schedule{}}}), InputError);
  EXPECT_TRUE(out.str().empty());
}

TEST(ReportPage, ShowsAnAnswerWithoutScheduleAndAGraphWithoutOps) {
  Schedule schedule{.status = Status::infeasible, .budget = Bytes(2)};
  schedule.certificate = Certificate{.op = OpId(3), .required = Bytes(3), .tensors = {TensorId(1), TensorId(3)}};
  const std::string text = text_of({.graph = test::figure_1(), .schedules = {schedule}});
  const json data = block(text, "schedule-data-0");
  EXPECT_EQ(data["status"], "infeasible");
  EXPECT_EQ(data["certificate"]["required"], 3);
  EXPECT_TRUE(data["steps"].empty());
  EXPECT_NO_THROW(text_of({.graph = std::make_shared<const Graph>(), .schedules = {{.status = Status::optimal}}}));
}

TEST(ReportPage, LinksPointsToSchedules) {
  const test::SolvedGraph& solved = test::solved_graphs().front();
  Curve curve{.baseline_duration = Duration(1)};
  curve.points = {{.budget = Bytes(1)}, {.budget = solved.schedule.budget, .status = Status::feasible}};
  Page page = page_of(solved);
  page.curve = curve;
  page.points = {{.why = "none found"}, {.schedule = 0}};
  const json data = block(text_of(page), "graph-data");
  EXPECT_EQ(data["curve"]["points"][0]["schedule"], -1);
  EXPECT_EQ(data["curve"]["points"][0]["why"], "none found");
  EXPECT_TRUE(data["curve"]["points"][0]["overhead"].is_null());
  EXPECT_EQ(data["curve"]["points"][1]["schedule"], 0);
  EXPECT_EQ(data["curve"]["smallest"], 1);
}

TEST(Markup, HashesAsThePolicyWantsThem) {
  // Of "alert('Hello, world.');", the example of CSP level 2.
  EXPECT_EQ(policy_hash("alert('Hello, world.');"), "'sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng='");
}

TEST(Markup, ReplacesWhatXmlDoesNotAllow) {
  EXPECT_EQ(escaped("a\tb\nc\r<\x7f"), "a\tb\nc\r&lt;\x7f");
  EXPECT_EQ(escaped(std::string_view("\0|\x01|\x1b|\x1f", 7)), "\uFFFD|\uFFFD|\uFFFD|\uFFFD");
  EXPECT_EQ(escaped("\uFFFC\uFFFD\xEF\xBF\xBE\xEF\xBF\xBF!"), "\uFFFC\uFFFD\uFFFD\uFFFD!");
}

TEST(MemoryFigure, BundlesStepsAtTheirLargest) {
  for (const test::SolvedGraph& solved : test::solved_graphs()) {
    const ScheduleProfile profile = profile_of(solved.graph, solved.schedule);
    const Figure figure = memory_figure(*solved.graph, solved.schedule, profile);
    const auto& after = figure.series.at(0);
    EXPECT_LE(after.points.size(), 701U);
    EXPECT_EQ(after.points.back().first, static_cast<double>(profile.after.memory.size()));
    double most = 0;
    for (const auto& point : after.points) most = std::max(most, point.second);
    const double budget = figure.series.at(2).points.front().second;
    EXPECT_LE(most, budget * (1 + 1e-12));
  }
}

TEST(MemoryFigure, PutsTheInputOrderBesideTheSameOpsInEveryOrder) {
  for (const test::SolvedGraph& solved : test::solved_graphs()) {
    for (const OrderMode order : {OrderMode::input, OrderMode::free}) {
      Schedule schedule = solved.schedule;
      schedule.order = order;
      const ScheduleProfile profile = profile_of(solved.graph, schedule);
      const std::vector<Bytes> beside = memory_beside(profile);
      ASSERT_EQ(beside.size(), profile.after.ops.size());
      for (std::size_t i = 0; i < beside.size(); ++i) {
        if (!profile.after.again[i]) {
          EXPECT_EQ(beside[i], profile.before.memory[profile.after.ops[i]]);
        } else if (i + 1 < beside.size()) {
          EXPECT_EQ(beside[i], beside[i + 1]) << "over a recompute as over what follows it";
        }
      }
    }
  }
}

TEST(MemoryFigure, FollowsAScheduleThatTurnsTheInputOrderAround) {
  Graph graph{.name = "two",
              .tensors = {{.name = "a", .size = Bytes(1), .keep = true}, {.name = "b", .size = Bytes(2)}}};
  graph.ops = {{.name = "A", .duration = Duration(1), .outputs = {TensorId(0)}},
               {.name = "B", .duration = Duration(1), .outputs = {TensorId(1)}}};
  Schedule schedule{.status = Status::optimal, .budget = Bytes(3), .duration = Duration(2), .peak_memory = Bytes(2)};
  schedule.order = OrderMode::free;
  schedule.steps = {{.op = OpId(1), .free = {TensorId(1)}}, {.op = OpId(0)}};
  ASSERT_TRUE(verify(graph, schedule).valid());
  const ScheduleProfile profile = profile_of(std::make_shared<const Graph>(graph), schedule);
  EXPECT_EQ(memory_beside(profile), (std::vector<Bytes>{Bytes(3), Bytes(1)}));
}

TEST(RecomputeTable, WritesExactAmountsAndQuotedNames) {
  Graph graph = *test::figure_1();
  graph.ops[0].name = "A, the \"first\"";
  const Schedule schedule = test::figure_1_schedule();
  ASSERT_TRUE(verify(graph, schedule).valid());
  const auto shared = std::make_shared<const Graph>(graph);
  std::ostringstream out;
  write_recompute_table(out, *shared, profile_of(shared, schedule));
  EXPECT_EQ(out.str(),
            "op,type,recomputes,paid,saved,relieved_steps,relieved_worst_op,relieved_above,kept_steps,kept_worst_op,"
            "kept_above\n\"A, the \"\"first\"\"\",,1,1,1,1,D,1,1,D,1\n");
}

}  // namespace
}  // namespace remora::report
