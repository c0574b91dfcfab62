// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "frontends/formats/interchange.hpp"
#include "model/buffers/schedule_buffers.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/verify.hpp"
#include "tests/frontends/formats/solved_graphs.hpp"
#include "tests/support/random_graph.hpp"
#include "tests/support/refusal.hpp"

namespace remora::interchange {
namespace {

/// The largest sum of sizes at one time, from the rows alone.
Bytes highest_sum(const std::vector<Buffer>& buffers) {
  std::map<std::int64_t, Bytes> change;
  for (const Buffer& buffer : buffers) {
    change[buffer.lifespan.lower] += buffer.size;
    change[buffer.lifespan.upper] -= buffer.size;
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
  const std::vector<Buffer> buffers = buffers_of(graph, schedule).buffers;
  std::set<std::string> ids;
  for (const Buffer& buffer : buffers) {
    EXPECT_TRUE(ids.insert(buffer.id).second) << buffer.id;
    EXPECT_GE(buffer.lifespan.lower, 0);
    EXPECT_LT(buffer.lifespan.lower, buffer.lifespan.upper) << buffer.id;
    EXPECT_LE(buffer.lifespan.upper, static_cast<std::int64_t>(schedule.steps.size()));
    EXPECT_GT(buffer.size, Bytes(0)) << buffer.id;
  }
  EXPECT_TRUE(std::is_sorted(buffers.begin(), buffers.end(),
                             [](const Buffer& a, const Buffer& b) { return a.lifespan.lower < b.lifespan.lower; }));
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
    longer += buffers_of(*solved.graph, late).buffers != buffers_of(*solved.graph, solved.schedule).buffers ? 1 : 0;
  }
  EXPECT_GE(longer, test::solved_graphs().size() / 2) << "else nothing was put off";
}

TEST(Buffers, OfEarliestReleasesAreTheEvaluatorsIntervals) {
  for (const test::SolvedGraph& solved : test::solved_graphs()) {
    SCOPED_TRACE(solved.about);
    Sequence sequence;
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
    for (const Buffer& buffer : buffers_of(*solved.graph, exact).buffers) {
      if (inputs.contains(buffer.id) || buffer.id.ends_with(" workspace")) continue;
      rows.insert({buffer.lifespan.lower, buffer.lifespan.upper, buffer.size});
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
  write_buffers(out, buffers_of(awkward.graph, awkward.schedule).buffers);
  EXPECT_EQ(out.str(),
            "id,lower,upper,size\n"
            "A#0 workspace,0,1,7\n"
            "\"a,\"\"b\"\"#0\",0,3,10\n"
            "x#0,0,3,5\n"
            "A#0 workspace#0,1,3,3\n"
            "A#1 workspace,2,3,7\n");
  expect_sound(awkward.graph, awkward.schedule);
}

TEST(Buffers, ThereAreNoneOfAGraphWithoutOps) {
  Awkward awkward;
  awkward.schedule.steps.clear();
  EXPECT_TRUE(buffers_of({}, awkward.schedule).buffers.empty()) << "of a graph without ops";
}

std::string table_refusal(const std::string& text) {
  return remora::test::refusal_of([&] { read_buffers(text, "b.csv"); }, "accepted");
}

TEST(BufferTable, IsReadAsMinimallocReadsIt) {
  const std::vector<Buffer> plain{{.id = "a", .lifespan = {0, 3}, .size = Bytes(4)},
                                  {.id = "b,c", .lifespan = {-2, 9}, .size = Bytes(0)}};
  EXPECT_EQ(read_buffers("id,lower,upper,size\na,0,3,4\n\"b,c\",-2,9,0\n", ""), plain);
  EXPECT_EQ(read_buffers("size,colour,begin,buffer_id,upper\r\n4,red,0,a,3\r\n0,,-2,\"b,c\",9", ""), plain);
  EXPECT_EQ(read_buffers("buffer,start,end,size\na,0,2,4\n\"b,c\",-2,8,0\n", ""), plain);
  EXPECT_EQ(read_buffers("\xEF\xBB\xBFid,lower,upper,size\na,0,3,4\n\"b,c\",-2,9,0\n", ""), plain)
      << "a byte order mark";
  const std::vector<Buffer> all =
      read_buffers("id,lower,upper,size,alignment,gaps,offset\na,0,9,4,2,1-2 4-7,6\nb,-9,0,4,,-8--6 ,\n", "");
  EXPECT_EQ(all[0].alignment, Bytes(2));
  EXPECT_EQ(all[0].offset, Bytes(6));
  EXPECT_EQ(all[0].gaps, (std::vector<Lifespan>{{1, 2}, {4, 7}}));
  EXPECT_EQ(all[1].alignment, Bytes(1));
  EXPECT_FALSE(all[1].offset);
  EXPECT_EQ(all[1].gaps, (std::vector<Lifespan>{{-8, -6}}));
  EXPECT_EQ(read_buffers("id,start,end,size,gaps\na,0,8,4,1-1 4-6\n", "")[0].gaps,
            (std::vector<Lifespan>{{1, 2}, {4, 7}}));
  EXPECT_TRUE(read_buffers("id,lower,upper,size\n", "").empty());
}

TEST(BufferTable, IsRefusedWithTheLine) {
  const std::string header = "id,lower,upper,size,alignment,gaps,offset\n";
  EXPECT_EQ(table_refusal(""), "b.csv: line 1: a table of buffers begins with id,lower,upper,size");
  EXPECT_EQ(table_refusal("id,lower,upper\n"), "b.csv: line 1: a table of buffers begins with id,lower,upper,size");
  EXPECT_EQ(table_refusal("id,id,lower,upper,size\n"), R"(b.csv: line 1: the column "id" is there twice)");
  EXPECT_EQ(table_refusal("id,lower,upper,size,end\n"),
            R"(b.csv: line 1: both "upper" and "end" say when buffers end)");
  EXPECT_EQ(table_refusal(header + "a,0,1,2\n"), "b.csv: line 2: has 4 fields, not 7");
  EXPECT_EQ(table_refusal(header + "a,0,1,2,,,\nb,0,1.5,2,,,\n"),
            R"(b.csv: line 3: upper must be a whole number within 64 bits, not "1.5")");
  EXPECT_EQ(table_refusal(header + "a,0,1,99999999999999999999,,,\n"),
            R"(b.csv: line 2: size must be a whole number within 64 bits, not "99999999999999999999")");
  EXPECT_EQ(table_refusal(header + "a,0,9,2,,4,\n"),
            R"(b.csv: line 2: gaps are FROM-TO with blanks between them, not "4")");
  EXPECT_EQ(
      table_refusal(header + "a,0,9,2,,1-2@0:1,\n"),
      R"(b.csv: line 2: the gap "1-2@0:1" has a window, a part of the buffer that stays alive: that is not supported)");
  EXPECT_EQ(table_refusal(header + "a,0,9,2,,8-12,\n"),
            "b.csv: line 2: buffer \"a\": the gap from 8 to 12 must lie in the lifespan from 0 to 9, after the gaps "
            "before it");
  EXPECT_EQ(table_refusal(header + "a,5,3,2,,,\n"),
            R"(b.csv: line 2: buffer "a": its lifespan, 5 to 3, ends before it begins)");
  EXPECT_EQ(table_refusal("id,start,end,size\na,0,9223372036854775807,1\n"), "b.csv: line 2: end is too large");
  EXPECT_EQ(table_refusal(header + "a,0,1,4611686018427387000,,,\nb,0,1,4611686018427387000,,,\n"),
            "b.csv: the buffers' sizes, alignments and fixed offsets add up to more than 2^62");
}

}  // namespace
}  // namespace remora::interchange
