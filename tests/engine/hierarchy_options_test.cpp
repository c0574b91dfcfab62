// SPDX-License-Identifier: Apache-2.0
#include "engine/hierarchy/group_option.hpp"

#pragma GCC diagnostic ignored "-Wmisleading-indentation" //DEBUG
#include <algorithm>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "engine/hierarchy/option_grid.hpp"
#include "engine/hierarchy/stitching.hpp"
#include "model/evaluate.hpp"
#include "model/verify.hpp"
#include "tests/engine/hierarchy_samples.hpp"

namespace remora {
namespace {

std::size_t at(std::int32_t i) {
  return static_cast<std::size_t>(i);
}

/// How a composition's own accounting compares with that of the ops it expands to.
struct Comparison {
  int compositions = 0;
  int exact = 0;
};

Schedule schedule_of(const Instance& network, const std::vector<OpId>& sequence) {
  const Evaluation evaluation = evaluate(network, sequence);
  Schedule schedule;
  schedule.status = Status::feasible;
  schedule.order = OrderMode::free;
  schedule.budget = evaluation.peak;
  schedule.duration = evaluation.duration;
  schedule.peak_memory = evaluation.peak;
  schedule.steps = steps_of(network, sequence);
  schedule.solver.max_computes = network.options().max_computes;
  return schedule;
}

/// What the graph allows. An Instance allows less where another compute would serve nobody; a group that runs again
/// runs such ops again, too.
int limit(const Instance& network, int op) {
  const Op& of = network.graph().ops[at(op)];
  const int most = network.options().max_computes;
  return of.recompute ? std::min(of.max_computes.value_or(most), most) : 1;
}

void dump(const Instance& n, const Hierarchy& h, const Instance& root, const std::vector<Compute>& c) { //DEBUG
  for (std::size_t o = 0; o < n.graph().ops.size(); ++o) { const Op& op = n.graph().ops[o];
    printf("op %zu %s ws %ld re %d mc %d in", o, op.name.c_str(), op.workspace.count(), op.recompute, op.max_computes.value_or(-1));
    for (auto t : op.inputs) printf(" t%d", int(t));
    printf(" out"); for (auto t : op.outputs) printf(" t%d(%ld%s)", int(t), n.graph().tensors[at(t)].size.count(), n.graph().tensors[at(t)].keep ? " keep":"");
    printf(" after"); for (auto t : op.after) printf(" %d", int(t)); printf("\n"); }
  const char* kinds[] = {"op","F","B","enter","leave","away"};
  for (std::size_t b = 0; b < h.blocks.size(); ++b) { const Block& bl = h.blocks[b];
    printf("block %zu (node %zu) class %d enter %d leave %d away %d\n", b, b + h.unit_count, h.classes.class_of[b], bl.enter, bl.leave, bl.away);
    for (std::size_t o = 0; o < bl.ops.size(); ++o) { printf("  %zu %s op %d child %d in", o, kinds[int(bl.ops[o].kind)], int(bl.ops[o].op), bl.ops[o].child < 0 ? -1 : bl.children[at(bl.ops[o].child)]);
      for (int t : bl.ops[o].inputs) printf(" %d", t); printf(" out");
      for (int t : bl.ops[o].outputs) printf(" %d[t%d role %d keep %d]", t, int(bl.tensors[at(t)].tensor), int(bl.tensors[at(t)].role), bl.tensors[at(t)].keep); printf("\n"); }
    printf("  interface"); for (int t : bl.interface()) printf(" %d", t); printf("\n");
    if (b + 1 == h.blocks.size()) continue;
    auto show = [&](const GroupOption& g, const char* nm) { printf("   %s saved %ld fwd", nm, g.saved.count()); for (auto k : g.forward) printf(" %d/%d", int(k.op), k.option);
      printf(" bwd"); for (auto k : g.backward) printf(" %d/%d", int(k.op), k.option); printf(" reads"); for (bool r : g.reads) printf(" %d", r);
      for (auto* hc : {&g.forward_cost, &g.backward_cost}) { printf(" peaks"); for (auto& p : hc->peaks) { printf(" %ld{", p.workspace.count()); for (int f : p.freed) printf("%d ", f); printf("}"); } } printf("\n"); };
    for (auto& g : h.options[at(h.classes.class_of[b])].options) show(g, "opt"); show(h.options[at(h.classes.class_of[b])].pass, "pass"); }
  auto e = evaluate(root, c); printf("comp:"); for (std::size_t i = 0; i < c.size(); ++i) printf(" %d/%d:%ld", int(c[i].op), c[i].option, e.memory[i].count());
  auto s = expand(h, c); auto f = evaluate(n, s); printf("\nflat:"); for (std::size_t i = 0; i < s.size(); ++i) printf(" %d:%ld", int(s[i]), f.memory[i].count()); printf("\n");
} //DEBUG

/// Against what the composition says: time to the unit, memory never below the truth.
void compare(const Instance& network, const Hierarchy& hierarchy, const Instance& root,
             const std::vector<Compute>& composition, Comparison& comparison) {
  ASSERT_TRUE(options_hold(root, composition));
  const std::vector<OpId> sequence = expand(hierarchy, composition);
  const Evaluation composed = evaluate(root, composition);
  const Evaluation flat = evaluate(network, sequence);
  EXPECT_EQ(composed.duration, flat.duration);
  EXPECT_GE(composed.peak + network.base_memory(), flat.peak);
  if (composed.peak + network.base_memory() < flat.peak) dump(network, hierarchy, root, composition);
  ++comparison.compositions;
  if (composed.peak + network.base_memory() == flat.peak) ++comparison.exact;

  std::vector<int> computes(at(network.op_count()), 0);
  for (const OpId op : sequence) ++computes[at(op)];
  for (int op = 0; op < network.op_count(); ++op) {
    EXPECT_GE(computes[at(op)], 1);
    EXPECT_LE(computes[at(op)], limit(network, op)) << "op " << op;
  }
  const Verdict verdict = verify(network.graph(), schedule_of(network, sequence));
  EXPECT_TRUE(verdict.valid()) << verdict.errors.front();
}

TEST(HierarchyOptions, CostWhatTheirOpsCost) {
  std::mt19937 random(20261131);
  Comparison comparison;
  for (int round = 0; round < 3000 && !testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE("seed 20261131, round " + std::to_string(round));
    const Instance network(test::random_network(random, 20), {.max_computes = 2 + static_cast<int>(random() % 2)});
    const Hierarchy hierarchy =
        test::make_hierarchy(network, test::random_partition(network, random), random, 3);
    const BlockProblem problem = test::problem_of(network, hierarchy, hierarchy.blocks.back());
    const Instance root(problem.graph, {.max_computes = problem.max_computes}, problem.options);
    compare(network, hierarchy, root, computes_of(input_order(root)), comparison);
    for (int i = 0; i < 4; ++i) compare(network, hierarchy, root, test::random_sequence(root, random), comparison);
  }
  RecordProperty("exact", comparison.exact);
  std::printf("exact %d of %d\n", comparison.exact, comparison.compositions);
}

}  // namespace
}  // namespace remora
