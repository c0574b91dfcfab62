// SPDX-License-Identifier: Apache-2.0
//
// The choice of slices: what it finds, and that it is legal and worth it.
#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/ask/sliced.hpp"
#include "engine/pipeline/front.hpp"
#include "engine/slices/choose.hpp"
#include "model/evaluate.hpp"
#include "model/instance.hpp"
#include "tests/support/fewer.hpp"
#include "tests/support/programs.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/work_limited.hpp"

namespace remora {
namespace {

constexpr Limits kEnough{.seconds = 1e9, .work = Work(100'000)};

Slicing chosen(const Graph& graph, Bytes budget, const SliceRun& run = {}) {
  Allowance allowance(kEnough, nullptr);
  const std::vector<Slicing> found = choose_slices(graph, budget, run, allowance);
  for (const Slicing& slicing : found) EXPECT_EQ(slicing.figures, figures_of(slicing.sliced->graph));
  EXPECT_FALSE(found.empty());
  return found.front();
}

/// A loss over a vocabulary, forward and backward: 64 tokens of width 8, 512 words, 4 bytes each.
///
///     h -> mm -> logits -> softmax -> p -> sub -> g -> (g wT) -> dh,  (hT g) -> dw         loss: sum of rows of p
class Loss {
 public:
  Loss() {
    const TensorId h = tensor("h", 64 * 8);
    const TensorId w = tensor("w", 8 * 512);
    const TensorId logits = tensor("logits", 64 * 512);
    const TensorId p = tensor("p", 64 * 512);
    const TensorId g = tensor("g", 64 * 512);
    const TensorId loss = tensor("loss", 1, true);
    const TensorId dh = tensor("dh", 64 * 8, true);
    const TensorId dw = tensor("dw", 8 * 512, true);
    const auto tokens = [](TensorId t, int width) { return Cut{.tensor = t, .rows = 64, .stride = Bytes(4 * width)}; };
    const auto words = [](TensorId t) { return Cut{.tensor = t, .rows = 512, .stride = Bytes(4)}; };
    const auto inner = [](TensorId t, bool outer) {
      return Cut{.tensor = t, .rows = 8, .stride = Bytes(outer ? 4 * 512 : 4)};
    };
    graph_.add_op({.name = "embed", .duration = Duration(100), .outputs = {h}});
    add("mm", 6400, {h, w}, {logits},
        {{64, {tokens(h, 8), tokens(logits, 512)}, {}},
         {512, {words(w), words(logits)}, {}},
         {8, {inner(h, false), inner(w, true)}, {logits}}});
    add("softmax", 128, {logits}, {p}, {{64, {tokens(logits, 512), tokens(p, 512)}, {}}});
    add("nll", 64, {p}, {loss}, {{64, {tokens(p, 512)}, {loss}}});
    add("sub", 128, {p}, {g}, {{64, {tokens(p, 512), tokens(g, 512)}, {}}, {512, {words(p), words(g)}, {}}});
    add("dh", 6400, {g, w}, {dh}, {{64, {tokens(g, 512), tokens(dh, 8)}, {}}, {512, {words(g), words(w)}, {dh}}});
    add("dw", 6400, {h, g}, {dw}, {{64, {tokens(h, 8), tokens(g, 512)}, {dw}}, {512, {words(g), words(dw)}, {}}});
    validate(graph_);
  }

  [[nodiscard]] const Graph& graph() const { return graph_; }

 private:
  TensorId tensor(const char* name, int elements, bool keep = false) {
    return graph_.add_tensor(name, Bytes(4 * elements), keep);
  }
  void add(const char* name, int duration, std::vector<TensorId> inputs, std::vector<TensorId> outputs,
           std::vector<Axis> axes) {
    graph_.add_op({.name = name,
                   .duration = Duration(duration),
                   .inputs = std::move(inputs),
                   .outputs = std::move(outputs),
                   .axes = std::move(axes)});
  }

  Graph graph_;
};

TEST(ChooseSlices, CutsALossOverItsTokens) {
  const Loss loss;
  const SlicingFigures whole = figures_of(loss.graph());
  // Two tensors of 128 KiB, and w.
  EXPECT_GE(whole.lower_bound, Bytes(2 * 131072));
  const Slicing slicing = chosen(loss.graph(), Bytes(0));
  ASSERT_EQ(slicing.regions.size(), 1U);
  // w, dw and h or dh stay whole: 16 KiB, 16 KiB, 2 KiB.
  EXPECT_LT(slicing.figures.lower_bound, Bytes(50'000));
  EXPECT_EQ(slicing.figures, figures_of(slicing.sliced->graph));
  EXPECT_EQ(slicing.figures.duration, whole.duration);
  std::size_t ops = 0;
  for (const RegionPart& part : slicing.regions[0].parts) ops += part.size();
  EXPECT_EQ(ops, 6U);
}

TEST(ChooseSlices, CutsNoMoreThanTheBudgetAsksFor) {
  const Loss loss;
  const SlicingFigures whole = figures_of(loss.graph());
  EXPECT_TRUE(chosen(loss.graph(), whole.peak).regions.empty());
  const Slicing some = chosen(loss.graph(), Bytes(whole.peak.count() * 3 / 4));
  ASSERT_EQ(some.regions.size(), 1U);
  EXPECT_LE(some.figures.peak, Bytes(whole.peak.count() * 3 / 4));
  EXPECT_LT(some.regions[0].slices, chosen(loss.graph(), Bytes(0)).regions[0].slices);
}

TEST(ChooseSlices, ChangesNothingWithoutAxesOrTime) {
  Graph plain = Loss().graph();
  Allowance none({.seconds = 0, .work = Work(1)}, nullptr);
  EXPECT_TRUE(choose_slices(plain, Bytes(0), {}, none).front().regions.empty());
  for (Op& op : plain.ops) op.axes.clear();
  const Slicing slicing = chosen(plain, Bytes(0));
  EXPECT_TRUE(slicing.regions.empty());
  EXPECT_EQ(slicing.sliced->graph, plain);
  EXPECT_EQ(slicing.figures, figures_of(plain));
  EXPECT_TRUE(chosen(Graph(), Bytes(0)).regions.empty());
}

/// The sum of an outer product's columns, over either axis: s is cut along its rows, and summed over its columns.
Graph row_sums() {
  Graph graph;
  const TensorId a = graph.add_tensor("a", Bytes(64));
  const TensorId b = graph.add_tensor("b", Bytes(64));
  const TensorId y = graph.add_tensor("y", Bytes(4096));
  const TensorId s = graph.add_tensor("s", Bytes(64), true);
  const auto cut = [](TensorId t, std::int64_t stride) {
    return Cut{.tensor = t, .rows = 64, .stride = Bytes(stride)};
  };
  graph.add_op(
      {.name = "outer",
       .duration = Duration(16384),
       .inputs = {a, b},
       .outputs = {y},
       .axes = {{.extent = 64, .cuts = {cut(b, 1), cut(y, 1)}}, {.extent = 64, .cuts = {cut(a, 1), cut(y, 64)}}}});
  graph.add_op(
      {.name = "sum",
       .duration = Duration(16384),
       .inputs = {y},
       .outputs = {s},
       .axes = {{.extent = 64, .cuts = {cut(y, 1)}, .sums = {s}}, {.extent = 64, .cuts = {cut(y, 64), cut(s, 1)}}}});
  return graph;
}

TEST(ChooseSlices, CountsTheTimeOfSums) {
  const auto axis = [](const Slicing& slicing) { return slicing.regions.at(0).parts.at(0).at(1).axis; };
  EXPECT_EQ(axis(chosen(row_sums(), Bytes(0))), 0);
  const Slicing slicing = chosen(row_sums(), Bytes(0), {.bandwidth = Bytes(1)});
  EXPECT_EQ(axis(slicing), 1);
  EXPECT_EQ(slicing.figures.duration, Duration(32768));
}

/// Layers one after the other, each of an op that makes a wide tensor of so many rows of 64 bytes and one that reads
/// it. A layer reads the one before whole: none shares slices with another.
Graph layers(const std::vector<int>& rows) {
  Graph graph;
  TensorId before = graph.add_tensor("x", Bytes(64));
  for (const int count : rows) {
    const std::string name = std::to_string(graph.ops.size() / 2);
    const TensorId w = graph.add_tensor("w" + name, Bytes(count));
    const TensorId y = graph.add_tensor("y" + name, Bytes(64 * count));
    const TensorId s = graph.add_tensor("s" + name, Bytes(count));
    const auto cut = [&](TensorId t, std::int64_t stride) {
      return Cut{.tensor = t, .rows = count, .stride = Bytes(stride)};
    };
    graph.add_op({.name = "wide" + name,
                  .duration = Duration(4096),
                  .inputs = {w, before},
                  .outputs = {y},
                  .axes = {{.extent = count, .cuts = {cut(w, 1), cut(y, 64)}}}});
    graph.add_op({.name = "sum" + name,
                  .duration = Duration(4096),
                  .inputs = {y},
                  .outputs = {s},
                  .axes = {{.extent = count, .cuts = {cut(y, 64), cut(s, 1)}}}});
    before = s;
  }
  graph.tensors[before.index()].keep = true;
  return graph;
}

std::vector<int> numbers_of(const Slicing& slicing) {
  std::vector<int> numbers;
  for (const Region& region : slicing.regions) numbers.push_back(region.slices);
  std::ranges::sort(numbers);
  return numbers;
}

std::vector<std::size_t> parts_in(const Slicing& slicing) {
  std::vector<std::size_t> numbers;
  for (const Region& region : slicing.regions) numbers.push_back(region.parts.size());
  return numbers;
}

Request request_for(const Graph& graph, Bytes budget, const SliceRun& run = {}) {
  return {.graph = std::make_shared<const Graph>(graph),
          .budget = budget,
          .slices = {.is_allowed = true, .run = run},
          .options = test::work_limited(300)};
}

/// The schedule is one of its graph, within the budget.
void expect_valid(const SlicedAnswer& answer, Bytes budget) {
  const Instance instance(answer.graph, {.budget = budget});
  const Verdict verdict = verify(*answer.graph, answer.answer.schedule);
  EXPECT_TRUE(verdict.valid()) << verdict.errors.front();
  EXPECT_LE(answer.answer.schedule.peak_memory, budget);
  EXPECT_EQ(*answer.graph, answer.slicing.sliced->graph);
}

TEST(ChooseSlices, CutsOpsThatSetTheBoundTogether) {
  const Graph graph = layers({64, 64, 64});
  const SlicingFigures whole = figures_of(graph);
  // One region alone brings nothing.
  const Region first{{{{OpId(0), 0}, {OpId(1), 0}}}, 8};
  const SlicingFigures one = figures_of(slice(graph, first).graph);
  EXPECT_EQ(one.lower_bound, whole.lower_bound);
  EXPECT_EQ(one.peak, whole.peak);
  const Bytes budget(whole.lower_bound.count() / 2);
  const Slicing half = chosen(graph, budget);
  EXPECT_EQ(parts_in(half), std::vector<std::size_t>{3});
  EXPECT_LE(half.figures.peak, budget);
  const Slicing least = chosen(graph, Bytes(0));
  EXPECT_EQ(parts_in(least), std::vector<std::size_t>{3});
  EXPECT_LT(least.figures.lower_bound, Bytes(whole.lower_bound.count() / 5));
  const SlicedAnswer answer = solve_sliced(request_for(graph, budget));
  ASSERT_TRUE(answer.answer.schedule.has_schedule());
  expect_valid(answer, budget);
}

TEST(ChooseSlices, GivesEachRegionItsOwnNumber) {
  const Graph graph = layers({256, 64});
  const SlicingFigures whole = figures_of(graph);
  const Bytes budget(whole.lower_bound.count() / 6);
  const Slicing some = chosen(graph, budget);
  EXPECT_LE(some.figures.peak, budget);
  EXPECT_EQ(numbers_of(some), (std::vector<int>{2, 8}));
  // More slices of one do not help where the other sets the bound.
  const std::vector<int> most = numbers_of(chosen(graph, Bytes(0)));
  ASSERT_EQ(most.size(), 2U);
  EXPECT_LT(most[0], most[1]);
}

Region together(const std::vector<Region>& regions) {
  Region result;
  for (const Region& region : regions) {
    result.parts.insert(result.parts.end(), region.parts.begin(), region.parts.end());
  }
  return result;
}

TEST(ChooseSlices, ChoosesWhatComputesTheSameAndNeedsLess) {
  int cut = 0;
  int several = 0;
  for (unsigned seed = 0; seed < test::fewer(2000U); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const test::Program program = test::random_program(random, {.most_ops = 9, .largest = 9});
    const SlicingFigures whole = figures_of(program.graph);
    const Bytes budget(seed % 2 == 0 ? 0 : whole.peak.count() * 2 / 3);
    const Slicing slicing = chosen(program.graph, budget);
    EXPECT_EQ(slicing.figures, figures_of(slicing.sliced->graph));
    if (slicing.regions.empty()) continue;
    ++cut;
    if (slicing.regions.size() > 1) ++several;
    EXPECT_LE(slicing.figures.lower_bound, std::max(whole.lower_bound, budget));
    EXPECT_TRUE(slicing.figures.lower_bound < whole.lower_bound || slicing.figures.peak < whole.peak);
    const Instance instance(std::make_shared<const Graph>(slicing.sliced->graph), {});
    const test::Execution execution =
        test::execute(program, *slicing.sliced, together(slicing.regions), false, input_order(instance));
    ASSERT_EQ(execution.fault, "");
    EXPECT_EQ(execution.peak, slicing.figures.peak);
    const auto values = test::values_of(program);
    for (const TensorId t : values.ids()) {
      if (!program.graph[t].keep) continue;
      EXPECT_EQ(execution.values[t], values[t]);
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(cut, test::fewer(500));
  EXPECT_GT(several, test::fewer(50));
}

TEST(SolveSliced, FitsABudgetThatIsImpossibleWithoutSlices) {
  const Loss loss;
  const Bytes budget(80'000);
  const SlicedAnswer answer = solve_sliced(request_for(loss.graph(), budget, {.overhead = Duration(2)}));
  EXPECT_EQ(answer.whole.schedule.status, Status::infeasible);
  EXPECT_EQ(answer.whole.refusal.cause, Refusal::Cause::op);
  ASSERT_TRUE(answer.answer.schedule.has_schedule());
  EXPECT_EQ(answer.slicing.regions.size(), 1U);
  expect_valid(answer, budget);
}

TEST(SolveSliced, HasNoSlicesWhereTheyDoNotHelp) {
  const Loss loss;
  const SlicingFigures whole = figures_of(loss.graph());
  // Everything fits; and nothing does.
  for (const Bytes budget : {whole.peak, Bytes(1'000)}) {
    const SlicedAnswer answer = solve_sliced(request_for(loss.graph(), budget));
    EXPECT_TRUE(answer.slicing.regions.empty());
    EXPECT_EQ(*answer.graph, loss.graph());
    EXPECT_EQ(answer.answer.schedule.status, answer.whole.schedule.status);
    EXPECT_EQ(answer.answer.schedule.has_schedule(), budget == whole.peak);
  }
  // Slices that cost more than a recomputation.
  Graph costly = loss.graph();
  const Bytes budget(whole.peak.count() * 9 / 10);
  const SlicedAnswer cheap = solve_sliced(request_for(costly, budget));
  EXPECT_FALSE(cheap.slicing.regions.empty());
  const SlicedAnswer dear = solve_sliced(request_for(costly, budget, {.overhead = Duration(1'000'000)}));
  EXPECT_EQ(dear.slicing.regions.empty(), dear.whole.schedule.has_schedule());
}

/// Forward and backward ops of one part alternate.
TEST(SolveSliced, HasScheduleOfForwardAndBackwardOpsInOnePart) {
  Graph graph = Loss().graph();
  for (Op& op : graph.ops) {
    const bool is_backward = op.name == "sub" || op.name == "dh" || op.name == "dw";
    op.phase = is_backward ? Phase::backward : op.name == "nll" ? Phase::loss : Phase::forward;
  }
  const Bytes budget(80'000);
  const SlicedAnswer answer = solve_sliced(request_for(graph, budget));
  ASSERT_EQ(answer.slicing.regions.size(), 1U);
  ASSERT_TRUE(answer.answer.schedule.has_schedule());
  expect_valid(answer, budget);
  // A stage of a pipeline runs all forward ops first.
  const auto stage = [&] { stage_of(answer.graph, 2, test::work_limited(10), nullptr); };
  EXPECT_EQ(test::refusal_of(stage, "accepted"), "ops[7]: a stage's forward ops come before all its backward ops");
}

TEST(SolveSliced, RejectsWhatSlicesDoNotHave) {
  const Loss loss;
  Request request = request_for(loss.graph(), Bytes(80'000));
  request.alignment = Bytes(64);
  EXPECT_EQ(test::refusal_of([&] { solve_sliced(request); }), "addresses: not with slices");
  request.alignment.reset();
  request.warm_start = {{OpId(0), 0}};
  EXPECT_EQ(test::refusal_of([&] { solve_sliced(request); }), "warm_start: not with slices");
}

TEST(SolveSliced, IsNeverWorseThanWithoutSlices) {
  int better = 0;
  for (unsigned seed = 0; seed < test::fewer(400U); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const test::Program program = test::random_program(random, {.most_ops = 7, .largest = 9, .extras = false});
    const SlicingFigures whole = figures_of(program.graph);
    const Bytes budget(whole.lower_bound.count() * 3 / 4 + whole.peak.count() / 8);
    const SlicedAnswer answer = solve_sliced(request_for(program.graph, budget));
    if (!answer.answer.schedule.has_schedule()) {
      EXPECT_FALSE(answer.whole.schedule.has_schedule());
      continue;
    }
    expect_valid(answer, budget);
    if (answer.whole.schedule.has_schedule()) {
      EXPECT_LE(answer.answer.schedule.duration, answer.whole.schedule.duration);
    } else {
      ++better;
    }
    const Region region = together(answer.slicing.regions);
    const Sequence sequence = ops_of(answer.answer.schedule);
    const test::Execution execution = test::execute(program, *answer.slicing.sliced, region, false, sequence);
    ASSERT_EQ(execution.fault, "");
    EXPECT_EQ(execution.peak, answer.answer.schedule.peak_memory);
    EXPECT_EQ(execution.duration, answer.answer.schedule.duration);
    if (HasFailure()) return;
  }
  EXPECT_GT(better, test::fewer(80));
}

TEST(AskedSlices, AreReadFromWords) {
  const auto asked = [](std::vector<std::string> words) { return slices_asked(words); };
  EXPECT_FALSE(asked({}).is_allowed);
  EXPECT_FALSE(asked({"none"}).is_allowed);
  EXPECT_TRUE(asked({"auto"}).is_automatic());
  const SliceRequest two = asked({"a=b=8@1", "x,y=2"});
  EXPECT_FALSE(two.is_automatic());
  ASSERT_EQ(two.regions.size(), 2U);
  EXPECT_EQ(two.regions[0].ops, "a=b");
  EXPECT_EQ(two.regions[0].slices, 8);
  EXPECT_EQ(two.regions[0].axis, 1);
  EXPECT_EQ(two.regions[1].ops, "x,y");
  EXPECT_FALSE(two.regions[1].axis);
  for (const char* word :
       {"", "loss", "=2", "loss=", "loss=1", "loss=-2", "loss=2x", "loss=2@", "loss=2@-1", "loss=65537"}) {
    EXPECT_NE(test::refusal_of([&] { asked({word}); }, "accepted"), "accepted") << word;
  }
  EXPECT_NE(test::refusal_of([&] { asked({"auto", "loss=2"}); }, "accepted"), "accepted");
}

TEST(AskedSlices, AreThoseThatAreNamed) {
  const Graph graph = Loss().graph();
  const auto sliced = [&](const std::string& ops, int slices, std::optional<int> axis) {
    const std::vector<RegionRequest> asked = {{.ops = ops, .slices = slices, .axis = axis}};
    return slice_as_asked(graph, asked, Bytes(), {});
  };
  const auto ops_in = [](const Slicing& slicing) {
    std::size_t ops = 0;
    for (const RegionPart& part : slicing.regions.at(0).parts) ops += part.size();
    return ops;
  };
  EXPECT_EQ(ops_in(sliced("nll", 8, 0)), 6U);
  EXPECT_EQ(ops_in(sliced("mm,", 8, std::nullopt)), 1U);
  EXPECT_EQ(ops_in(sliced("softmax,mm", 4, 0)), 2U);
  EXPECT_EQ(sliced("mm,", 4, 2).regions.at(0).parts.at(0).at(0).axis, 2);
  EXPECT_EQ(sliced("mm", 4, 0).sliced->slices, 4);
  EXPECT_EQ(
      test::refusal_of([&] { sliced("mm", 4, 3); }, "accepted"),
      "slices: the op \"mm\" has no axis 3; it has 0 (64 iterations), 1 (512 iterations), 2 (8 iterations, summed)");
  EXPECT_EQ(test::refusal_of([&] { sliced("mm,mm", 4, 0); }, "accepted"), "slices: the op \"mm\" is listed twice");
  EXPECT_EQ(test::refusal_of([&] { sliced("embed", 4, 0); }, "accepted"),
            "slices: the op \"embed\" has no axes, along which it could be cut");
}

/// What a refusal calls enough has a schedule, to the same limits.
TEST(AskedSlices, MakeTheBudgetOfARefusalEnough) {
  int checked = 0;
  for (unsigned seed = 0; seed < test::fewer(200U); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const test::Program program = test::random_program(random, {.most_ops = 7, .largest = 9, .extras = false});
    Request request = request_for(program.graph, Bytes(figures_of(program.graph).lower_bound.count() - 1));
    request.slices.is_allowed = false;
    const Answer refused = solve(request);
    ASSERT_FALSE(refused.schedule.has_schedule());
    if (refused.refusal.slices == 0) continue;
    ++checked;
    request.slices.is_allowed = true;
    request.budget = refused.refusal.enough_in_slices;
    const Answer answer = solve(request);
    EXPECT_TRUE(answer.schedule.has_schedule());
    EXPECT_TRUE(verify(answer.sliced ? *answer.sliced : program.graph, answer.schedule).valid());
    if (HasFailure()) return;
  }
  EXPECT_GT(checked, test::fewer(40));
}

TEST(StatedSlices, MakeTheGraphOfTheScheduleAndNothingElse) {
  int sliced = 0;
  for (unsigned seed = 0; seed < test::fewer(150U); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const test::Program program = test::random_program(random, {.most_ops = 7, .largest = 9, .extras = false});
    const SlicingFigures whole = figures_of(program.graph);
    const Request request = request_for(
        program.graph, Bytes(whole.lower_bound.count() * 3 / 4 + whole.peak.count() / 8), {.overhead = Duration(1)});
    const Answer answer = solve(request);
    ASSERT_EQ(answer.sliced != nullptr, answer.schedule.slices.has_value());
    if (!answer.sliced) continue;
    ++sliced;
    const ScheduleSlices& stated = *answer.schedule.slices;
    EXPECT_EQ(graph_in_slices(program.graph, stated).graph, *answer.sliced);
    EXPECT_TRUE(verify(*answer.sliced, answer.schedule).valid());
    EXPECT_EQ(answer.schedule.baseline_peak_memory, whole.peak);
    EXPECT_EQ(answer.schedule.baseline_duration, whole.duration);
    Duration cost = whole.duration;
    Bytes peak = whole.peak;
    for (const NamedRegion& region : stated.regions) {
      cost += region.cost;
      peak -= region.saved_peak;
    }
    EXPECT_EQ(cost, figures_of(*answer.sliced).duration);
    EXPECT_EQ(peak, figures_of(*answer.sliced).peak);
    const auto is_rejected = [&](auto change) {
      ScheduleSlices mutant = stated;
      change(mutant.regions.front());
      return test::refusal_of([&] { graph_in_slices(program.graph, mutant); }, "accepted") != "accepted";
    };
    EXPECT_TRUE(is_rejected([](NamedRegion& region) { region.saved_peak += Bytes(1); }));
    EXPECT_TRUE(is_rejected([](NamedRegion& region) { region.saved_minimum -= Bytes(1); }));
    EXPECT_TRUE(is_rejected([](NamedRegion& region) { region.cost += Duration(1); }));
    EXPECT_TRUE(is_rejected([](NamedRegion& region) { region.parts.front().front().op += "'"; }));
    EXPECT_TRUE(is_rejected([](NamedRegion& region) { region.parts.front().front().axis = 99; }));
    EXPECT_TRUE(is_rejected([](NamedRegion& region) { region.parts.push_back(region.parts.front()); }));
    if (HasFailure()) return;
  }
  EXPECT_GT(sliced, test::fewer(30));
}

TEST(SweepSliced, IsNeverWorseThanWithoutSlices) {
  int better = 0;
  for (unsigned seed = 0; seed < test::fewer(60U); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const test::Program program = test::random_program(random, {.most_ops = 7, .largest = 9, .extras = false});
    const SlicingFigures whole = figures_of(program.graph);
    Request request = request_for(program.graph, Bytes::max());
    request.options = test::work_limited(2'000);
    SweepOptions options;
    if (seed % 2 == 0) options.budgets = {whole.peak, whole.lower_bound, Bytes(whole.lower_bound.count() * 3 / 4)};
    if (seed % 2 == 0 && whole.peak == whole.lower_bound) continue;
    const SweepResult result = sweep(request, options);
    request.slices.is_allowed = false;
    const SweepResult plain = sweep(request, options);
    const std::vector<CurvePoint>& points = result.curve.points;
    ASSERT_EQ(result.schedules.size(), points.size());
    for (std::size_t i = 0; i < points.size(); ++i) {
      if (i > 0) {
        EXPECT_LE(points[i].lower_bound, points[i - 1].lower_bound);
        EXPECT_GE(points[i].has_schedule(), points[i - 1].has_schedule());
      }
      if (!points[i].has_schedule()) continue;
      if (i > 0 && points[i - 1].has_schedule()) {
        EXPECT_LE(points[i].duration, points[i - 1].duration);
      }
      EXPECT_EQ(points[i].slices > 0, result.schedules[i].slices.has_value());
      EXPECT_EQ(points[i].duration, result.schedules[i].duration);
      EXPECT_EQ(points[i].budget, result.schedules[i].budget);
      EXPECT_TRUE(verify(result.graph_of(i, program.graph), result.schedules[i]).valid());
      EXPECT_EQ(points[i].status == Status::optimal, points[i].duration == points[i].lower_bound);
    }
    for (const CurvePoint& point : plain.curve.points) {
      const auto same = std::ranges::find(points, point.budget, &CurvePoint::budget);
      if (same == points.end()) continue;
      if (same->slices > 0) ++better;
      if (point.status == Status::optimal) {
        EXPECT_LE(same->duration, point.duration);
      }
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(better, test::fewer(10));
}

}  // namespace
}  // namespace remora
