// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "model/buffers/schedule_buffers.hpp"
#include "model/evaluate.hpp"
#include "model/placement.hpp"
#include "model/verify.hpp"

namespace remora {
namespace {

/// An input x; A with a workspace makes a and, of size 0, e; B makes b of a and x.
struct Placed {
  Graph graph{};
  Schedule schedule{.status = Status::feasible, .budget = Bytes(40), .duration = Duration(3), .peak_memory = Bytes(34)};

  Placed() {
    graph.fixed_memory = Bytes(8);
    const TensorId x = graph.add_tensor("x", Bytes(6));
    const TensorId a = graph.add_tensor("a", Bytes(12));
    const TensorId e = graph.add_tensor("e", Bytes(0));
    const TensorId b = graph.add_tensor("b", Bytes(7), true);
    graph.add_op({.name = "A", .duration = Duration(1), .workspace = Bytes(8), .inputs = {x}, .outputs = {a, e}});
    graph.add_op({.name = "B", .duration = Duration(2), .inputs = {a, x}, .outputs = {b}});
    schedule.steps = {{.op = OpId(0), .free = {e}}, {.op = OpId(1), .free = {a}}};
    schedule.arena =
        Arena{.alignment = Bytes(4),
              .size = Bytes(28),
              .inputs = {{x, Bytes(0)}},
              .steps = {{.outputs = {{a, Bytes(8)}}, .workspace = Bytes(20)}, {.outputs = {{b, Bytes(20)}}}}};
  }
};

TEST(VerifyArena, AcceptsOffsetsThatAreRight) {
  const Placed placed;
  const Verdict verdict = verify(placed.graph, placed.schedule);
  EXPECT_TRUE(verdict.valid()) << verdict.errors.front();
}

struct ArenaFault {
  std::function<void(Placed&)> inject;
  const char* expected;
};

TEST(VerifyArena, NamesWhatIsWrong) {
  const std::vector<ArenaFault> faults{
      {[](Placed& p) { p.schedule.arena->alignment = Bytes(0); }, "alignment must be at least 1"},
      {[](Placed& p) { p.schedule.arena->size = Bytes(-1); }, "size must not be negative"},
      {[](Placed& p) { p.schedule.arena->steps.pop_back(); }, "another number of steps"},
      {[](Placed& p) { p.schedule.arena->inputs.clear(); }, R"(the graph's inputs: no offset for "x")"},
      {[](Placed& p) { p.schedule.arena->steps[0].outputs.clear(); }, R"(step 0 (A): no offset for "a")"},
      {[](Placed& p) { p.schedule.arena->steps[1].outputs.emplace_back(TensorId(1), Bytes(0)); },
       R"(step 1 (B): an offset for "a", which it does not allocate)"},
      {[](Placed& p) { p.schedule.arena->steps[1].outputs.emplace_back(TensorId(9), Bytes(0)); },
       "step 1 (B): an offset for an unknown tensor"},
      {[](Placed& p) { p.schedule.arena->steps[0].workspace.reset(); }, "step 0 (A): no offset for its workspace"},
      {[](Placed& p) { p.schedule.arena->steps[1].workspace = Bytes(0); },
       "step 1 (B): an offset for a workspace that it does not have"},
      {[](Placed& p) { p.schedule.arena->steps[0].outputs[0].second = Bytes(10); },
       R"(step 0 (A): the offset 10 of "a" is not a multiple of 4)"},
      {[](Placed& p) { p.schedule.arena->steps[0].outputs[0].second = Bytes(4); },
       R"(step 0 (A): "a" at offset 4 shares bytes with "x")"},
      {[](Placed& p) { p.schedule.arena->steps[0].workspace = Bytes(16); },
       R"(step 0 (A): its workspace at offset 16 shares bytes with "a")"},
      {[](Placed& p) { p.schedule.arena->steps[1].outputs[0].second = Bytes(24); },
       R"(step 1 (B): "b" at offset 24 ends beyond the arena)"},
      {[](Placed& p) { p.schedule.arena->steps[1].outputs[0].second = Bytes(INT64_MAX / 4 * 4); },
       "ends beyond the arena"},
      {[](Placed& p) { p.schedule.arena->size = Bytes(30); }, "the arena says size 30, what lies in it ends at 28"},
      {[](Placed& p) { p.schedule.budget = Bytes(35); },
       "an arena of 28 bytes and 8 bytes of fixed memory exceed the budget of 35"},
  };
  for (const ArenaFault& fault : faults) {
    Placed placed;
    fault.inject(placed);
    const Verdict verdict = verify(placed.graph, placed.schedule);
    ASSERT_FALSE(verdict.valid()) << fault.expected;
    EXPECT_NE(verdict.errors.front().find(fault.expected), std::string::npos) << verdict.errors.front();
  }
}

TEST(VerifyArena, AgreesWithWhatBuffersMakeOfIt) {
  Placed placed;
  const ScheduleBuffers found = buffers_of(placed.graph, placed.schedule, Bytes(4));
  ASSERT_EQ(found.buffers.size(), 4U);
  std::vector<Bytes> offsets;
  for (const Holder& holder : found.holders) {
    offsets.emplace_back(!holder.tensor.valid() || holder.tensor == TensorId(3) ? 20 : holder.step < 0 ? 0 : 8);
  }
  EXPECT_EQ(placement_fault(found.buffers, offsets), "");
  EXPECT_EQ(make_arena(placed.schedule, found, offsets, Bytes(4)), *placed.schedule.arena);
  EXPECT_EQ(offsets_in(*placed.schedule.arena, found), offsets);
}

}  // namespace
}  // namespace remora
