// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "frontends/formats/file.hpp"
#include "frontends/formats/json.hpp"
#include "tests/frontends/cli/run_words.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/training_graphs.hpp"

namespace remora::cli {
namespace {

using Json = nlohmann::json;
using test::Outcome;
using test::run_words;

class ReportCommand : public remora::test::TemporaryFolder {
 protected:
  void SetUp() override {
    TemporaryFolder::SetUp();
    json::write_file(path("graph.json"),
                     [](std::ostream& out) { json::write_graph(out, remora::test::generate_chain({.layers = 12})); });
  }

  void solve(const std::string& budget) const {
    const Outcome outcome = run_words("solve " + path("graph.json") + " --budget " + budget +
                                      " --work-limit 3000 --threads 1 -q -o " + path("schedule.json"));
    ASSERT_LT(outcome.code, 22) << outcome.err;
    if (outcome.code == 0) {
      ASSERT_EQ(run_words("verify -q " + path("graph.json") + " " + path("schedule.json")).code, 0);
    }
  }

  [[nodiscard]] Outcome report(const std::string& more) const {
    return run_words("report " + path("graph.json") + " " + path("schedule.json") + " " + more);
  }
};

TEST_F(ReportCommand, WritesThePageToStandardOutputUnlessToldOtherwise) {
  solve("70%");
  const Outcome page = report("");
  EXPECT_EQ(page.code, 0);
  EXPECT_TRUE(page.err.empty()) << page.err;
  EXPECT_TRUE(page.out.starts_with("<!DOCTYPE html>"));
  const Outcome file = report("-o " + path("page.html"));
  EXPECT_EQ(file.code, 0);
  EXPECT_TRUE(file.out.empty());
  EXPECT_EQ(read("page.html"), page.out);
}

TEST_F(ReportCommand, WritesEverythingAtOnce) {
  solve("70%");
  const Outcome outcome = report("-o " + path("p.html") + " --svg " + path("p.svg") + " --table " + path("p.csv") +
                                 " --trace " + path("t.json") + " --text");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(read("p.svg").find("</svg>"), std::string::npos);
  EXPECT_TRUE(read("p.csv").starts_with("op,type,recomputes,"));
  EXPECT_FALSE(Json::parse(read("t.json"))["traceEvents"].empty());
  EXPECT_FALSE(read("p.html").empty());
  for (const char* part : {"peak ", "budget ", "at the peak, step ", "relieves", " at ", "steps", "  sum  "}) {
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << outcome.out;
  }
  EXPECT_EQ(outcome.out.find('\x1b'), std::string::npos) << "control codes";
}

TEST_F(ReportCommand, RefusesAScheduleThatDoesNotVerify) {
  solve("70%");
  Json schedule = Json::parse(read("schedule.json"));
  schedule["steps"].erase(schedule["steps"].end() - 1);
  write("schedule.json", schedule.dump());
  const Outcome outcome = report("-o " + path("page.html"));
  EXPECT_EQ(outcome.code, 65);
  EXPECT_NE(outcome.err.find("schedule.json: not a valid schedule of this graph: op "), std::string::npos)
      << outcome.err;
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1);
  EXPECT_FALSE(std::filesystem::exists(path("page.html")));
}

TEST_F(ReportCommand, ShowsWhyThereIsNoSchedule) {
  solve("1%");
  ASSERT_EQ(Json::parse(read("schedule.json"))["status"], "infeasible");
  const Outcome page = report("");
  EXPECT_EQ(page.code, 0) << page.err;
  EXPECT_NE(page.out.find("\"certificate\""), std::string::npos);
  const Outcome text = report("--text");
  EXPECT_NE(text.out.find("infeasible  proved"), std::string::npos) << text.out;
  const Outcome trace = report("--trace " + path("t.json"));
  EXPECT_EQ(trace.code, 65);
}

TEST_F(ReportCommand, TheInputOrderIsAReportToo) {
  solve("100%");
  const Outcome text = report("--text");
  EXPECT_EQ(text.code, 0);
  EXPECT_EQ(text.out.find("relieves"), std::string::npos);
}

TEST_F(ReportCommand, OnlyOneOutputIsStandard) {
  solve("100%");
  EXPECT_EQ(report("--text --svg -").code, 64);
  EXPECT_EQ(report("--table - --svg -").code, 64);
  // --text takes no word for a file's name.
  EXPECT_EQ(run_words("report --text " + path("graph.json") + " " + path("schedule.json")).code, 0);
  EXPECT_EQ(report("-o /nowhere/page.html").code, 65);
  EXPECT_EQ(run_words("report " + path("graph.json")).code, 64);
}

class ReportOfASweep : public ReportCommand {
 protected:
  void SetUp() override {
    ReportCommand::SetUp();
    const Outcome outcome =
        run_words("sweep " + path("graph.json") + " --budgets 100%:40%:20%,1% --work-limit 2000 --threads 1 -q -o " +
                  path("schedule.json") + " --schedules " + path("schedules"));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }

  [[nodiscard]] static Json data_of(const std::string& page) {
    const std::string open = "id=\"graph-data\">";
    const auto first = page.find(open) + open.size();
    return Json::parse(page.substr(first, page.find("</script>", first) - first));
  }
};

TEST_F(ReportOfASweep, EmbedsTheScheduleOfEachPoint) {
  const Json curve = Json::parse(read("schedule.json"));
  const Outcome page = report("");
  ASSERT_EQ(page.code, 0) << page.err;
  const Json shown = data_of(page.out)["curve"]["points"];
  ASSERT_EQ(shown.size(), curve["points"].size());
  int embedded = 0;
  for (std::size_t i = 0; i < shown.size(); ++i) {
    EXPECT_EQ(shown[i]["budget"], curve["points"][i]["budget"]);
    EXPECT_EQ(shown[i]["schedule"].get<int>() >= 0, curve["points"][i].contains("schedule"));
    if (shown[i]["schedule"].get<int>() >= 0) ++embedded;
  }
  EXPECT_GE(embedded, 2);
}

TEST_F(ReportOfASweep, SaysWhereASchedulesFileIsMissing) {
  std::filesystem::remove_all(path("schedules"));
  const Outcome page = report("");
  ASSERT_EQ(page.code, 0) << page.err;
  const Json points = data_of(page.out)["curve"]["points"];
  EXPECT_EQ(points.back()["schedule"], -1);
  EXPECT_EQ(points.back()["why"].get<std::string>().rfind("missing: ", 0), 0U) << points.back();
}

TEST_F(ReportOfASweep, RefusesSchedulesThatAreNotThePoints) {
  Json curve = Json::parse(read("schedule.json"));
  for (Json& point : curve["points"]) {
    if (point.contains("schedule")) point["schedule"] = curve["points"].back()["schedule"];
  }
  write("schedule.json", curve.dump());
  const Outcome page = report("");
  EXPECT_EQ(page.code, 65);
  EXPECT_NE(page.err.find("not the schedule that the curve found"), std::string::npos) << page.err;
}

TEST_F(ReportOfASweep, RefusesACurveOfAnotherGraph) {
  json::write_file(path("graph.json"),
                   [](std::ostream& out) { json::write_graph(out, remora::test::generate_chain({.layers = 13})); });
  const Outcome page = report("");
  EXPECT_EQ(page.code, 65);
  EXPECT_NE(page.err.find("not a curve of this graph"), std::string::npos) << page.err;
}

TEST_F(ReportOfASweep, DrawsTheCurveAndListsItsPoints) {
  const Outcome text = report("--text --svg " + path("c.svg") + " --table " + path("c.csv"));
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_NE(text.out.find("100.0 %"), std::string::npos);
  EXPECT_NE(read("c.svg").find("shortest known"), std::string::npos);
  EXPECT_NE(text.out.find("\nproved "), std::string::npos) << "the table that the sweep itself prints";
  EXPECT_TRUE(read("c.csv").starts_with("budget,part,"));
  EXPECT_EQ(report("--trace " + path("t.json")).code, 65);
}

/// Two devices, of the format's page: the report in every form, and what there is of the graph.
class DeviceReportCommand : public remora::test::TemporaryFolder {
 protected:
  void SetUp() override {
    TemporaryFolder::SetUp();
    write("graph.json", R"({"format": "remora-graph", "version": 2, "name": "two-devices",
 "devices": [{"name": "gpu"}, {"name": "cpu"}],
 "links": [{"from": "gpu", "to": "cpu", "latency": 1, "bytes": 2, "per": 1}, {"from": "cpu", "to": "gpu", "latency": 1, "bytes": 2, "per": 1}],
 "tensors": [{"name": "x", "size": 4, "home": ["cpu"]}, {"name": "a", "size": 2}, {"name": "b", "size": 2, "keep": true, "home": "gpu"}],
 "ops": [{"name": "A", "on": {"gpu": {"duration": 1}, "cpu": {"duration": 3}}, "inputs": ["x"], "outputs": ["a"]},
         {"name": "B", "on": {"gpu": {"duration": 1, "workspace": 1}}, "inputs": ["a"], "outputs": ["b"]}]})");
  }

  [[nodiscard]] int solve(const std::string& budget) const {
    return run_words("solve " + path("graph.json") + " --budget " + budget + " --work-limit 200 -q -o " +
                     path("schedule.json"))
        .code;
  }
  [[nodiscard]] Outcome report(const std::string& more) const {
    return run_words("report " + path("graph.json") + " " + path("schedule.json") + " " + more);
  }
};

TEST_F(DeviceReportCommand, WritesEverything) {
  ASSERT_EQ(solve("gpu=6"), 0);
  const Outcome outcome = report("-o " + path("p.html") + " --svg " + path("p.svg") + " --table " + path("p.csv") +
                                 " --trace " + path("t.json") + " --text");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(read("p.svg").find("cpu -&gt; gpu"), std::string::npos);
  EXPECT_EQ(read("p.csv"),
            "kind,name,type,device,to,times,again,bytes,duration,energy\n"
            "run,A,,gpu,,1,0,,1,0\nrun,B,,gpu,,1,0,,1,0\ncopy,x,,cpu,gpu,1,,4,3,0\n");
  EXPECT_FALSE(Json::parse(read("t.json"))["traceEvents"].empty());
  EXPECT_NE(read("p.html").find("several devices"), std::string::npos);
  for (const char* part : {"status      optimal", "gpu: 6 bytes of 6", "cpu -> gpu", "60.0 %"}) {
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << outcome.out;
  }
}

TEST_F(DeviceReportCommand, ABudgetForEachDeviceMayStandByItself) {
  ASSERT_EQ(solve("gpu=6,cpu=100M"), 0);
  const std::string together = Json::parse(read("schedule.json"))["budget"].dump();
  ASSERT_EQ(solve("gpu=6 --budget cpu=100M"), 0);
  EXPECT_EQ(Json::parse(read("schedule.json"))["budget"].dump(), together);
  for (const char* twice : {"6 --budget 7", "gpu=6 --budget 7", "60% -b cpu=100M"})
    EXPECT_EQ(solve(twice), 64) << twice;
}

TEST_F(DeviceReportCommand, AsksForTheUnitOfABareNumber) {
  Json graph = Json::parse(read("graph.json"));
  for (Json& tensor : graph["tensors"]) tensor["size"] = 1 << 20;
  write("graph.json", graph.dump());
  const Outcome asked = run_words("solve " + path("graph.json") + " --budget gpu=80,cpu=6M");
  EXPECT_EQ(asked.code, 64);
  EXPECT_EQ(asked.err.find("remora: --budget: gpu: '80' without a unit is bytes; name the unit (80GiB, 80MiB; for "
                           "bytes write 80B)"),
            0U)
      << asked.err;
  EXPECT_EQ(solve("gpu=80B"), 20);
  EXPECT_EQ(solve("gpu=80%"), 64);
}

TEST_F(DeviceReportCommand, ShowsThatThereIsNoSchedule) {
  ASSERT_EQ(solve("gpu=4"), 20);
  EXPECT_EQ(report("-o " + path("p.html")).code, 0);
  EXPECT_NE(report("--text").out.find("status      infeasible: "), std::string::npos);
  EXPECT_EQ(report("--trace " + path("t.json")).code, 65);
}

TEST_F(DeviceReportCommand, RefusesWhatDoesNotFit) {
  ASSERT_EQ(solve("gpu=6"), 0);
  EXPECT_EQ(report("--training").code, 64);
  Json schedule = Json::parse(read("schedule.json"));
  schedule["steps"].erase(schedule["steps"].end() - 1);
  write("schedule.json", schedule.dump());
  const Outcome outcome = report("--text");
  EXPECT_EQ(outcome.code, 65);
  EXPECT_NE(outcome.err.find("schedule.json: not a valid schedule of this graph: op B is never computed"),
            std::string::npos)
      << outcome.err;
}

TEST_F(DeviceReportCommand, InfoTellsDevicesAndLinks) {
  const Json facts = Json::parse(run_words("info --json " + path("graph.json")).out);
  EXPECT_EQ(facts["devices"][1]["always_resident"], 4);
  EXPECT_EQ(facts["devices"][0]["ops"], 2);
  EXPECT_EQ(facts["devices"][1]["duration"], 3);
  EXPECT_EQ(facts["links"][0]["to"], "cpu");
  const Outcome text = run_words("info " + path("graph.json"));
  EXPECT_NE(text.out.find("link gpu -> cpu"), std::string::npos) << text.out;
  EXPECT_EQ(run_words("info --min-budget " + path("graph.json")).code, 64);
}

}  // namespace
}  // namespace remora::cli
