// SPDX-License-Identifier: Apache-2.0
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "frontends/formats/wire.hpp"
#include "frontends/hlo/reader.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/verify.hpp"

namespace remora::hlo {
namespace {

// A module as XLA writes one: field numbers of hlo.proto and xla_data.proto.
constexpr std::int64_t kElements = 256;
constexpr std::int64_t kBytes = 4 * kElements;

std::string shape() {
  std::string layout;
  wire::put_number(layout, 1, 0);
  std::string text;
  wire::put_number(text, 2, 11);
  wire::put_number(text, 3, kElements);
  wire::put_bytes(text, 5, layout);
  return text;
}

struct Line {
  std::string name{};
  std::string opcode{};
  std::vector<std::uint64_t> operands{};
};

/// One computation, whose instructions have the ids 1, 2, ..., are scheduled as they stand, and end with the root. Field 99 is unknown.
std::string module_of(const std::vector<Line>& lines, bool donates_first = false) {
  std::string computation;
  wire::put_bytes(computation, 1, "main");
  std::string ids;
  std::uint64_t parameters = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    std::string text;
    wire::put_bytes(text, 1, lines[i].name);
    wire::put_bytes(text, 2, lines[i].opcode);
    wire::put_bytes(text, 3, shape());
    if (lines[i].opcode == "parameter") wire::put_number(text, 9, parameters++);
    wire::put_number(text, 35, i + 1);
    for (const std::uint64_t operand : lines[i].operands) wire::put_number(text, 36, operand);
    wire::put_bytes(text, 99, "kept");
    wire::put_bytes(computation, 2, text);
    wire::put_number(ids, 1, i + 1);
  }
  wire::put_number(computation, 5, 7);
  wire::put_number(computation, 6, lines.size());
  std::string pair;
  wire::put_number(pair, 1, 7);
  wire::put_bytes(pair, 2, ids);
  std::string schedule;
  wire::put_bytes(schedule, 1, pair);
  std::string module;
  wire::put_bytes(module, 1, "small");
  wire::put_bytes(module, 2, "main");
  wire::put_bytes(module, 3, computation);
  wire::put_number(module, 6, 7);
  wire::put_bytes(module, 7, schedule);
  if (donates_first) {
    std::string entry;
    wire::put_number(entry, 4, 1);
    std::string aliases;
    wire::put_bytes(aliases, 1, entry);
    wire::put_bytes(module, 8, aliases);
  }
  return module;
}

/// x, a = tanh x, b = dot a a, c = dot b b, d = dot c a: a is kept over b and c, or made again.
std::string chain() {
  return module_of(
      {{"x", "parameter", {}}, {"a", "tanh", {1}}, {"b", "dot", {2, 2}}, {"c", "dot", {3, 3}}, {"d", "dot", {4, 2}}});
}

Sequence sequence_of(std::initializer_list<int> ops) {
  Sequence sequence;
  for (const int op : ops) sequence.emplace_back(op);
  return sequence;
}

Bytes peak_of(const LoweredModule& module, const Sequence& sequence) {
  const auto graph = std::make_shared<const Graph>(module.graph);
  const Schedule schedule = schedule_of(Instance(graph, {}), sequence);
  EXPECT_TRUE(verify(*graph, schedule).valid());
  return schedule.peak_memory;
}

TEST(Hlo, InstructionsAreOpsAndArgumentsFixedMemory) {
  const LoweredModule module = lower_module(chain(), "chain", {});
  ASSERT_EQ(module.graph.ops.size(), 4U);
  EXPECT_EQ(module.graph.fixed_memory, Bytes(kBytes));
  EXPECT_EQ(module.outputs, Bytes(kBytes));
  EXPECT_EQ(peak_of(module, sequence_of({0, 1, 2, 3})), Bytes(4 * kBytes));
  // Two of a, b and c: the third lies in the output's memory, which is free until d is written.
  EXPECT_EQ(assigned_temporaries(module.module), Bytes(2 * kBytes));
}

TEST(Hlo, DumpsHaveTheModuleInTheirFirstField) {
  // HloProto: the module, and the buffer assignment as field 3, which is what computations are in a module.
  std::string buffer;
  wire::put_number(buffer, 1, 5);
  std::string assignment;
  wire::put_bytes(assignment, 1, buffer);
  std::string dump;
  wire::put_bytes(dump, 1, chain());
  wire::put_bytes(dump, 3, assignment);
  std::string snapshot;
  wire::put_bytes(snapshot, 1, dump);
  for (const std::string& file : {dump, snapshot}) {
    EXPECT_TRUE(looks_like_module(file));
    const LoweredModule module = lower_module(file, "dump", {});
    EXPECT_EQ(module.graph.ops.size(), 4U);
    EXPECT_EQ(rewrite_module(module, sequence_of({0, 1, 2, 0, 3})),
              rewrite_module(lower_module(chain(), "chain", {}), sequence_of({0, 1, 2, 0, 3})));
  }
}

std::string refusal_of(const std::string& file) {
  try {
    lower_module(file, "file", {});
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(Hlo, WhatToGiveIsSaidOfModulesWithoutAScheduleAndOfText) {
  const std::string scheduled = chain();
  std::string unscheduled;
  wire::Reader reader(scheduled);
  while (const auto field = reader.at_end() ? std::nullopt : reader.next()) {
    if (field->number != 7) unscheduled += scheduled.substr(field->start, reader.place() - field->start);
  }
  for (const std::string& file : {unscheduled, std::string("HloModule jit_step, is_scheduled=true\n"),
                                  std::string("module @jit_step attributes {\n"), std::string("ML\xefR\x0d")}) {
    EXPECT_TRUE(looks_like_module(file));
    EXPECT_NE(refusal_of(file).find("give the scheduled module, *after_optimizations.hlo.pb"), std::string::npos)
        << refusal_of(file);
  }
}

TEST(Hlo, WhatIsNotUnderstoodIsNotCalledDamaged) {
  std::string other;
  wire::put_bytes(other, 1, "name");
  wire::put_bytes(other, 5, "no number");
  for (const std::string& file : {std::string("nonsense"), chain().substr(0, 100), other}) {
    EXPECT_NE(refusal_of(file), "");
    EXPECT_EQ(refusal_of(file).find("damaged"), std::string::npos) << refusal_of(file);
  }
}

TEST(Hlo, RecomputesAreWrittenAndReadAgain) {
  const LoweredModule module = lower_module(chain(), "chain", {});
  const std::string bytes = rewrite_module(module, sequence_of({0, 1, 2, 0, 3}));
  const LoweredModule again = lower_module(bytes, "again", {});
  ASSERT_EQ(again.graph.ops.size(), 5U);
  EXPECT_EQ(again.graph.ops[3].name, "a.remat1");
  EXPECT_EQ(again.graph.ops[4].inputs.size(), 2U);
  EXPECT_EQ(again.graph.ops[4].inputs[1], again.graph.ops[3].outputs[0]);
  std::size_t kept = 0;
  for (std::size_t at = bytes.find("kept"); at != std::string::npos; at = bytes.find("kept", at + 1)) ++kept;
  EXPECT_EQ(kept, 6U);
}

/// u = dynamic-update-slice(a, ..) lies where a lies, which b has read by then.
LoweredModule destroying() {
  return lower_module(module_of({{"x", "parameter", {}},
                                 {"i", "parameter", {}},
                                 {"a", "tanh", {1}},
                                 {"b", "dot", {3, 3}},
                                 {"u", "dynamic-update-slice", {3, 1, 2}},
                                 {"c", "dot", {5, 4}},
                                 {"d", "dot", {6, 4}}}),
                      "update", {});
}

TEST(Hlo, NothingIsReadThatIsDestroyed) {
  // b reads a, which u has destroyed: it may not run again.
  const LoweredModule module = destroying();
  ASSERT_EQ(module.graph.ops.size(), 5U);
  ASSERT_EQ(module.graph.ops[2].in_place.size(), 1U);
  EXPECT_EQ(module.graph.ops[2].after, std::vector<OpId>({OpId(0), OpId(1)}));
  EXPECT_EQ(stale_reads(module, sequence_of({0, 1, 2, 3, 1, 4})), std::vector<OpId>({OpId(1)}));
  EXPECT_THROW(rewrite_module(module, sequence_of({0, 1, 2, 3, 1, 4})), InputError);
  EXPECT_TRUE(stale_reads(module, sequence_of({0, 1, 2, 3, 0, 1, 4})).empty());
  EXPECT_FALSE(rewrite_module(module, sequence_of({0, 1, 2, 3, 0, 1, 4})).empty());
}

TEST(Hlo, WhatIsDestroyedIsMadeAgainForWhoReadsIt) {
  // a is destroyed by u: before b runs again, a does. What is destroyed and may not run again stays stale.
  LoweredModule module = destroying();
  EXPECT_EQ(mended(module, sequence_of({0, 1, 2, 3, 1, 4})), sequence_of({0, 1, 2, 3, 0, 1, 4}));
  EXPECT_EQ(mended(module, sequence_of({0, 1, 2, 3, 4})), sequence_of({0, 1, 2, 3, 4}));
  module.graph[OpId(0)].recompute = false;
  const std::vector<OpId> left = mended(module, sequence_of({0, 1, 2, 3, 1, 4}));
  EXPECT_EQ(left, sequence_of({0, 1, 2, 3, 1, 4}));
  EXPECT_EQ(stale_reads(module, left), std::vector<OpId>({OpId(1)}));
}

TEST(Hlo, ADonatedArgumentHoldsItsOutput) {
  // The root is written where x lies: a, which reads x, may not run again after it, and the root runs once.
  const LoweredModule module = lower_module(
      module_of({{"x", "parameter", {}}, {"a", "tanh", {1}}, {"y", "multiply", {1, 2}}}, true), "donated", {});
  EXPECT_EQ(module.donated, Bytes(kBytes));
  EXPECT_EQ(module.outputs, Bytes(0));
  EXPECT_FALSE(module.graph.ops[1].recompute);
  EXPECT_EQ(stale_reads(module, sequence_of({0, 1, 0})), std::vector<OpId>({OpId(0)}));
}

TEST(Hlo, WhatHasEffectsRunsOnceAndInOrder) {
  const LoweredModule module = lower_module(
      module_of({{"x", "parameter", {}}, {"r", "rng", {1}}, {"s", "all-reduce", {1}}, {"y", "add", {2, 3}}}), "effects",
      {});
  EXPECT_FALSE(module.graph.ops[0].recompute);
  EXPECT_FALSE(module.graph.ops[1].recompute);
  EXPECT_EQ(module.graph.ops[1].after, std::vector<OpId>({OpId(0)}));
  EXPECT_THROW(lower_module(module_of({{"x", "parameter", {}}, {"y", "all-reduce-start", {1}}}), "async", {}),
               InputError);
}

TEST(Hlo, DamagedModulesAreRefusedWithALine) {
  const std::string whole = chain();
  std::mt19937 random(1);
  int refused = 0;
  for (int k = 0; k < 5000; ++k) {
    std::string bytes = whole;
    for (unsigned i = random() % 4; i < 4; ++i) bytes[random() % bytes.size()] = static_cast<char>(random() % 256);
    if (random() % 4 == 0) bytes.resize(random() % bytes.size());
    try {
      const LoweredModule module = lower_module(bytes, "damaged", {});
      std::vector<OpId> order;
      for (std::size_t op = 0; op < module.graph.ops.size(); ++op) order.emplace_back(op);
      EXPECT_FALSE(rewrite_module(module, order).empty());
    } catch (const InputError& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace remora::hlo
