// SPDX-License-Identifier: Apache-2.0
//
// A forward loop that stacks tanh of what it carries, and a backward loop that reads it, as XLA schedules them.
#include "frontends/hlo/loops.hpp"

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "frontends/formats/wire.hpp"
#include "frontends/hlo/repeat.hpp"
#include "model/error.hpp"
#include "tests/frontends/hlo/module_builder.hpp"

namespace remora::hlo::loop_tests {
namespace {

using test::array;
using test::Builder;
using test::Line;

constexpr std::int64_t kTrips = 3;
constexpr std::int64_t kElements = 256;
constexpr std::int64_t kRow = 4 * kElements;

const std::string kIndex = array({}, 4);
const std::string kTruth = array({}, 1);
const std::string kScalar = array({}, 11);
const std::string kVector = array({kElements}, 11);
const std::string kSlice = array({1, kElements}, 11);
const std::string kStack = array({kTrips, kElements}, 11);

std::string tuple(const std::vector<std::string>& parts) {
  std::string text;
  wire::put_number(text, 2, 13);
  for (const std::string& part : parts) wire::put_bytes(text, 4, part);
  return text;
}

const std::string kState = tuple({kIndex, kVector, kStack});

std::string number_field(std::uint64_t field, std::int64_t number) {
  std::string text;
  wire::put_number(text, field, static_cast<std::uint64_t>(number));
  return text;
}

Line constant(const std::string& name, std::int64_t number) {
  std::string literal;
  wire::put_bytes(literal, 1, kIndex);
  wire::put_number(literal, 4, static_cast<std::uint64_t>(number));
  std::string more;
  wire::put_bytes(more, 8, literal);
  return {name, "constant", kIndex, {}, more};
}

Line element(const std::string& name, const std::string& shape, const std::string& of, std::int64_t leaf) {
  return {name, "get-tuple-element", shape, {of}, number_field(13, leaf)};
}

/// What the backward loop reads: the slot `last - i`, or `i + last` where it goes the same way.
struct Case {
  std::int64_t last = kTrips - 1;
  bool is_reversed = true;
  /// The condition compares with something that the loop carries.
  bool depends_on_data = false;
};

std::uint64_t condition(Builder& builder, const std::string& name, bool depends_on_data) {
  std::string less;
  wire::put_bytes(less, 63, "LT");
  std::vector<Line> lines{{name + ".p", "parameter", kState}, constant(name + ".n", kTrips)};
  lines.push_back(element(name + ".i", kIndex, name + ".p", 0));
  if (depends_on_data) {
    lines.push_back(element(name + ".x", kVector, name + ".p", 1));
    lines.push_back({name + ".c", "bitcast-convert", array({kElements}, 4), {name + ".x"}});
    lines.push_back({name + ".m", "reduce-like", kIndex, {name + ".c"}});
    lines.push_back({name + ".r", "compare", kTruth, {name + ".i", name + ".m"}, less});
  } else {
    lines.push_back({name + ".r", "compare", kTruth, {name + ".i", name + ".n"}, less});
  }
  return builder.add(name, lines);
}

LoweredModule loops(const Case& of = {}) {
  Builder builder;
  const std::uint64_t asks = condition(builder, "asks", of.depends_on_data);
  const std::uint64_t runs = builder.add("runs", {{"p", "parameter", kState},
                                                  constant("one", 1),
                                                  constant("zero", 0),
                                                  element("i", kIndex, "p", 0),
                                                  element("x", kVector, "p", 1),
                                                  element("s", kStack, "p", 2),
                                                  {"a", "tanh", kVector, {"x"}},
                                                  {"b", "bitcast", kSlice, {"a"}},
                                                  {"u", "dynamic-update-slice", kStack, {"s", "b", "i", "zero"}},
                                                  {"v", "sine", kVector, {"a"}},
                                                  {"next", "add", kIndex, {"i", "one"}},
                                                  {"root", "tuple", kState, {"next", "v", "u"}}});
  const std::uint64_t asks_back = condition(builder, "asks_back", false);
  const std::uint64_t back = builder.add(
      "back",
      {{"q", "parameter", kState},
       constant("one_", 1),
       constant("zero_", 0),
       constant("last", of.last),
       element("j", kIndex, "q", 0),
       element("g", kVector, "q", 1),
       element("t", kStack, "q", 2),
       {"slot", of.is_reversed ? "subtract" : "add", kIndex, {"last", "j"}},
       {"slice", "dynamic-slice", kSlice, {"t", "slot", "zero_"}, number_field(20, 1) + number_field(20, kElements)},
       {"row", "bitcast", kVector, {"slice"}},
       {"h", "multiply", kVector, {"g", "row"}},
       {"next_", "add", kIndex, {"j", "one_"}},
       {"root_", "tuple", kState, {"next_", "h", "t"}}});
  const auto calls = [](std::uint64_t body, std::uint64_t test) {
    std::string more;
    wire::put_number(more, 38, body);
    wire::put_number(more, 38, test);
    return more;
  };
  builder.add("main", {{"w", "parameter", kVector},
                       constant("zero__", 0),
                       {"nought", "constant", kScalar},
                       {"copy", "copy", kVector, {"w"}},
                       {"k", "copy", kIndex, {"zero__"}},
                       {"empty", "broadcast", kStack, {"nought"}},
                       {"given", "tuple", kState, {"k", "copy", "empty"}},
                       {"F", "while", kState, {"given"}, calls(runs, asks)},
                       element("y", kVector, "F", 1),
                       element("stack", kStack, "F", 2),
                       {"k_", "copy", kIndex, {"zero__"}},
                       {"given_", "tuple", kState, {"k_", "y", "stack"}},
                       {"B", "while", kState, {"given_"}, calls(back, asks_back)},
                       element("z", kVector, "B", 1),
                       {"out", "tanh", kVector, {"z"}}});
  return lower_module(builder.module(), "loops", {});
}

std::vector<std::string> names_in(const Module& module, const std::string& computation) {
  std::vector<std::string> names;
  for (const Computation& one : module.computations) {
    if (one.name != computation) continue;
    for (const std::size_t i : one.order) names.push_back(one.instructions[i].name);
  }
  return names;
}

TEST(Loops, AForwardAndABackwardLoopAreAPair) {
  const LoweredModule module = loops();
  const std::vector<LoopPair> pairs = loop_pairs(module);
  ASSERT_EQ(pairs.size(), 1U);
  const LoopPair& pair = pairs[0];
  EXPECT_EQ(pair.forward.trips(), static_cast<std::size_t>(kTrips));
  EXPECT_EQ(pair.stacked, Bytes(kTrips * kRow));
  EXPECT_EQ(pair.partner, std::vector<std::size_t>({2, 1, 0}));
  ASSERT_EQ(pair.values.size(), 2U);
  EXPECT_EQ(pair.graph.ops[0].name, "carried{1}");
  EXPECT_FALSE(pair.graph.ops[0].recompute);
  EXPECT_EQ(pair.graph.ops[1].name, "a");
  EXPECT_EQ(pair.graph.ops.size(), 4U);
  for (std::size_t k = 0; k < pair.values.size(); ++k) EXPECT_EQ(pair.graph.tensors[k].size, Bytes(kTrips * kRow));
}

TEST(Loops, WhatIsNotSavedIsComputedAgainInTheBackwardLoop) {
  const LoweredModule module = loops();
  const LoopPair pair = loop_pairs(module).at(0);
  const std::vector<TensorId> saved{TensorId(0)};
  const LoweredModule again = lower_module(rewrite_pair(module, pair, saved), "again", {});
  const std::vector<std::string> back = names_in(again.module, "back");
  EXPECT_EQ(std::count(back.begin(), back.end(), "a.remat1"), 1);
  EXPECT_EQ(std::count(back.begin(), back.end(), "slice"), 1);
  // The stack is one of what is carried now, and everything else is as it was.
  const std::vector<LoopPair> pairs = loop_pairs(again);
  ASSERT_EQ(pairs.size(), 1U);
  ASSERT_EQ(pairs[0].stacks.size(), 1U);
  EXPECT_EQ(pairs[0].stacks[0].value.kind, Origin::state);
  EXPECT_EQ(pairs[0].partner, pair.partner);
  const std::vector<std::string> runs = names_in(again.module, "runs");
  EXPECT_EQ(std::count(runs.begin(), runs.end(), "u"), 0);
  EXPECT_EQ(std::count(runs.begin(), runs.end(), "a"), 1);
}

TEST(Loops, WhatIsSavedAsItWasChangesNothing) {
  const LoweredModule module = loops();
  const std::vector<TensorId> saved{TensorId(1)};
  const LoweredModule again = lower_module(rewrite_pair(module, loop_pairs(module).at(0), saved), "again", {});
  const std::vector<std::string> back = names_in(again.module, "back");
  const std::vector<std::string> before = names_in(module.module, "back");
  EXPECT_TRUE(std::is_permutation(back.begin(), back.end(), before.begin(), before.end()));
  EXPECT_EQ(assigned_temporaries(again.module), assigned_temporaries(module.module));
}

TEST(Loops, WhatIsCarriedCannotBeComputedAgain) {
  const LoweredModule module = loops();
  EXPECT_THROW(rewrite_pair(module, loop_pairs(module).at(0), {}), InputError);
}

TEST(Loops, SlotsAreSpreadEvenly) {
  for (std::int64_t steps = 1; steps < 40; ++steps) {
    for (std::int64_t segments = 1; segments <= steps; ++segments) {
      const Slots slots{steps, segments};
      std::vector<std::int64_t> last(static_cast<std::size_t>(segments) + 1, -1);
      for (std::int64_t i = 0; i <= steps; ++i) {
        // As the forward loop writes: the last iteration that writes a slot stays in it.
        last[static_cast<std::size_t>((i * segments + steps - 1) / steps)] = i;
      }
      for (std::int64_t i = 0; i <= steps; ++i) {
        const std::int64_t slot = slots.before(i);
        EXPECT_EQ(slots.start(slot), last[static_cast<std::size_t>(slot)]);
        EXPECT_LE(slots.start(slot), i);
        EXPECT_TRUE(slot == segments || slots.start(slot + 1) > i);
      }
    }
  }
}

TEST(Loops, CarriedValuesOfSomeIterationsAreEnough) {
  const LoweredModule module = loops();
  const LoopPair pair = loop_pairs(module).at(0);
  const LoweredModule again = lower_module(rewrite_pair(module, pair, {}, 2), "again", {});
  const std::vector<std::string> back = names_in(again.module, "back");
  EXPECT_EQ(std::count(back.begin(), back.end(), "while.remat1"), 1);
  EXPECT_EQ(
      std::count_if(back.begin(), back.end(), [](const std::string& name) { return name.starts_with("a.remat"); }), 1);
  // Its body has the op that is carried and what that reads.
  const std::vector<std::string> repeats = names_in(again.module, "runs.remat1");
  for (const std::string op : {"a.remat", "v.remat"}) {
    const auto is_it = [&](const std::string& name) { return name.starts_with(op); };
    EXPECT_EQ(std::count_if(repeats.begin(), repeats.end(), is_it), 1);
  }
  EXPECT_THROW(rewrite_pair(module, pair, {}, 1), InputError);
  EXPECT_THROW(rewrite_pair(module, pair, {}, kTrips + 1), InputError);
}

TEST(Loops, IterationsAreMatchedNumberByNumber) {
  const LoweredModule same_way = loops({.last = 0, .is_reversed = false});
  ASSERT_EQ(loop_pairs(same_way).size(), 1U);
  EXPECT_EQ(loop_pairs(same_way)[0].partner, std::vector<std::size_t>({0, 1, 2}));
  const std::vector<TensorId> saved{TensorId(0)};
  EXPECT_FALSE(rewrite_pair(same_way, loop_pairs(same_way)[0], saved).empty());
}

TEST(Loops, WhatIsNotMatchedIsLeft) {
  EXPECT_TRUE(loop_pairs(loops({.depends_on_data = true})).empty());
  // Slots that the forward loop never writes.
  EXPECT_TRUE(loop_pairs(loops({.last = kTrips})).empty());
  EXPECT_TRUE(loop_pairs(loops({.last = 1, .is_reversed = false})).empty());
}

TEST(Loops, DamagedModulesAreRefusedWithALine) {
  const std::string whole = *loops().bytes;
  std::mt19937 random(1);
  int rewritten = 0;
  for (int k = 0; k < 3000; ++k) {
    std::string bytes = whole;
    for (auto i = random() % 3; i < 3; ++i) bytes[random() % bytes.size()] = static_cast<char>(random() % 256);
    try {
      const LoweredModule module = lower_module(bytes, "damaged", {});
      largest_loop(module);
      for (const LoopBody& body : loop_bodies(module)) lower_module(bytes, "damaged", {}, body.computation);
      for (const LoopPair& pair : loop_pairs(module)) {
        std::vector<TensorId> saved;
        for (std::size_t value = 0; value < pair.values.size(); ++value) {
          if (random() % 2 == 0) saved.emplace_back(value);
        }
        rewritten += rewrite_pair(module, pair, saved).empty() ? 0 : 1;
        rewrite_pair(module, pair, {}, 2);
      }
    } catch (const InputError& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    }
  }
  EXPECT_GT(rewritten, 100);
}

/// y reads x after a conditional whose branches both return x as they got it, or after one of which one branch writes there.
LoweredModule branches(bool both_pass_it) {
  Builder builder;
  const std::string given = tuple({kVector});
  std::vector<std::uint64_t> called;
  for (const bool passes : {true, both_pass_it}) {
    const std::string n = called.empty() ? "a" : "b";
    std::vector<Line> lines{{n + "p", "parameter", given}, element(n + "x", kVector, n + "p", 0)};
    lines.push_back({n + "t", "tanh", kVector, {n + "x"}});
    lines.push_back({n + "r", "tuple", tuple({kVector, kVector}), {n + "t", n + (passes ? "x" : "t")}});
    called.push_back(builder.add("branch_" + n, lines));
  }
  std::string calls;
  for (const std::uint64_t one : called) wire::put_number(calls, 38, one);
  std::string place;
  wire::put_bytes(place, 3, "step.py");
  wire::put_number(place, 4, 12);
  std::string metadata;
  wire::put_bytes(metadata, 7, place);
  builder.add("main", {{"w", "parameter", kVector},
                       {"k", "parameter", kIndex},
                       {"x", "sine", kVector, {"w"}},
                       {"g", "tuple", given, {"x"}},
                       {"c", "conditional", tuple({kVector, kVector}), {"k", "g", "g"}, calls},
                       element("c0", kVector, "c", 0),
                       element("c1", kVector, "c", 1),
                       {"y", "add", kVector, {"x", "c0"}, metadata},
                       {"s", "sine", kVector, {"c1"}},
                       {"z", "add", kVector, {"y", "s"}}});
  return lower_module(builder.module(), "branches", {});
}

TEST(Loops, WhatAllBranchesReturnAsTheyGotItIsNotDestroyed) {
  const LoweredModule module = branches(true);
  ASSERT_EQ(module.graph.ops.size(), 5U);
  EXPECT_EQ(module.graph.ops[1].outputs.size(), 1U);
  // s reads x, as an element of what the conditional returns: it cannot be written before that.
  EXPECT_EQ(module.graph.ops[3].inputs, module.graph.ops[0].outputs);
  EXPECT_EQ(module.graph.ops[3].after, std::vector<OpId>({OpId(1)}));
  try {
    branches(false);
    FAIL() << "x is overwritten";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("instruction \"y\" (step.py:12): reads memory that"), std::string::npos)
        << error.what();
  }
}

/// Carries (a, b) with the same value at first, which the body swaps, and reads that value after the loop.
TEST(Loops, WhatIsSwappedAndTheSameIsNotDestroyed) {
  Builder builder;
  const std::string state = tuple({kIndex, kVector, kVector});
  std::string less;
  wire::put_bytes(less, 63, "LT");
  const std::uint64_t asks = builder.add("asks", {{"ap", "parameter", state},
                                                  constant("an", kTrips),
                                                  element("ai", kIndex, "ap", 0),
                                                  {"ar", "compare", kTruth, {"ai", "an"}, less}});
  const std::uint64_t runs = builder.add("runs", {{"p", "parameter", state},
                                                  constant("one", 1),
                                                  element("i", kIndex, "p", 0),
                                                  element("a", kVector, "p", 1),
                                                  element("b", kVector, "p", 2),
                                                  {"next", "add", kIndex, {"i", "one"}},
                                                  {"root", "tuple", state, {"next", "b", "a"}}});
  std::string calls;
  for (const std::uint64_t one : {runs, asks}) wire::put_number(calls, 38, one);
  builder.add("main", {{"w", "parameter", kVector},
                       {"k", "parameter", kIndex},
                       {"x", "sine", kVector, {"w"}},
                       {"n", "negate", kIndex, {"k"}},
                       {"g", "tuple", state, {"n", "x", "x"}},
                       {"l", "while", state, {"g"}, calls},
                       element("e", kVector, "l", 1),
                       {"y", "add", kVector, {"x", "e"}}});
  EXPECT_EQ(lower_module(builder.module(), "swapped", {}).graph.ops.size(), 4U);
}

TEST(Loops, TheLargestLoopIsNamed) {
  const std::optional<LoopMemory> loop = largest_loop(loops());
  ASSERT_TRUE(loop.has_value());
  EXPECT_GE(loop->size, Bytes((kTrips + 1) * kRow));
}

}  // namespace
}  // namespace remora::hlo::loop_tests
