// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/ask/problem.hpp"
#include "frontends/formats/interchange.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/verify.hpp"
#include "tests/support/oracle.hpp"
#include "tests/support/refusal.hpp"

namespace remora::interchange {
namespace {

/// As twremat.py writes it, blanks at the ends of lines and all: figure 1 of Kumar et al. 2019, with other costs.
constexpr const char* kFigureOne =
    "p remat2\n"
    "memlimit 300\n"
    "node 0 deps  cpu 7 mem 100 \n"
    "node 1 deps 0 cpu 2 mem 100 \n"
    "node 2 deps 0 cpu 3 mem 100 \n"
    "node 3 deps 1 2 cpu 4 mem 100 \n"
    "node 4 deps 0 3 cpu 5 mem 100 target\n";

std::vector<std::string> names(const Graph& graph) {
  std::vector<std::string> names;
  for (const Op& op : graph.ops) names.push_back(op.name);
  return names;
}

/// The names of the tensors that the op with this name reads.
std::set<std::string> reads(const Graph& graph, const std::string& name) {
  std::set<std::string> tensors;
  for (const Op& op : graph.ops) {
    if (op.name != name) continue;
    for (const TensorId t : op.inputs) tensors.insert(graph.tensors[static_cast<std::size_t>(t)].name);
  }
  return tensors;
}

std::set<std::string> kept(const Graph& graph) {
  std::set<std::string> tensors;
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.keep) tensors.insert(tensor.name);
  }
  return tensors;
}

std::string message(const std::string& text) {
  return remora::test::refusal_of([&] { read_remat2(text); });
}

TEST(Remat2, ReadsWhatTheProgramIsGiven) {
  ASSERT_TRUE(looks_like_remat2(kFigureOne));
  const Graph graph = read_remat2(kFigureOne);
  EXPECT_EQ(names(graph), (std::vector<std::string>{"0", "1", "2", "3", "4"}));
  EXPECT_EQ(graph.ops[3].duration, Duration(4));
  EXPECT_EQ(graph.ops[3].inputs, (std::vector<TensorId>{TensorId(1), TensorId(2)}));
  EXPECT_EQ(graph.tensors[3].name, "t3");
  EXPECT_EQ(graph.tensors[3].size, Bytes(100));
  EXPECT_EQ(kept(graph), std::set<std::string>{"t4"});
  EXPECT_EQ(graph.meta, R"({"source":"TWRemat p remat2","memlimit":300})");
}

TEST(Remat2, IsSolvedToTheBruteForceOptimum) {
  const auto graph = std::make_shared<const Graph>(read_remat2(kFigureOne));
  const Instance instance(graph, {.budget = Bytes(300)});
  const Schedule schedule = solve(instance, {.work_limit = 10000, .threads = 1});
  ASSERT_TRUE(verify(*graph, schedule).valid());
  EXPECT_EQ(schedule.duration, test::optimum(instance));
  EXPECT_EQ(schedule.duration, Duration(28)) << "node 0 twice";
}

TEST(Remat2, TakesNodesWithoutDependenciesOrWeightAndAnyWhiteSpace) {
  const Graph graph = read_remat2("p remat2 node 3\r\n node\t5 deps 3\n\n3 node 6 effectful target");
  EXPECT_EQ(names(graph), (std::vector<std::string>{"3", "5", "6"}));
  EXPECT_EQ(graph.ops[0].duration, Duration(1));
  EXPECT_EQ(graph.tensors[0].size, Bytes(1));
  EXPECT_EQ(graph.ops[1].inputs, std::vector<TensorId>{TensorId(0)}) << "each once";
  EXPECT_EQ(graph.meta, R"({"source":"TWRemat p remat2"})");
}

TEST(Remat2, EffectfulNodesAndLossesRunOnce) {
  const Graph graph = read_remat2(
      "p remat2\nnode 0 effectful\nnode 1 deps 0 cpu 5 mem 6 overhead 7\n"
      "node 2 deps 1 cpu 1 mem 4 overhead 0 loss\nnode 3 deps 2 cpu 1 mem 1 target loss\n");
  EXPECT_FALSE(graph.ops[0].recompute);
  EXPECT_EQ(graph.ops[0].duration, Duration(0));
  EXPECT_EQ(graph.tensors[0].size, Bytes(0));
  EXPECT_TRUE(graph.ops[1].recompute);
  EXPECT_EQ(graph.ops[1].workspace, Bytes(7));
  EXPECT_FALSE(graph.ops[2].recompute);
  EXPECT_EQ(graph.ops[2].phase, Phase::loss);
  EXPECT_FALSE(graph.ops[3].recompute);
  EXPECT_EQ(kept(graph), std::set<std::string>{"t3"});
}

TEST(Remat2, WhoeverReadsAPointerReadsWhatItPointsAt) {
  const Graph graph = read_remat2(
      "p remat2\nnode 0 cpu 1 mem 8\nnode 1 deps 0 pointer\nnode 2 cpu 1 mem 4\nnode 3 deps 1 2 pointer\n"
      "node 4 deps 3 cpu 1 mem 2\nnode 5 deps 4 cpu 1 mem 2 target\nnode 6 deps 5 pointer\nnode 7 deps 1 pointer "
      "target\n");
  EXPECT_EQ(reads(graph, "1"), (std::set<std::string>{"t0"}));
  EXPECT_EQ(reads(graph, "3"), (std::set<std::string>{"t0", "t1", "t2"}));
  EXPECT_EQ(reads(graph, "4"), (std::set<std::string>{"t0", "t2", "t3"}));
  EXPECT_EQ(reads(graph, "5"), (std::set<std::string>{"t4"}));
  EXPECT_EQ(reads(graph, "6"), (std::set<std::string>{"t5"}));
  EXPECT_EQ(kept(graph), (std::set<std::string>{"t0", "t5", "t7"})) << "a kept pointer keeps its storage";
  for (const int view : {1, 3, 6, 7}) {
    const auto i = static_cast<std::size_t>(view);
    EXPECT_EQ(graph.tensors[i].size, Bytes(0));
    EXPECT_EQ(graph.ops[i].duration, Duration(0));
    EXPECT_TRUE(graph.ops[i].recompute);
  }
}

TEST(Remat2, AnOrderThatCannotRunIsSortedFirstListedFirst) {
  const Graph graph = read_remat2("p remat2 node 9 node 4 deps 7 node 2 node 7 deps 2 node 1 deps 9 target");
  EXPECT_EQ(names(graph), (std::vector<std::string>{"9", "2", "7", "4", "1"}));
  EXPECT_EQ(reads(graph, "4"), std::set<std::string>{"t7"});
  EXPECT_EQ(kept(graph), std::set<std::string>{"t1"});
}

TEST(Remat2, RandomGraphsKeepTheirDependenciesInAnyListing) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    const std::size_t count = 1 + random() % 30;
    std::vector<std::set<std::string>> dependencies(count);
    for (std::size_t i = 1; i < count; ++i) {
      for (std::size_t k = random() % 4; k > 0; --k) dependencies[i].insert(std::to_string(random() % i));
    }
    std::vector<std::size_t> listing(count);
    std::iota(listing.begin(), listing.end(), 0U);
    const bool shuffled = round % 2 == 1;
    if (shuffled) std::shuffle(listing.begin(), listing.end(), random);
    std::string text = "p remat2\n";
    for (const std::size_t i : listing) {
      text += "node " + std::to_string(i) + " deps";
      for (const std::string& from : dependencies[i]) text += " " + from;
      text += " cpu 1 mem 1\n";
    }
    const Graph graph = read_remat2(text);
    ASSERT_NO_THROW(validate(graph));
    ASSERT_EQ(graph.ops.size(), count);
    for (std::size_t i = 0; i < count; ++i) {
      if (!shuffled) {
        EXPECT_EQ(graph.ops[i].name, std::to_string(i));
      }
      std::set<std::string> expected;
      for (const std::string& from : dependencies[i]) expected.insert("t" + from);
      EXPECT_EQ(reads(graph, std::to_string(i)), expected);
    }
  }
}

TEST(Remat2, SaysInWhichLineAFaultIs) {
  EXPECT_EQ(message("p remat2\nnode 0\nnode 1 deps 5"), "line 3: node 1 depends on node 5, which does not exist");
  EXPECT_EQ(message("p remat2\nnode 0\nnode 0"), "line 3: a second node 0, the first is in line 2");
  EXPECT_EQ(message("p remat2\nnode 0 cpu 4\nnode 1"), "line 3: expected \"mem\", found \"node\"");
  EXPECT_EQ(message("p remat2\nnode 0 cpu -4 mem 1"), "line 2: expected cpu, a number from 0, found \"-4\"");
  EXPECT_EQ(message("p remat2\nnode 0 cpu 4.5 mem 1"), "line 2: expected cpu, a number from 0, found \"4.5\"");
  EXPECT_EQ(message("p remat2\nnode 0 cpu 1 mem 9223372036854775808"),
            "line 2: mem \"9223372036854775808\" exceeds 64 bits");
  EXPECT_EQ(message("p remat2\nmemlimit 3G\nnode 0"),
            "line 2: expected the memory limit, a number from 0, found \"3G\"");
  EXPECT_EQ(message("p remat2\n\nnode 0 target effectful"),
            "line 3: expected a further word of this node or the next \"node\", found \"effectful\"");
  EXPECT_EQ(message("p remat2\nnode 2 deps 0\nnode 0 deps 1\nnode 1 deps 2"),
            "line 2: the nodes form a cycle: 2 -> 1 -> 0 -> 2");
  EXPECT_EQ(message("p remat2\nnode 0\nnode 1 deps 0 1"), "line 3: the nodes form a cycle: 1 -> 1");
  EXPECT_EQ(message("p remat2\n"), "line 2: the text ends where \"node\" should stand");
  EXPECT_EQ(message("p remat2\nnode"), "line 2: the text ends where the node's id, a number from 0 should stand");
  EXPECT_NE(message("p remat2\nnode 0 cpu 1 mem 9223372036854775807 node 1 cpu 1 mem 1"), "") << "the sum";
}

TEST(Remat2, IsToldByItsFirstTwoWords) {
  EXPECT_TRUE(looks_like_remat2("p remat2"));
  EXPECT_TRUE(looks_like_remat2("\n p  remat2\tnode 0"));
  for (const char* text :
       {"", "p", "premat2", "p remat", "p remat21", "p cnf 3 4", "{\"p\": \"remat2\"}", "q remat2"}) {
    EXPECT_FALSE(looks_like_remat2(text)) << text;
  }
}

/// Whatever the text, the answer is a sound graph or one line.
void expect_graph_or_line(const std::string& text) {
  try {
    validate(read_remat2(text));
  } catch (const InputError& error) {
    const std::string line = error.what();
    EXPECT_FALSE(line.empty());
    EXPECT_EQ(line.find_first_of("\r\n"), std::string::npos) << line;
  }
}

TEST(Remat2, ATextCutAnywhereIsAShorterGraphOrALine) {
  const std::string text = kFigureOne;
  for (std::size_t length = 0; length < text.size(); ++length) expect_graph_or_line(text.substr(0, length));
  for (const char* word : {"node", "cpu", "mem", "memlimit"}) {
    EXPECT_NE(message(text.substr(0, text.rfind(word) + std::string(word).size())), "") << "cut behind " << word;
  }
}

TEST(Remat2, GarbledTextIsAGraphOrALine) {
  std::mt19937 random(11);
  constexpr std::string_view kTelling = "0123456789 \n\t-.pcn\xff\0";
  for (int round = 0; round < 3000; ++round) {
    std::string text = kFigureOne;
    for (std::size_t change = 1 + random() % 5; change > 0; --change) {
      const std::size_t at = random() % text.size();
      const char byte = random() % 3 == 0 ? static_cast<char>(random()) : kTelling[random() % kTelling.size()];
      if (random() % 3 == 0) {
        text.erase(at, 1 + random() % 6);
        if (text.empty()) text = " ";
      } else if (random() % 2 == 0) {
        text.insert(at, 1, byte);
      } else {
        text[at] = byte;
      }
    }
    SCOPED_TRACE(text);
    expect_graph_or_line(text);
  }
}

}  // namespace
}  // namespace remora::interchange
