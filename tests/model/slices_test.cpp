// SPDX-License-Identifier: Apache-2.0
//
// What slices compute, what they need, and which are rejected, by an interpreter of small programs
// (tests/support/programs.hpp).
#include "model/slices.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/instance.hpp"
#include "model/sequence.hpp"
#include "tests/support/fewer.hpp"
#include "tests/support/oracle.hpp"
#include "tests/support/programs.hpp"
#include "tests/support/refusal.hpp"

namespace remora {
namespace {

using test::Execution;
using test::Program;

std::string text_of(const Graph& graph, const Region& region) {
  std::string text = std::to_string(region.slices) + " slices of";
  for (const RegionPart& part : region.parts) {
    text += " (";
    for (const auto& [op, axis] : part) text += " " + graph[op].name + "." + std::to_string(axis);
    text += " )";
  }
  for (const Op& op : graph.ops) {
    text += "\n" + op.name + ":";
    for (const TensorId t : op.inputs) text += " " + graph[t].name + "/" + std::to_string(graph[t].size.count());
    text += " ->";
    for (const TensorId t : op.outputs) text += " " + graph[t].name + "/" + std::to_string(graph[t].size.count());
  }
  return text;
}

/// A random sequence of the staged form in which each op runs up to twice, as far as it may.
Sequence random_sequence(std::mt19937& random, const Instance& instance) {
  RecomputePlan plan;
  for (const OpId v : instance.ops()) {
    const int stages = instance.op_count() - v;
    if (instance.max_computes(v) < 2 || random() % 3 != 0) continue;
    plan.push_back({Stage(v + 1 + static_cast<int>(random() % static_cast<unsigned>(stages))), v});
  }
  std::ranges::sort(plan);
  std::erase_if(plan, [&](const Recompute& r) { return r.stage >= stages_of(instance); });
  return sequence_of(instance, plan);
}

/// The slices compute what the program computes, and need the memory and time that the model says.
void expect_equal(const Program& program, const SlicedGraph& sliced, const Region& region, const SliceRun& run,
                  std::mt19937& random, int sequences) {
  ASSERT_EQ(test::refusal_of([&] { validate(sliced.graph); }, "valid"), "valid");
  const auto graph = std::make_shared<const Graph>(sliced.graph);
  const Instance instance(graph, {.max_computes = 2});
  const auto values = test::values_of(program);
  for (int i = 0; i < sequences; ++i) {
    const Sequence sequence = i == 0 ? Sequence(input_order(instance)) : random_sequence(random, instance);
    const Execution execution = test::execute(program, sliced, region, run.temporaries, sequence);
    const Evaluation evaluation = evaluate(instance, sequence);
    ASSERT_EQ(execution.fault, "");
    EXPECT_EQ(execution.memory, evaluation.memory);
    EXPECT_EQ(execution.duration, evaluation.duration);
    for (const TensorId t : values.ids()) {
      if (!program.graph[t].keep) continue;
      EXPECT_EQ(execution.values[t], values[t]);
    }
  }
}

std::optional<SlicedGraph> sliced_or_rejected(const Program& program, const Region& region, const SliceRun& run) {
  const bool independent = test::is_independent(program.graph, region);
  try {
    SlicedGraph sliced = slice(program.graph, region, run);
    EXPECT_TRUE(independent) << "accepted";
    return sliced;
  } catch (const InputError& error) {
    const auto says = [&](const char* words) { return std::string(error.what()).find(words) != std::string::npos; };
    EXPECT_TRUE(!independent || says("overlap") || says("nothing to compute")) << error.what();
    return std::nullopt;
  }
}

/// What the random cases have in them.
struct Counts {
  int accepted = 0;
  int rejected = 0;
  /// With a tensor whose slices are written in one part and read in another; with slices that overlap; with a result
  /// that slices assemble or add up; with fewer slices than asked for.
  int shared = 0;
  int overlapping = 0;
  int assembled = 0;
  int fewer = 0;
  /// With a result whose first version takes over the storage of an input that is no slice.
  int overwriting = 0;

  void add(const Program& program, const Region& region, const std::optional<SlicedGraph>& sliced) {
    ++(sliced ? accepted : rejected);
    if (!sliced) return;
    if (sliced->slices < region.slices) ++fewer;
    std::map<OpId, std::int64_t> iterations;
    std::map<OpId, int> part;
    for (std::size_t p = 0; p < region.parts.size(); ++p) {
      for (const auto& [op, axis] : region.parts[p]) {
        part[op] = static_cast<int>(p);
        iterations[op] = -program.graph[op].axes[at(axis)].extent;
      }
    }
    bool shares = false;
    bool pieces = false;
    bool overwrites = false;
    for (const OpId v : sliced->ops.ids()) {
      const OpSource& source = sliced->ops[v];
      if (source.slice < 0) continue;
      iterations[source.op] += source.iterations.size();
      pieces = pieces || (source.slice > 0 && !sliced->graph[v].in_place.empty());
      for (const InPlace& pair : sliced->graph[v].in_place) {
        overwrites = overwrites || (source.slice == 0 && sliced->tensors[pair.input].bytes.empty());
      }
      for (const TensorId t : program.graph[source.op].inputs) {
        for (const OpId writer : Ids<OpId>(program.graph.ops.size())) {
          const auto& outputs = program.graph[writer].outputs;
          const bool writes = std::ranges::find(outputs, t) != outputs.end();
          shares =
              shares || (writes && part.contains(writer) && part[writer] != part[source.op] && is_internal(*sliced, t));
        }
      }
    }
    if (shares) ++shared;
    if (pieces) ++assembled;
    if (overwrites) ++overwriting;
    if (std::ranges::any_of(iterations, [](const auto& entry) { return entry.second > 0; })) ++overlapping;
  }

  static bool is_internal(const SlicedGraph& sliced, TensorId tensor) {
    return std::ranges::any_of(
        sliced.tensors, [&](const TensorSource& source) { return source.tensor == tensor && !source.bytes.empty(); });
  }
};

TEST(Slices, ComputeTheSameInAllRegionsOfSmallPrograms) {
  Counts counts;
  for (unsigned seed = 0; seed < test::fewer(800U); ++seed) {
    std::mt19937 random(seed);
    const Program program = test::random_program(random, {.most_ops = 3, .largest = 4});
    for (const int parts : {1, 2}) {
      for (const int slices : {2, 3}) {
        for (const Region& region : test::all_regions(program.graph, parts, slices)) {
          SCOPED_TRACE("seed " + std::to_string(seed) + ": " + text_of(program.graph, region));
          const SliceRun run{.temporaries = random() % 2 == 0};
          const auto sliced = sliced_or_rejected(program, region, run);
          counts.add(program, region, sliced);
          if (sliced) expect_equal(program, *sliced, region, run, random, 2);
          if (HasFailure()) return;
        }
      }
    }
  }
  EXPECT_GT(counts.accepted, test::fewer(8000));
  EXPECT_GT(counts.rejected, test::fewer(8000));
  EXPECT_GT(counts.shared, test::fewer(400));
  EXPECT_GT(counts.overlapping, test::fewer(100));
  EXPECT_GT(counts.assembled, test::fewer(4000));
  EXPECT_GT(counts.fewer, test::fewer(4000));
  EXPECT_GT(counts.overwriting, test::fewer(400));
}

TEST(Slices, ComputeTheSameInLargerPrograms) {
  Counts counts;
  for (unsigned seed = 0; seed < test::fewer(8000U); ++seed) {
    std::mt19937 random(seed);
    const Program program = test::random_program(random, {.most_ops = 9});
    const Region region = test::random_region(random, program.graph, 2 + static_cast<int>(random() % 5));
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + text_of(program.graph, region));
    const SliceRun run{.temporaries = random() % 2 == 0};
    const auto sliced = sliced_or_rejected(program, region, run);
    counts.add(program, region, sliced);
    if (sliced) expect_equal(program, *sliced, region, run, random, 4);
    if (HasFailure()) return;
  }
  EXPECT_GT(counts.accepted, test::fewer(4000));
  EXPECT_GT(counts.rejected, test::fewer(300));
  EXPECT_GT(counts.shared, test::fewer(300));
  EXPECT_GT(counts.overlapping, test::fewer(120));
  EXPECT_GT(counts.assembled, test::fewer(2000));
  EXPECT_GT(counts.overwriting, test::fewer(40));
}

/// The least duration of the sliced program's schedules by their memory, as the interpreter counts it: of all
/// sequences of the staged form in which each op runs up to twice.
std::map<Bytes, Duration> best_schedules(const Program& program, const SlicedGraph& sliced, const Region& region,
                                         const Instance& instance) {
  std::map<Bytes, Duration> best;
  const std::function<void(OpId, RecomputePlan)> extend = [&](OpId v, const RecomputePlan& plan) {
    if (v == instance.op_count()) {
      RecomputePlan sorted = plan;
      std::ranges::sort(sorted);
      const Sequence sequence = sequence_of(instance, sorted);
      const Execution execution = test::execute(program, sliced, region, false, sequence);
      EXPECT_EQ(execution.fault, "");
      const auto entry = best.emplace(execution.peak, execution.duration).first;
      entry->second = std::min(entry->second, execution.duration);
      return;
    }
    extend(OpId(v + 1), plan);
    if (instance.max_computes(v) < 2) return;
    for (int stage = v + 1; stage < stages_of(instance); ++stage) {
      RecomputePlan longer = plan;
      longer.push_back({Stage(stage), v});
      extend(OpId(v + 1), longer);
    }
  };
  extend(OpId(0), {});
  return best;
}

TEST(Slices, HaveTheOptimumOfTheSlicedGraphByBruteForce) {
  int compared = 0;
  for (unsigned seed = 0; seed < test::fewer(400U); ++seed) {
    std::mt19937 random(seed);
    const Program program = test::random_program(random, {.most_ops = 3, .largest = 4});
    const int slices = 2 + static_cast<int>(random() % 2);
    for (const Region& region : test::all_regions(program.graph, 1 + static_cast<int>(random() % 2), slices)) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ": " + text_of(program.graph, region));
      const auto sliced = sliced_or_rejected(program, region, {});
      if (!sliced || sliced->slices == 1 || sliced->graph.ops.size() > 5) continue;
      const auto graph = std::make_shared<const Graph>(sliced->graph);
      const auto best = best_schedules(program, *sliced, region, Instance(graph, {}));
      if (best.empty()) return;
      EXPECT_EQ(test::optimum(Instance(graph, {.budget = best.begin()->first - Bytes(1)})), std::nullopt);
      std::optional<Duration> fastest;
      for (const auto& [peak, duration] : best) {
        fastest = std::min(fastest.value_or(duration), duration);
        EXPECT_EQ(test::optimum(Instance(graph, {.budget = peak})), fastest);
      }
      ++compared;
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(compared, test::fewer(2000));
}

TEST(Slices, AreFoundWrongWhereAxesAre) {
  int noticed = 0;
  int windows = 0;
  for (unsigned seed = 0; seed < 600; ++seed) {
    std::mt19937 random(seed);
    Program program = test::random_program(random, {.most_ops = 4, .extras = false});
    for (Op& op : program.graph.ops) {
      if (op.name.substr(0, 4) != "conv") continue;
      op.axes[0].cuts[0].length = 1;
      op.axes[0].cuts[0].offset = 0;
    }
    for (const Region& region : test::all_regions(program.graph, 1, 3)) {
      const bool has_window = std::ranges::any_of(region.parts[0], [&](const SlicedOp& op) {
        return program.graph[op.op].name.substr(0, 4) == "conv" && op.axis == 0;
      });
      if (!has_window || !test::is_independent(program.graph, region)) continue;
      try {
        const SlicedGraph sliced = slice(program.graph, region);
        const Instance instance(std::make_shared<const Graph>(sliced.graph), {});
        const Execution execution = test::execute(program, sliced, region, false, input_order(instance));
        ++windows;
        if (execution.fault.find("lacks element") != std::string::npos) ++noticed;
      } catch (const InputError&) {
        continue;
      }
    }
  }
  EXPECT_GT(noticed, 50) << "of " << windows;
}

/// x: input, 8 rows of 4 bytes; y, z: the same; s: a sum of 4 bytes, kept. Each op has one axis, of the rows.
Graph chain() {
  Graph graph{.name = "chain", .fixed_memory = Bytes(5), .meta = R"({"a":1})", .extra = R"({"b":2})"};
  const auto rows = [](TensorId t) { return Cut{.tensor = t, .rows = 8, .stride = Bytes(4)}; };
  const TensorId x = graph.add_tensor("x", Bytes(32));
  const TensorId y = graph.add_tensor("y", Bytes(32));
  const TensorId z = graph.add_tensor("z", Bytes(32));
  const TensorId s = graph.add_tensor("s", Bytes(4), true);
  graph.add_op({.name = "mm",
                .type = "MatMul",
                .duration = Duration(80),
                .workspace = Bytes(3),
                .inputs = {x},
                .outputs = {y},
                .max_computes = 5,
                .phase = Phase::forward,
                .axes = {{8, {rows(x), rows(y)}, {}}},
                .extra = R"({"c":3})"});
  graph.add_op({.name = "relu",
                .duration = Duration(3),
                .inputs = {y},
                .outputs = {z},
                .recompute = false,
                .backward_of = OpId(0),
                .in_place = {{z, y}},
                .axes = {{8, {rows(y), rows(z)}, {}}}});
  graph.add_op({.name = "sum", .inputs = {z}, .outputs = {s}, .axes = {{8, {rows(z)}, {s}}}});
  return graph;
}

std::vector<std::string> names(const Graph& graph) {
  std::vector<std::string> result;
  for (const Op& op : graph.ops) result.push_back(op.name);
  return result;
}

Region whole_chain(int slices) {
  return {{{{OpId(0), 0}, {OpId(1), 0}, {OpId(2), 0}}}, slices};
}

TEST(Slices, AreOpsOfAnOrdinaryGraph) {
  const Graph graph = chain();
  const SlicedGraph sliced = slice(graph, whole_chain(2));
  EXPECT_EQ(sliced.slices, 2);
  EXPECT_EQ(names(sliced.graph), (std::vector<std::string>{"mm#0", "relu#0", "sum#0", "mm#1", "relu#1", "sum#1"}));
  EXPECT_EQ(sliced.graph.fixed_memory, Bytes(5));
  EXPECT_EQ(sliced.graph.meta, graph.meta);
  EXPECT_EQ(sliced.graph.extra, graph.extra);
  const std::vector<Tensor> tensors = {{"x", Bytes(32)},   {"y#0", Bytes(16)}, {"y#1", Bytes(16)},   {"z#0", Bytes(16)},
                                       {"z#1", Bytes(16)}, {"s#0", Bytes(4)},  {"s", Bytes(4), true}};
  EXPECT_EQ(sliced.graph.tensors, tensors);
  const Op mm{.name = "mm#1",
              .type = "MatMul",
              .duration = Duration(40),
              .workspace = Bytes(3),
              .inputs = {TensorId(0)},
              .outputs = {TensorId(2)},
              .max_computes = 5,
              .phase = Phase::forward,
              .extra = R"({"c":3})"};
  EXPECT_EQ(sliced.graph[OpId(3)], mm);
  const Op relu{.name = "relu#1",
                .duration = Duration(2),
                .inputs = {TensorId(2)},
                .outputs = {TensorId(4)},
                .recompute = false,
                .backward_of = OpId(3),
                .in_place = {{TensorId(4), TensorId(2)}}};
  EXPECT_EQ(sliced.graph[OpId(4)], relu);
  const Op sum{.name = "sum#1",
               .inputs = {TensorId(4), TensorId(5)},
               .outputs = {TensorId(6)},
               .in_place = {{TensorId(6), TensorId(5)}}};
  EXPECT_EQ(sliced.graph[OpId(5)], sum);
  EXPECT_EQ(sliced.ops[OpId(4)], (OpSource{OpId(1), 1, {4, 8}}));
  EXPECT_EQ(sliced.tensors[TensorId(0)], (TensorSource{TensorId(0), -1, {}}));
  EXPECT_EQ(sliced.tensors[TensorId(4)], (TensorSource{TensorId(2), 1, {16, 32}}));
  EXPECT_EQ(sliced.tensors[TensorId(6)], (TensorSource{TensorId(3), 1, {}}));
}

std::vector<std::int64_t> durations(const Graph& graph) {
  std::vector<std::int64_t> result;
  for (const Op& op : graph.ops) result.push_back(op.duration.count());
  return result;
}

TEST(Slices, ShareTheDurationUnevenly) {
  // 8 rows in 3 slices: 2, 3 and 3; the last op is free, and no other slice is.
  EXPECT_EQ(durations(slice(chain(), whole_chain(3)).graph), (std::vector<std::int64_t>{20, 1, 0, 30, 1, 0, 30, 2, 0}));
  EXPECT_EQ(durations(slice(chain(), whole_chain(2), {.overhead = Duration(7)}).graph),
            (std::vector<std::int64_t>{47, 8, 0, 47, 9, 0}));
  // As many slices as rows.
  const SlicedGraph most = slice(chain(), whole_chain(100));
  EXPECT_EQ(most.slices, 8);
  EXPECT_EQ(most.graph.ops.size(), 24U);
  // Nothing is cut.
  for (const Region& none : {whole_chain(1), Region{.parts = {}, .slices = 4}}) {
    const SlicedGraph same = slice(chain(), none);
    EXPECT_EQ(same.slices, 1);
    EXPECT_EQ(same.graph, chain());
    EXPECT_EQ(same.ops[OpId(1)], (OpSource{OpId(1), -1, {}}));
    EXPECT_EQ(same.tensors[TensorId(2)], (TensorSource{TensorId(2), -1, {}}));
  }
}

TEST(Slices, CountTemporaries) {
  Graph graph = chain();
  graph.tensors[1].keep = true;
  const SlicedGraph sliced = slice(graph, whole_chain(2), {.temporaries = true});
  // Half of y, and a term of s but the first.
  std::vector<std::int64_t> workspaces;
  for (const Op& op : sliced.graph.ops) workspaces.push_back(op.workspace.count());
  EXPECT_EQ(workspaces, (std::vector<std::int64_t>{19, 0, 0, 19, 0, 4}));
}

TEST(Slices, CountCopiesOfRows) {
  // Half of x, which is there as a whole; a slice of y or z is all that its reader reads.
  const SlicedGraph sliced = slice(chain(), whole_chain(2), {.copies = true, .bandwidth = Bytes(4)});
  std::vector<std::int64_t> workspaces;
  for (const Op& op : sliced.graph.ops) workspaces.push_back(op.workspace.count());
  EXPECT_EQ(workspaces, (std::vector<std::int64_t>{19, 0, 0, 19, 0, 0}));
  // Read and written, 4 bytes in a unit of time.
  EXPECT_EQ(sliced.graph.ops[0].duration, Duration(40 + 8));
}

TEST(Slices, HaveTheirPartOfTheWorkspace) {
  // A byte for any number of iterations, and two for each of the eight.
  Graph graph = chain();
  graph.ops[0].workspace = Bytes(17);
  graph.ops[0].axes[0].workspace = Bytes(2);
  std::vector<std::int64_t> workspaces;
  for (const Op& op : slice(graph, {{{{OpId(0), 0}}}, 3}).graph.ops) workspaces.push_back(op.workspace.count());
  EXPECT_EQ(workspaces, (std::vector<std::int64_t>{5, 7, 7, 0, 0}));
  const auto fault = [&] { return test::refusal_of([&] { validate(graph); }, "valid"); };
  EXPECT_EQ(fault(), "valid");
  graph.ops[0].axes[0].workspace = Bytes(3);
  EXPECT_EQ(fault(),
            "ops[0].axes[0].workspace: 8 iterations of 3 bytes do not fit in the workspace of the op \"mm\", 17 bytes");
  graph.ops[0].axes[0].workspace = Bytes(-1);
  EXPECT_NE(fault(), "valid");
}

TEST(Slices, TakeTimeToAddAndCopy) {
  Graph graph = chain();
  graph.tensors[1].keep = true;
  // The second term of s is added to 4 bytes, which are read and written: 8 bytes in 3 units each.
  EXPECT_EQ(durations(slice(graph, whole_chain(2), {.bandwidth = Bytes(3)}).graph),
            (std::vector<std::int64_t>{40, 1, 0, 40, 2, 3}));
  // And 16 bytes of y are copied.
  EXPECT_EQ(durations(slice(graph, whole_chain(2), {.temporaries = true, .bandwidth = Bytes(3)}).graph),
            (std::vector<std::int64_t>{51, 1, 0, 51, 2, 3}));
}

/// acc1: 8 rows of 4 bytes, of an op; t: of the input u; acc2 = acc1 + t in place of acc1; out: of all of acc2.
Graph accumulation() {
  Graph graph;
  const auto rows = [](TensorId t) { return Cut{.tensor = t, .rows = 8, .stride = Bytes(4)}; };
  const TensorId u = graph.add_tensor("u", Bytes(32));
  const TensorId acc1 = graph.add_tensor("acc1", Bytes(32));
  const TensorId t = graph.add_tensor("t", Bytes(32));
  const TensorId acc2 = graph.add_tensor("acc2", Bytes(32));
  const TensorId out = graph.add_tensor("out", Bytes(1), true);
  graph.add_op({.name = "first", .duration = Duration(8), .outputs = {acc1}});
  graph.add_op({.name = "scale",
                .duration = Duration(8),
                .inputs = {u},
                .outputs = {t},
                .axes = {{.extent = 8, .cuts = {rows(u), rows(t)}}}});
  graph.add_op({.name = "add",
                .duration = Duration(8),
                .inputs = {acc1, t},
                .outputs = {acc2},
                .in_place = {{acc2, acc1}},
                .axes = {{.extent = 8, .cuts = {rows(acc1), rows(t), rows(acc2)}}}});
  graph.add_op({.name = "end", .duration = Duration(8), .inputs = {acc2}, .outputs = {out}});
  return graph;
}

TEST(Slices, OverwriteAnInputRowByRow) {
  const auto peak = [](const Graph& graph) {
    const Instance instance(std::make_shared<const Graph>(graph), {});
    return evaluate(instance, input_order(instance)).peak;
  };
  const Region region{{{{OpId(1), 0}, {OpId(2), 0}}}, 4};
  const Graph graph = accumulation();
  const Graph sliced = slice(graph, region).graph;
  EXPECT_EQ(names(sliced), (std::vector<std::string>{"first", "scale#0", "add#0", "scale#1", "add#1", "scale#2",
                                                     "add#2", "scale#3", "add#3", "end"}));
  const auto tensor = [&](const char* name) {
    return TensorId(
        static_cast<std::size_t>(std::ranges::find(sliced.tensors, name, &Tensor::name) - sliced.tensors.begin()));
  };
  EXPECT_EQ(sliced[OpId(2)].inputs, (std::vector<TensorId>{tensor("acc1"), tensor("t#0")}));
  EXPECT_EQ(sliced[OpId(2)].in_place, (std::vector<InPlace>{{tensor("acc2#0"), tensor("acc1")}}));
  EXPECT_EQ(sliced[OpId(4)].inputs, (std::vector<TensorId>{tensor("acc2#0"), tensor("t#1")}));
  EXPECT_EQ(sliced[OpId(4)].in_place, (std::vector<InPlace>{{tensor("acc2#1"), tensor("acc2#0")}}));
  // u, the accumulated tensor once, and t: whole, and a slice.
  EXPECT_EQ(peak(graph), Bytes(32 + 32 + 32));
  EXPECT_EQ(peak(sliced), Bytes(32 + 32 + 8));

  // Other rows than those that it writes: later slices would find them overwritten.
  Graph shifted = graph;
  shifted.ops[2].axes[0].cuts[0].offset = 1;
  EXPECT_EQ(peak(slice(shifted, region).graph), Bytes(32 + 32 + 32 + 8));
  // A row that two slices write.
  Graph twice = graph;
  twice.ops[3].axes = {twice.ops[2].axes[0]};
  twice.ops[3].axes[0].cuts = {{.tensor = TensorId(3), .rows = 8, .stride = Bytes(4), .offset = -1, .length = 3}};
  twice.ops[3].axes[0].sums = {TensorId(4)};
  twice.tensors[3].keep = true;
  const Graph overlapping = slice(twice, {{{{OpId(1), 0}, {OpId(2), 0}, {OpId(3), 0}}}, 2}).graph;
  EXPECT_EQ(durations(overlapping), (std::vector<std::int64_t>{8, 5, 5, 4, 4, 4, 4}));
  EXPECT_EQ(overlapping[OpId(2)].in_place, std::vector<InPlace>());
}

TEST(Slices, HaveWhatTheirOpHas) {
  Graph graph = chain();
  graph.ops[2].phase = Phase::loss;
  graph.ops[2].max_computes = 1;
  const Graph sliced = slice(graph, whole_chain(3)).graph;
  for (const OpId v : Ids<OpId>(sliced.ops.size())) {
    const Op& op = graph.ops[v.index() % 3];
    EXPECT_EQ(sliced[v].recompute, op.recompute);
    EXPECT_EQ(sliced[v].max_computes, op.max_computes);
    EXPECT_EQ(sliced[v].phase, op.phase);
    EXPECT_EQ(sliced[v].backward_of, v.index() % 3 == 1 ? OpId(v - 1) : OpId());
  }
}

/// Both halves of c are computed by an op of their own.
TEST(Slices, RejectOpsThatHaveNothingToCompute) {
  Graph graph;
  const auto rows = [](TensorId t, std::int64_t offset = 0) {
    return Cut{.tensor = t, .rows = 4, .stride = Bytes(4), .offset = offset};
  };
  const TensorId x = graph.add_tensor("x", Bytes(16));
  const TensorId a = graph.add_tensor("a", Bytes(16));
  const TensorId b = graph.add_tensor("b", Bytes(16));
  const TensorId c = graph.add_tensor("c", Bytes(32), true);
  const Cut both{.tensor = c, .rows = 8, .stride = Bytes(4)};
  graph.add_op({.name = "A", .inputs = {x}, .outputs = {a}, .axes = {{.extent = 4, .cuts = {rows(x), rows(a)}}}});
  graph.add_op({.name = "B", .inputs = {x}, .outputs = {b}, .axes = {{.extent = 4, .cuts = {rows(x), rows(b)}}}});
  graph.add_op(
      {.name = "cat", .inputs = {a, b}, .outputs = {c}, .axes = {{.extent = 8, .cuts = {rows(a), rows(b, -4), both}}}});
  const auto fault = [&](const Region& region) { return test::refusal_of([&] { slice(graph, region); }, "accepted"); };
  EXPECT_EQ(
      fault({{{{OpId(0), 0}, {OpId(2), 0}}}, 2}),
      "parts[0][0]: the op \"A\" has nothing to compute in slice 1: its readers there touch no row of its outputs");
  EXPECT_EQ(
      fault({{{{OpId(1), 0}, {OpId(2), 0}}}, 2}),
      "parts[0][0]: the op \"B\" has nothing to compute in slice 0: its readers there touch no row of its outputs");
  EXPECT_EQ(fault({{{{OpId(2), 0}}}, 2}), "accepted");
}

TEST(Slices, HaveNamesOfTheirOwn) {
  Graph graph = chain();
  graph.tensors[0].name = "y#1";
  graph.ops[2].name = "mm#0";
  const SlicedGraph sliced = slice(graph, {{{{OpId(0), 0}}}, 2});
  EXPECT_EQ(names(sliced.graph), (std::vector<std::string>{"mm#0'", "mm#1", "relu", "mm#0"}));
  EXPECT_EQ(test::refusal_of([&] { validate(sliced.graph); }, "valid"), "valid");
}

TEST(Slices, MoveOpsThatNeedThemBehindThem) {
  Graph graph = chain();
  const TensorId early = graph.add_tensor("early", Bytes(1));
  const TensorId late = graph.add_tensor("late", Bytes(1));
  // mm, early, late (of y), relu, sum, end
  graph.ops.insert(graph.ops.begin() + 1, {{.name = "early", .outputs = {early}},
                                           {.name = "late", .inputs = {TensorId(1)}, .outputs = {late}}});
  graph.ops[3].backward_of = OpId();
  graph.add_op({.name = "end", .outputs = {graph.add_tensor("end", Bytes(1))}, .after = {OpId(0), OpId(2)}});
  const SlicedGraph sliced = slice(graph, {{{{OpId(0), 0}, {OpId(3), 0}}}, 2});
  EXPECT_EQ(names(sliced.graph),
            (std::vector<std::string>{"early", "mm#0", "relu#0", "mm#1", "relu#1", "late", "sum", "end"}));
  EXPECT_EQ(sliced.graph.ops.back().after, (std::vector<OpId>{OpId(1), OpId(3), OpId(5)}));
  EXPECT_EQ(sliced.graph[OpId(6)].axes.size(), 1U);
  EXPECT_EQ(test::refusal_of([&] { validate(sliced.graph); }, "valid"), "valid");
}

TEST(Slices, RejectWhatIsNotIndependent) {
  const auto fault = [](const Graph& graph, const Region& region) {
    return test::refusal_of([&] { slice(graph, region); }, "accepted");
  };
  const Graph graph = chain();
  EXPECT_EQ(fault(graph, {{{{OpId(0), 0}}}, 0}), "slices: must be at least 1, but is 0");
  EXPECT_EQ(fault(graph, {{{{OpId(0), 0}}, {}}, 2}), "parts[1]: has no ops");
  EXPECT_EQ(fault(graph, {{{{OpId(3), 0}}}, 2}), "parts[0][0]: no op has the number 3");
  EXPECT_EQ(fault(graph, {{{{OpId(1), 1}}}, 2}), "parts[0][0]: the op \"relu\" has no axis 1");
  EXPECT_EQ(fault(graph, {{{{OpId(1), 0}}, {{OpId(1), 0}}}, 2}), "parts[1][0]: the op \"relu\" is parts[0][0], too");

  Graph whole = graph;
  whole.ops[1].axes[0].cuts.erase(whole.ops[1].axes[0].cuts.begin());
  EXPECT_EQ(fault(whole, whole_chain(2)),
            "parts[0][1]: the op \"relu\" needs all slices of \"y\", which \"mm\" writes in the same part");
  Graph blocks = graph;
  blocks.ops[1].axes[0].cuts[0].stride = Bytes(2);
  EXPECT_NE(fault(blocks, whole_chain(2)).find("needs all slices of \"y\""), std::string::npos);
  // In another part it reads the whole.
  EXPECT_EQ(fault(blocks, {{{{OpId(0), 0}}, {{OpId(1), 0}, {OpId(2), 0}}}, 2}), "accepted");

  Graph after = graph;
  after.ops[2].after = {OpId(0)};
  EXPECT_EQ(fault(after, whole_chain(2)), "parts[0][2]: the op \"sum\" comes after \"mm\" of the same part (`after`)");

  EXPECT_EQ(fault(graph, {{{{OpId(0), 0}, {OpId(2), 0}}}, 2}),
            "parts[0][1]: the op \"sum\" needs \"relu\", which needs another op of the same part");
  EXPECT_EQ(fault(graph, {{{{OpId(0), 0}, {OpId(2), 0}}, {{OpId(1), 0}}}, 2}),
            "parts[0][1]: the op \"sum\" needs \"relu\", which needs another op of the same part");
}

TEST(Slices, OfSeveralRegionsKeepTheirSources) {
  const std::vector<Region> regions = {{{{{OpId(2), 0}}}, 4}, {{{{OpId(0), 0}, {OpId(1), 0}}}, 2}};
  const SlicedGraph sliced = slice(chain(), regions);
  EXPECT_EQ(names(sliced.graph),
            (std::vector<std::string>{"mm#0", "relu#0", "mm#1", "relu#1", "sum#0", "sum#1", "sum#2", "sum#3"}));
  EXPECT_EQ(sliced.slices, 4);
  EXPECT_EQ(sliced.ops[OpId(3)], (OpSource{OpId(1), 1, {4, 8}}));
  EXPECT_EQ(sliced.ops[OpId(7)], (OpSource{OpId(2), 3, {6, 8}}));
  for (const TensorId t : sliced.tensors.ids()) {
    const TensorSource& source = sliced.tensors[t];
    EXPECT_EQ(sliced.graph[t].name.substr(0, 1), chain()[source.tensor].name);
    EXPECT_EQ(source.slice < 0, source.tensor == TensorId(0));
  }
  EXPECT_EQ(test::refusal_of([&] { validate(sliced.graph); }, "valid"), "valid");
  const std::vector<Region> twice = {regions[1], {{{{OpId(1), 0}}}, 2}};
  EXPECT_EQ(test::refusal_of([&] { slice(chain(), twice); }, "accepted"),
            "regions[1].parts[0][0]: the op \"relu\" is of an earlier region, too");
}

TEST(Slices, RejectPartsThatNeedEachOther) {
  Graph graph = chain();
  Graph twice = chain();
  for (Tensor& tensor : twice.tensors) tensor.name += "2";
  for (Op& op : twice.ops) {
    op.name += "2";
    op.backward_of = OpId();
    op.in_place.clear();
    for (TensorId& t : op.inputs) t = TensorId(t + 4);
    for (TensorId& t : op.outputs) t = TensorId(t + 4);
    for (Cut& cut : op.axes[0].cuts) cut.tensor = TensorId(cut.tensor + 4);
    for (TensorId& t : op.axes[0].sums) t = TensorId(t + 4);
    graph.ops.push_back(op);
  }
  graph.tensors.insert(graph.tensors.end(), twice.tensors.begin(), twice.tensors.end());
  const auto fault = [&](const Region& region) { return test::refusal_of([&] { slice(graph, region); }, "accepted"); };
  EXPECT_EQ(fault({{{{OpId(0), 0}, {OpId(4), 0}}, {{OpId(1), 0}, {OpId(5), 0}}}, 2}), "accepted");
  EXPECT_EQ(fault({{{{OpId(0), 0}, {OpId(4), 0}}, {{OpId(1), 0}, {OpId(3), 0}}}, 2}),
            "parts: these parts need results of each other, so that none can run first");
}

/// A sum of rows that also gives the rows, which are read with a window.
TEST(Slices, RejectSumsWhoseTermsWouldBeAddedTwice) {
  Graph graph;
  const auto rows = [](TensorId t) { return Cut{.tensor = t, .rows = 8, .stride = Bytes(1)}; };
  const TensorId x = graph.add_tensor("x", Bytes(8));
  const TensorId y = graph.add_tensor("y", Bytes(8));
  const TensorId s = graph.add_tensor("s", Bytes(1), true);
  const TensorId z = graph.add_tensor("z", Bytes(8), true);
  Cut window = rows(y);
  window.offset = -1;
  window.length = 3;
  graph.add_op({.name = "norm",
                .duration = Duration(8),
                .inputs = {x},
                .outputs = {y, s},
                .axes = {{8, {rows(x), rows(y)}, {s}}}});
  graph.add_op(
      {.name = "conv", .duration = Duration(8), .inputs = {y}, .outputs = {z}, .axes = {{8, {window, rows(z)}, {}}}});
  const Region region{{{{OpId(0), 0}, {OpId(1), 0}}}, 2};
  EXPECT_EQ(test::refusal_of([&] { slice(graph, region); }, "accepted"),
            "parts[0][0]: the slices of \"norm\" overlap, because its readers have windows: it cannot add up a result");
  // Without the sum the halo is computed twice: 5 rows instead of 4.
  graph.ops[0].outputs.pop_back();
  graph.ops[0].axes[0].sums.clear();
  graph.add_op({.name = "other", .outputs = {s}});
  const SlicedGraph sliced = slice(graph, region);
  EXPECT_EQ(sliced.graph[TensorId(1)], (Tensor{.name = "y#0", .size = Bytes(5)}));
  EXPECT_EQ(sliced.tensors[TensorId(2)], (TensorSource{y, 1, {3, 8}}));
  EXPECT_EQ(durations(sliced.graph), (std::vector<std::int64_t>{5, 4, 5, 4, 0}));
  Graph once = graph;
  once.ops[0].recompute = false;
  const char* const rejection =
      "parts[0][0]: the slices of \"norm\" overlap, because its readers have windows: it may run only once";
  EXPECT_EQ(test::refusal_of([&] { slice(once, region); }, "accepted"), rejection);
  once.ops[0].recompute = true;
  once.ops[0].max_computes = 1;
  EXPECT_EQ(test::refusal_of([&] { slice(once, region); }, "accepted"), rejection);
  // What earlier slices have written to a storage is there: row 4 alone is computed twice.
  graph.tensors[1].keep = true;
  EXPECT_EQ(durations(slice(graph, region).graph), (std::vector<std::int64_t>{5, 4, 4, 4, 0}));
}

}  // namespace
}  // namespace remora
