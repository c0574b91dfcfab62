// SPDX-License-Identifier: Apache-2.0
//
// `remora info --partition`: the tree of groups in both of its forms.
#include <algorithm>
#include <map>
#include <set>
#include <sstream>
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

class PartitionTree : public remora::test::TemporaryFolder {
 protected:
  void save(const std::string& name, const Graph& graph) const {
    remora::json::write_file(path(name), [&](std::ostream& out) { remora::json::write_graph(out, graph); });
  }
  [[nodiscard]] Outcome info(const std::string& name, const std::string& words) const {
    return test::run_words("info " + path(name) + " " + words);
  }
  [[nodiscard]] Json partition(const std::string& name, const std::string& words = "") const {
    const Outcome outcome = info(name, "--partition --json " + words);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return Json::parse(outcome.out)["partition"];
  }
};

Json children_of(const Json& entry) {
  return entry.value("children", Json::array());
}

/// What a reader adds up from a tree that shows its units.
struct Sums {
  int groups = 0;
  int units = 0;
  std::set<int> forms{};
};

void add_up(const Json& entry, int times, Sums& sums) {
  if (entry["level"] == 0) sums.units += times;
  if (entry.contains("form")) {
    sums.groups += times;
    sums.forms.insert(entry["form"].get<int>());
  }
  int children = 0;
  int units = 0;
  int ops = 0;
  for (const Json& child : children_of(entry)) {
    const int count = child["count"];
    children += count;
    units += count * child["units"].get<int>();
    ops += count * child["ops"].get<int>();
    add_up(child, times * count, sums);
    EXPECT_LT(child["level"], entry["level"]);
  }
  EXPECT_EQ(entry["child_count"], children);
  if (children > 0) {
    EXPECT_EQ(entry["units"], units);
    EXPECT_EQ(entry["ops"], ops);
  }
}

TEST_F(PartitionTree, CountsEveryUnitAndGroupOnce) {
  save("transformer.json", remora::test::generate_transformer({.layers = 30}));
  ASSERT_EQ(test::run_words("generate layered --ops 250 --edges 944 -o " + path("layered.json")).code, 0);
  for (const char* graph : {"transformer.json", "layered.json"}) {
    SCOPED_TRACE(graph);
    const Json result = partition(graph, "--partition-units --group-size 6 --top-size 5");
    Sums sums;
    add_up(result["tree"], 1, sums);
    EXPECT_EQ(result["groups"], sums.groups);
    EXPECT_EQ(result["distinct_groups"], sums.forms.size());
    EXPECT_EQ(result["tree"]["units"], sums.units);
    EXPECT_EQ(result["tree"]["level"], result["levels"]);
    EXPECT_EQ(result["tree"]["ops"], Json::parse(info(graph, "--json").out)["ops"]);
    EXPECT_EQ(result["group_size"], 6);
  }
}

TEST_F(PartitionTree, IsTheOneThatSolveWorksWith) {
  save("chain.json", remora::test::generate_chain({.layers = 60}));
  for (const std::string words : {"", "--group-size 5 --top-size 7"}) {
    const Json result = partition("chain.json", words);
    const Outcome solved = test::run_words("solve " + path("chain.json") + " --quiet --budget 60% --work-limit 2000" +
                                           " --groups on --without segments,period-bound " + words);
    ASSERT_EQ(solved.code, 0) << solved.err;
    const Json schedule = Json::parse(solved.out);
    const Json& statistics = schedule["solver"]["statistics"];
    for (const char* name : {"levels", "groups", "distinct_groups"}) EXPECT_EQ(result[name], statistics[name]) << words;
  }
}

TEST_F(PartitionTree, OfAThousandEqualLayersIsAPage) {
  save("chain.json", remora::test::generate_chain({.layers = 1000}));
  const Outcome outcome = info("chain.json", "--partition --group-size 4 --top-size 10");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  constexpr long kPage = 60;
  EXPECT_LT(std::count(outcome.out.begin(), outcome.out.end(), '\n'), kPage) << outcome.out;
  EXPECT_NE(outcome.out.find("  x "), std::string::npos) << outcome.out;
}

TEST_F(PartitionTree, ShowsTheInsideOfAFormOnce) {
  save("chain.json", remora::test::generate_chain({.layers = 200}));
  const std::string text = info("chain.json", "--partition --group-size 4 --top-size 4").out;
  EXPECT_NE(text.find("; inside as above"), std::string::npos) << text;
  std::istringstream lines(text.substr(text.find("\nroot")));
  std::map<std::string, int> insides;
  std::string form;
  std::size_t indent = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t deeper = line.find_first_not_of(' ');
    if (!form.empty() && deeper > indent) ++insides[form];
    const std::size_t place = line.find("form ");
    form = place == std::string::npos ? "" : line.substr(place, line.find(' ', place + 5) - place);
    indent = deeper;
  }
  EXPECT_FALSE(insides.empty());
  for (const auto& [name, times] : insides) EXPECT_EQ(times, 1) << name << "\n" << text;
}

TEST_F(PartitionTree, ShowsAsManyLevelsAsAsked) {
  save("chain.json", remora::test::generate_chain({.layers = 200}));
  const std::string sizes = "--group-size 4 --top-size 4 ";
  EXPECT_FALSE(partition("chain.json", sizes + "--partition-depth 0")["tree"].contains("children"));
  const Json shallow = partition("chain.json", sizes + "--partition-depth 1")["tree"];
  ASSERT_TRUE(shallow.contains("children"));
  for (const Json& child : shallow["children"]) EXPECT_FALSE(child.contains("children"));
  const std::string text = info("chain.json", "--partition --partition-depth 0").out;
  EXPECT_NE(text.find("\nroot "), std::string::npos) << text;
  EXPECT_EQ(text.find("\n  level"), std::string::npos) << text;
}

}  // namespace
}  // namespace remora::cli
