// SPDX-License-Identifier: Apache-2.0
//
// Axes of instructions, and modules in slices. tests/jax runs such modules.
#include "frontends/hlo/axes.hpp"

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "frontends/formats/wire.hpp"
#include "frontends/hlo/sliceable.hpp"
#include "model/error.hpp"
#include "tests/frontends/hlo/module_builder.hpp"

namespace remora::hlo::axes_tests {
namespace {

using Kind = ArrayPart::Kind;
using Numbers = std::vector<std::int64_t>;
using test::array;
using test::Builder;
using test::Line;

std::string numbers(std::uint64_t field, const Numbers& all) {
  std::string text;
  for (const std::int64_t one : all) wire::put_number(text, field, static_cast<std::uint64_t>(one));
  return text;
}

std::string message(std::uint64_t field, const std::string& content) {
  std::string text;
  wire::put_bytes(text, field, content);
  return text;
}

std::string dimensions(const Numbers& all) {
  return numbers(14, all);
}

Line zero() {
  std::string literal = message(1, array({}));
  literal += message(8, std::string(4, '\0'));
  return {"zero", "constant", array({}), {}, message(8, literal)};
}

/// (a, b) -> a opcode b, of scalars.
std::uint64_t add_reducer(Builder& builder, const std::string& opcode) {
  const std::string scalar = array({});
  return builder.add(opcode + "er",
                     {{"a", "parameter", scalar}, {"b", "parameter", scalar}, {"r", opcode, scalar, {"a", "b"}}});
}

LoweredModule lowered(const Builder& builder) {
  return lower_module(builder.module(), "module", {});
}

/// "8: 0 w > 0x2": 8 iterations; rows of dimension 0, or w(hole), of operands; two rows each, or a t(erm), of results.
std::string said(const InstructionAxis& axis) {
  std::string text = std::to_string(axis.extent) + ":";
  const auto add = [&](const ArrayPart& part) {
    text += part.kind == Kind::whole ? " w" : part.kind == Kind::term ? " t" : " " + std::to_string(part.dim);
    if (part.step > 1) text += "x" + std::to_string(part.step);
  };
  std::ranges::for_each(axis.operands, add);
  text += " >";
  std::ranges::for_each(axis.results, add);
  return text;
}

/// Of the last instruction of the entry.
std::vector<std::string> said_of(const LoweredModule& lowered) {
  std::vector<std::string> all;
  const Module& module = lowered.module;
  const std::size_t last = module.computations[module.entry].instructions.size() - 1;
  for (const InstructionAxis& axis : axes_of(module, module.entry, last)) all.push_back(said(axis));
  std::ranges::sort(all);
  return all;
}

using Said = std::vector<std::string>;

Said of_one(const std::vector<Line>& lines) {
  Builder builder;
  builder.add("main", lines);
  return said_of(lowered(builder));
}

TEST(HloAxes, ElementwiseInstructionsHaveOneForEachDimension) {
  EXPECT_EQ(of_one({{"x", "parameter", array({4, 8})}, {"y", "add", array({4, 8}), {"x", "x"}}}),
            (Said{"4: 0 0 > 0", "8: 1 1 > 1"}));
}

TEST(HloAxes, ABroadcastReadsWhatItHasInEachRow) {
  EXPECT_EQ(of_one({{"x", "parameter", array({8})}, {"y", "broadcast", array({4, 8}), {"x"}, dimensions({1})}}),
            (Said{"4: w > 0", "8: 0 > 1"}));
}

TEST(HloAxes, ATransposeGoesAlongTheSameRows) {
  EXPECT_EQ(of_one({{"x", "parameter", array({4, 8})}, {"y", "transpose", array({8, 4}), {"x"}, dimensions({1, 0})}}),
            (Said{"4: 0 > 1", "8: 1 > 0"}));
}

TEST(HloAxes, AProductHasItsRowsColumnsBatchesAndTerms) {
  const std::string dims = message(30, numbers(1, {2}) + numbers(2, {1}) + numbers(3, {0}) + numbers(4, {0}));
  EXPECT_EQ(of_one({{"a", "parameter", array({3, 4, 8})},
                    {"b", "parameter", array({3, 8, 5})},
                    {"y", "dot", array({3, 4, 5}), {"a", "b"}, dims}}),
            (Said{"3: 0 0 > 0", "4: 1 w > 1", "5: w 2 > 2", "8: 2 1 > t"}));
}

TEST(HloAxes, AConvolutionHasImagesAndFeatures) {
  const auto of = [](std::int64_t groups) {
    const std::string dims = message(16, numbers(3, {2}) + numbers(4, {3}) + numbers(8, {3}) + numbers(10, {3}));
    return of_one({{"x", "parameter", array({5, 8, 8, 6})},
                   {"k", "parameter", array({3, 3, 6 / groups, 4})},
                   {"y", "convolution", array({5, 6, 6, 4}), {"x", "k"}, dims + numbers(50, {groups})}});
  };
  EXPECT_EQ(of(1), (Said{"4: w 3 > 3", "5: 0 w > 0", "6: 3 2 > t"}));
  EXPECT_EQ(of(2), (Said{"5: 0 w > 0"}));
}

TEST(HloAxes, TermsOfHalfPrecisionAreNotAdded) {
  const std::string dims = message(30, numbers(1, {1}) + numbers(2, {0}));
  EXPECT_EQ(of_one({{"a", "parameter", array({4, 8}, 16)},
                    {"b", "parameter", array({8, 5}, 16)},
                    {"y", "dot", array({4, 5}, 16), {"a", "b"}, dims}}),
            (Said{"4: 0 w > 0", "5: w 1 > 1"}));
}

TEST(HloAxes, AReductionSumsOnlyWhatIsAddedToZero) {
  const auto of = [](const std::string& opcode, bool from_zero) {
    Builder builder;
    const std::uint64_t reducer = add_reducer(builder, opcode);
    Line init = zero();
    if (!from_zero) init = {"zero", "parameter", array({})};
    builder.add("main", {{"x", "parameter", array({4, 8})},
                         init,
                         {"y", "reduce", array({4}), {"x", "zero"}, dimensions({1}), {reducer}}});
    return said_of(lowered(builder));
  };
  EXPECT_EQ(of("add", true), (Said{"4: 0 w > 0", "8: 1 w > t"}));
  EXPECT_EQ(of("maximum", true), (Said{"4: 0 w > 0"}));
  EXPECT_EQ(of("add", false), (Said{"4: 0 w > 0"}));
}

TEST(HloAxes, AReshapeKeepsTheOutermostOfEachGroup) {
  EXPECT_EQ(of_one({{"x", "parameter", array({4, 6, 8})}, {"y", "reshape", array({24, 8}), {"x"}}}),
            (Said{"4: 0 > 0x6", "8: 2 > 1"}));
  EXPECT_EQ(of_one({{"x", "parameter", array({4, 6})}, {"y", "reshape", array({6, 4}), {"x"}}}), Said{});
}

TEST(HloAxes, WhatIsPutTogetherIsCutAlongOtherDimensions) {
  EXPECT_EQ(
      of_one({{"x", "parameter", array({4, 8})}, {"y", "concatenate", array({8, 8}), {"x", "x"}, dimensions({0})}}),
      (Said{"8: 1 1 > 1"}));
  const auto part = [](std::int64_t from, std::int64_t to) {
    return message(17, numbers(1, {from}) + numbers(2, {to}) + numbers(3, {1}));
  };
  EXPECT_EQ(of_one({{"x", "parameter", array({4, 8})}, {"y", "slice", array({4, 2}), {"x"}, part(0, 4) + part(2, 4)}}),
            (Said{"4: 0 > 0"}));
}

TEST(HloAxes, ANumberOfARowIsNotThatOfASlice) {
  EXPECT_EQ(of_one({{"y", "iota", array({4, 8}), {}, dimensions({1})}}), (Said{"4: > 0"}));
}

TEST(HloAxes, WhatHasNoRuleHasNone) {
  EXPECT_EQ(of_one({{"x", "parameter", array({4, 8})}, {"y", "sort", array({4, 8}), {"x"}, dimensions({1})}}), Said{});
  EXPECT_EQ(of_one({{"x", "parameter", array({4, 4})}, {"y", "what", array({4, 4}), {"x"}}}), Said{});
}

TEST(HloAxes, DamagedNumbersHaveNone) {
  for (const std::int64_t wrong : {std::int64_t{-1}, std::int64_t{7}, std::int64_t{1} << 60}) {
    EXPECT_EQ(of_one({{"x", "parameter", array({8})}, {"y", "broadcast", array({4, 8}), {"x"}, dimensions({wrong})}}),
              Said{});
    EXPECT_EQ(
        of_one({{"x", "parameter", array({4, 8})}, {"y", "transpose", array({8, 4}), {"x"}, dimensions({wrong, 0})}}),
        Said{});
    const std::string dims = message(30, numbers(1, {wrong}) + numbers(2, {0}));
    EXPECT_EQ(of_one({{"a", "parameter", array({4, 8})}, {"y", "dot", array({4, 8}), {"a", "a"}, dims}}), Said{});
  }
}

/// A product over rows of x in two dimensions of the result has none along x's rows.
TEST(HloAxes, AnArrayIsCutInOneDimension) {
  const std::string dims = message(30, numbers(1, {1}) + numbers(2, {1}));
  Builder builder;
  const std::uint64_t fused =
      builder.add("fused", {{"x", "parameter", array({4, 8})}, {"y", "dot", array({4, 4}), {"x", "x"}, dims}});
  builder.add("main", {{"x", "parameter", array({4, 8})},
                       {"y", "fusion", array({4, 4}), {"x"}, message(11, "kLoop"), {fused}}});
  EXPECT_EQ(said_of(lowered(builder)), (Said{"8: 1 > t"}));
}

/// s[n] = -sum over m of exp(x[n, m] - b[n]).
std::uint64_t add_fusion(Builder& builder, const std::string& after = "negate") {
  const std::uint64_t reducer = add_reducer(builder, "add");
  const std::string matrix = array({4, 8});
  return builder.add("fused", {{"x", "parameter", matrix},
                               {"b", "parameter", array({4})},
                               zero(),
                               {"c", "broadcast", matrix, {"b"}, dimensions({0})},
                               {"d", "subtract", matrix, {"x", "c"}},
                               {"e", "exponential", matrix, {"d"}},
                               {"s", "reduce", array({4}), {"e", "zero"}, dimensions({1}), {reducer}},
                               {"r", after, array({4}), {"s"}}});
}

TEST(HloAxes, AFusionIsFollowedThroughItsInstructions) {
  const auto of = [](const std::string& after, const std::string& kind) {
    Builder builder;
    const std::uint64_t fused = add_fusion(builder, after);
    builder.add("main", {{"x", "parameter", array({4, 8})},
                         {"b", "parameter", array({4})},
                         {"y", "fusion", array({4}), {"x", "b"}, message(11, kind), {fused}}});
    return said_of(lowered(builder));
  };
  EXPECT_EQ(of("negate", "kLoop"), (Said{"4: 0 0 > 0", "8: 1 w > t"}));
  EXPECT_EQ(of("exponential", "kLoop"), (Said{"4: 0 0 > 0"}));
  EXPECT_EQ(of("negate", "kCustom"), Said{});
}

/// x -> e = exp x, of which y is the sum of each row, and z reads columns.
std::string chain_bytes(const Numbers& layout = {}) {
  Builder builder;
  const std::uint64_t reducer = add_reducer(builder, "add");
  const std::string matrix = array({32, 16}, 11, layout);
  builder.add("main", {{"x", "parameter", matrix},
                       zero(),
                       {"d", "negate", matrix, {"x"}},
                       {"e", "exponential", matrix, {"d"}},
                       {"y", "reduce", array({32}), {"e", "zero"}, dimensions({1}), {reducer}}});
  return builder.module();
}

LoweredModule chain(const Numbers& layout = {}) {
  return lower_module(chain_bytes(layout), "module", {});
}

int axis_of(const SliceableGraph& sliceable, int op, std::int64_t extent) {
  const std::vector<Axis>& axes = sliceable.graph[OpId(op)].axes;
  const auto found = std::ranges::find(axes, extent, &Axis::extent);
  EXPECT_NE(found, axes.end());
  return static_cast<int>(found - axes.begin());
}

std::map<std::string, int> opcodes(const LoweredModule& module) {
  std::map<std::string, int> count;
  for (const Instruction& one : module.module.computations[module.module.entry].instructions) ++count[one.opcode];
  return count;
}

TEST(HloSlices, RowsAreAssembledAndTermsAreAdded) {
  for (const Numbers& layout : {Numbers{1, 0}, Numbers{0, 1}}) {
    const LoweredModule module = chain(layout);
    const SliceableGraph sliceable = sliceable_graph(module);
    for (const std::int64_t extent : {32, 16}) {
      Region region{.parts = {{}}, .slices = 4};
      for (const int op : {0, 1, 2}) region.parts[0].push_back({OpId(op), axis_of(sliceable, op, extent)});
      const std::string bytes = slice_module(module, sliceable, std::vector{region});
      const LoweredModule made = lower_module(bytes, "made", {});
      auto count = opcodes(made);
      EXPECT_EQ(count["slice"], 4);
      EXPECT_EQ(count["exponential"], 4);
      EXPECT_EQ(count["reduce"], 4);
      EXPECT_EQ(count["dynamic-update-slice"], extent == 32 ? 4 : 0);
      EXPECT_EQ(count["add"], extent == 32 ? 0 : 3);
      for (const Instruction& one : made.module.computations[made.module.entry].instructions) {
        if (one.opcode != "exponential") continue;
        EXPECT_EQ(one.shape.dimensions, extent == 32 ? (Numbers{8, 16}) : (Numbers{32, 4}));
      }
      const Computation& entry = made.module.computations[made.module.entry];
      EXPECT_EQ(entry.instructions[entry.root].name, "y");
      EXPECT_EQ(entry.instructions[entry.root].shape.dimensions, Numbers{32});
      EXPECT_LT(assigned_temporaries(made.module), assigned_temporaries(module.module));
    }
  }
}

TEST(HloSlices, WhatOthersReadIsPutTogether) {
  const LoweredModule module = chain();
  const SliceableGraph sliceable = sliceable_graph(module);
  Region region{.parts = {{}}, .slices = 2};
  for (const int op : {0, 1}) region.parts[0].push_back({OpId(op), axis_of(sliceable, op, 32)});
  const LoweredModule made = lower_module(slice_module(module, sliceable, std::vector{region}), "made", {});
  auto count = opcodes(made);
  EXPECT_EQ(count["dynamic-update-slice"], 2);
  EXPECT_EQ(count["reduce"], 1);
}

std::string fusion_bytes() {
  Builder builder;
  const std::uint64_t fused = add_fusion(builder);
  builder.add("main", {{"x", "parameter", array({4, 8})},
                       {"b", "parameter", array({4})},
                       {"y", "fusion", array({4}), {"x", "b"}, message(11, "kLoop"), {fused}}});
  return builder.module();
}

TEST(HloSlices, AFusionCallsACopyForEachSlice) {
  const LoweredModule module = lower_module(fusion_bytes(), "module", {});
  const SliceableGraph sliceable = sliceable_graph(module);
  const Region region{.parts = {{{OpId(0), axis_of(sliceable, 0, 8)}}}, .slices = 2};
  const LoweredModule made = lower_module(slice_module(module, sliceable, std::vector{region}), "made", {});
  std::vector<Numbers> shapes;
  for (const Instruction& one : made.module.computations[made.module.entry].instructions) {
    if (one.opcode != "fusion") continue;
    const Computation& called = made.module.computations[one.called[0]];
    for (const Instruction& inner : called.instructions) {
      if (inner.opcode == "exponential") shapes.push_back(inner.shape.dimensions);
    }
  }
  EXPECT_EQ(shapes, (std::vector<Numbers>{{4, 4}, {4, 4}}));
}

/// Each axis of each op by itself, in three slices: a module, or one clear refusal.
int slice_all(const std::string& bytes) {
  int made = 0;
  try {
    const LoweredModule module = lower_module(bytes, "damaged", {});
    const SliceableGraph sliceable = sliceable_graph(module);
    for (const OpId op : Ids<OpId>(sliceable.graph.ops.size())) {
      for (int axis = 0; axis < static_cast<int>(sliceable.graph[op].axes.size()); ++axis) {
        const Region region{.parts = {{{op, axis}}}, .slices = 3};
        made += slice_module(module, sliceable, std::vector{region}).empty() ? 0 : 1;
      }
    }
  } catch (const InputError&) {
  }
  return made;
}

TEST(HloSlices, DamagedModulesAreRefusedOrRight) {
  std::mt19937 random(1);
  for (const std::string& whole : {chain_bytes(), fusion_bytes()}) {
    EXPECT_GT(slice_all(whole), 1);
    for (int round = 0; round < 2000; ++round) {
      std::string bytes = whole;
      for (unsigned k = 0; k <= random() % 3; ++k) bytes[random() % bytes.size()] = static_cast<char>(random() % 256);
      slice_all(bytes);
    }
  }
}

}  // namespace
}  // namespace remora::hlo::axes_tests
