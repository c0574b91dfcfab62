// SPDX-License-Identifier: Apache-2.0
#include "frontends/formats/buffers.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/verify.hpp"
#include "tests/frontends/formats/solved_graphs.hpp"
#include "tests/support/random_graph.hpp"

namespace remora::interchange {
namespace {

/// The largest sum of sizes at one time, from the rows alone.
Bytes highest_sum(const std::vector<Buffer>& buffers) {
  std::map<std::int64_t, Bytes> change;
  for (const Buffer& buffer : buffers) {
    change[buffer.first_step] += buffer.size;
    change[buffer.end_step] -= buffer.size;
  }
  Bytes sum;
  Bytes highest;
  for (const auto& [step, difference] : change) {
    sum += difference;
    highest = std::max(highest, sum);
  }
  return highest;
}

void expect_sound(const Graph& graph, const Schedule& schedule) {
  const std::vector<Buffer> buffers = buffers_of(graph, schedule);
  std::set<std::string> ids;
  for (const Buffer& buffer : buffers) {
    EXPECT_TRUE(ids.insert(buffer.id).second) << buffer.id;
    EXPECT_GE(buffer.first_step, 0);
    EXPECT_LT(buffer.first_step, buffer.end_step) << buffer.id;
    EXPECT_LE(buffer.end_step, static_cast<std::int64_t>(schedule.steps.size()));
    EXPECT_GT(buffer.size, Bytes(0)) << buffer.id;
  }
  EXPECT_TRUE(std::is_sorted(buffers.begin(), buffers.end(),
                             [](const Buffer& a, const Buffer& b) { return a.first_step < b.first_step; }));
  EXPECT_EQ(graph.fixed_memory + highest_sum(buffers), schedule.peak_memory);
}

TEST(Buffers, NeedThePeakOfTheirSchedule) {
  ASSERT_GE(test::solved_graphs().size(), 100U);
  std::size_t recomputing = 0;
  for (const test::SolvedGraph& solved : test::solved_graphs()) {
    SCOPED_TRACE(solved.about);
    expect_sound(*solved.graph, solved.schedule);
    recomputing += solved.schedule.steps.size() > solved.graph->ops.size() ? 1 : 0;
  }
  EXPECT_GE(recomputing, test::solved_graphs().size() / 3);
}

TEST(Buffers, FollowReleasesThatAreWrittenLate) {
  std::size_t longer = 0;
  unsigned seed = 0;
  for (const test::SolvedGraph& solved : test::solved_graphs()) {
    SCOPED_TRACE(solved.about);
    const Schedule late = test::with_late_releases(*solved.graph, solved.schedule, ++seed);
    expect_sound(*solved.graph, late);
    longer += buffers_of(*solved.graph, late) != buffers_of(*solved.graph, solved.schedule) ? 1 : 0;
  }
  EXPECT_GE(longer, test::solved_graphs().size() / 2) << "else nothing was put off";
}

TEST(Buffers, OfEarliestReleasesAreTheEvaluatorsIntervals) {
  for (const test::SolvedGraph& solved : test::solved_graphs()) {
    SCOPED_TRACE(solved.about);
    std::vector<OpId> sequence;
    for (const Step& step : solved.schedule.steps) sequence.push_back(step.op);
    const Instance instance(solved.graph, {});
    Schedule exact = solved.schedule;
    exact.steps = steps_of(instance, sequence);
    exact.peak_memory = evaluate(instance, sequence).peak;
    ASSERT_TRUE(verify(*solved.graph, exact).valid());
    std::multiset<std::tuple<std::int64_t, std::int64_t, Bytes>> expected;
    for (const RetentionInterval& interval : evaluate(instance, sequence).intervals) {
      if (interval.size > Bytes(0)) expected.insert({interval.first_step, interval.last_step + 1, interval.size});
    }
    std::multiset<std::tuple<std::int64_t, std::int64_t, Bytes>> rows;
    std::set<std::string> inputs;
    for (std::size_t t = 0; t < solved.graph->tensors.size(); ++t) {
      if (!instance.producer(TensorId(t)).valid()) inputs.insert(solved.graph->tensors[t].name + "#0");
    }
    for (const Buffer& buffer : buffers_of(*solved.graph, exact)) {
      if (inputs.contains(buffer.id) || buffer.id.ends_with(" workspace")) continue;
      rows.insert({buffer.first_step, buffer.end_step, buffer.size});
    }
    EXPECT_EQ(rows, expected);
  }
}

/// An input x, an op of two outputs with a workspace, and names that want quoting or look like other ids.
struct Awkward {
  Graph graph{};
  Schedule schedule{
      .status = Status::feasible, .budget = Bytes(100), .duration = Duration(4), .peak_memory = Bytes(34)};

  Awkward() {
    graph.fixed_memory = Bytes(9);
    const TensorId x = graph.add_tensor("x", Bytes(5));
    const TensorId a = graph.add_tensor("a,\"b\"", Bytes(10));
    const TensorId empty = graph.add_tensor("empty", Bytes(0));
    const TensorId c = graph.add_tensor("A#0 workspace", Bytes(3), true);
    graph.add_op({.name = "A", .duration = Duration(1), .workspace = Bytes(7), .inputs = {x}, .outputs = {a, empty}});
    graph.add_op({.name = "C", .duration = Duration(2), .inputs = {a, empty}, .outputs = {c}});
    // A runs again where its outputs are resident: only the workspace is new.
    schedule.steps = {{.op = OpId(0)}, {.op = OpId(1), .free = {empty}}, {.op = OpId(0), .free = {a, empty}}};
  }
};

TEST(Buffers, AreWrittenAsMinimallocReadsThem) {
  const Awkward awkward;
  ASSERT_TRUE(verify(awkward.graph, awkward.schedule).valid()) << verify(awkward.graph, awkward.schedule).errors[0];
  std::ostringstream out;
  write_minimalloc(out, awkward.graph, awkward.schedule);
  EXPECT_EQ(out.str(),
            "id,lower,upper,size\n"
            "A#0 workspace,0,1,7\n"
            "\"a,\"\"b\"\"#0\",0,3,10\n"
            "x#0,0,3,5\n"
            "A#0 workspace#0,1,3,3\n"
            "A#1 workspace,2,3,7\n");
  expect_sound(awkward.graph, awkward.schedule);
}

TEST(Buffers, ThereAreNoneWithoutASchedule) {
  Awkward awkward;
  awkward.schedule.status = Status::infeasible;
  awkward.schedule.steps.clear();
  EXPECT_THROW(buffers_of(awkward.graph, awkward.schedule), InputError);
  awkward.schedule.status = Status::optimal;
  EXPECT_TRUE(buffers_of({}, awkward.schedule).empty()) << "of a graph without ops";
}

}  // namespace
}  // namespace remora::interchange
