// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "frontends/formats/interchange.hpp"
#include "frontends/text/text.hpp"
#include "model/error.hpp"
#include "model/verify.hpp"
#include "tests/frontends/formats/solved_graphs.hpp"
#include "tests/support/random_graph.hpp"

namespace remora::interchange {
namespace {

using Matrix = StageMatrices::Matrix;

/// The ops whose outputs op j reads.
std::vector<std::size_t> dependencies(const Graph& graph, std::size_t j) {
  std::vector<std::size_t> result;
  for (std::size_t i = 0; i < j; ++i) {
    for (const TensorId t : graph.ops[i].outputs) {
      const auto& inputs = graph.ops[j].inputs;
      if (std::find(inputs.begin(), inputs.end(), t) != inputs.end()) result.push_back(i);
    }
  }
  return result;
}

/// Jain et al. 2020, eq. 1b, 1c, 1d, and that stage t ends with the first compute of op t.
void expect_rules(const Graph& graph, const StageMatrices& matrices, std::size_t t) {
  const auto& [computed, retained] = matrices;
  for (std::size_t j = 0; j < graph.ops.size(); ++j) {
    if (computed[t][j] != 0) {
      EXPECT_LE(j, t) << "the first computes follow the input order";
      for (const std::size_t i : dependencies(graph, j)) {
        EXPECT_TRUE(computed[t][i] != 0 || retained[t][i] != 0) << "eq. 1b: " << t << ", " << i << " -> " << j;
      }
    }
    if (t == 0) {
      EXPECT_EQ(retained[0][j], 0) << "eq. 1d";
    } else if (retained[t][j] != 0) {
      EXPECT_TRUE(computed[t - 1][j] != 0 || retained[t - 1][j] != 0) << "eq. 1c: " << t << ", " << j;
    }
  }
  if (t < graph.ops.size()) {
    EXPECT_EQ(computed[t][t], 1);
  }
}

TEST(StageMatrices, KeepCheckmatesRulesAndTheDuration) {
  for (const test::SolvedGraph& solved : test::solved_graphs()) {
    SCOPED_TRACE(solved.about);
    const Graph& graph = *solved.graph;
    const StageMatrices matrices = stage_matrices(graph, solved.schedule);
    ASSERT_EQ(matrices.computed.size(), graph.ops.size() + 1);
    ASSERT_EQ(matrices.retained.size(), graph.ops.size() + 1);
    std::size_t computes = 0;
    Duration duration;
    for (std::size_t t = 0; t <= graph.ops.size(); ++t) {
      ASSERT_EQ(matrices.computed[t].size(), graph.ops.size());
      ASSERT_EQ(matrices.retained[t].size(), graph.ops.size());
      expect_rules(graph, matrices, t);
      for (std::size_t i = 0; i < graph.ops.size(); ++i) {
        computes += matrices.computed[t][i];
        if (matrices.computed[t][i] != 0) duration += graph.ops[i].duration;
      }
    }
    EXPECT_EQ(computes, solved.schedule.steps.size());
    EXPECT_EQ(duration, solved.schedule.duration);
  }
}

TEST(StageMatrices, TellTheWholeSequence) {
  for (const test::SolvedGraph& solved : test::solved_graphs()) {
    SCOPED_TRACE(solved.about);
    const StageMatrices matrices = stage_matrices(*solved.graph, solved.schedule);
    std::vector<OpId> read;
    for (const auto& row : matrices.computed) {
      for (std::size_t i = 0; i < row.size(); ++i) {
        if (row[i] != 0) read.emplace_back(i);
      }
    }
    Sequence sequence;
    for (const Step& step : solved.schedule.steps) sequence.push_back(step.op);
    EXPECT_EQ(read, sequence);
  }
}

TEST(StageMatrices, OfFigureOne) {
  const auto graph = test::figure_1();
  const Schedule schedule = test::figure_1_schedule();
  ASSERT_TRUE(verify(*graph, schedule).valid()) << verify(*graph, schedule).errors[0];
  std::ostringstream out;
  write_stage_matrices(out, *graph, schedule);
  EXPECT_EQ(out.str(),
            "matrix,stage,A,B,C,D,E\n"
            "R,0,1,0,0,0,0\nR,1,0,1,0,0,0\nR,2,0,0,1,0,0\nR,3,0,0,0,1,0\nR,4,1,0,0,0,1\nR,5,0,0,0,0,0\n"
            "S,0,0,0,0,0,0\nS,1,1,0,0,0,0\nS,2,1,1,0,0,0\nS,3,0,1,1,0,0\nS,4,0,0,0,1,0\nS,5,0,0,0,0,1\n");
}

/// Both outputs of A are kept; one is released in stage 1 and computed again in the last stage.
TEST(StageMatrices, AnyOutputIsEnoughAndTheLastStageHoldsRecomputes) {
  Graph graph;
  const TensorId a = graph.add_tensor("a", Bytes(1), true);
  const TensorId b = graph.add_tensor("b", Bytes(1), true);
  const TensorId c = graph.add_tensor("c", Bytes(1));
  graph.add_op({.name = "A", .duration = Duration(1), .outputs = {a, b}});
  graph.add_op({.name = "C,1", .duration = Duration(1), .inputs = {a}, .outputs = {c}});
  Schedule schedule{.status = Status::feasible, .budget = Bytes(3), .duration = Duration(3), .peak_memory = Bytes(3)};
  schedule.steps = {{.op = OpId(0)}, {.op = OpId(1), .free = {c, a}}, {.op = OpId(0)}};
  ASSERT_TRUE(verify(graph, schedule).valid()) << verify(graph, schedule).errors[0];
  std::ostringstream out;
  write_stage_matrices(out, graph, schedule);
  EXPECT_EQ(out.str(), "matrix,stage,A,\"C,1\"\nR,0,1,0\nR,1,0,1\nR,2,1,0\nS,0,0,0\nS,1,1,0\nS,2,1,0\n");
}

TEST(StageMatrices, AreRefusedWhereThereAreNoStages) {
  const auto graph = test::figure_1();
  Schedule schedule = test::figure_1_schedule();
  schedule.order = OrderMode::free;
  EXPECT_THROW(stage_matrices(*graph, schedule), InputError);
  EXPECT_THROW(stage_matrices(*graph, Schedule{.status = Status::infeasible}), InputError);
  Graph large;
  large.ops.resize(kMaxMatrixOps + 1);
  EXPECT_THROW(stage_matrices(large, test::figure_1_schedule()), InputError);
}

TEST(CsvField, QuotesWhatRfc4180Asks) {
  EXPECT_EQ(text::csv_field("conv 1#2"), "conv 1#2");
  EXPECT_EQ(text::csv_field(""), "");
  EXPECT_EQ(text::csv_field("a,b"), "\"a,b\"");
  EXPECT_EQ(text::csv_field("say \"x\""), "\"say \"\"x\"\"\"");
  EXPECT_EQ(text::csv_field("two\nlines"), "\"two\nlines\"");
  EXPECT_EQ(text::csv_field("cr\r"), "\"cr\r\"");
}

}  // namespace
}  // namespace remora::interchange
