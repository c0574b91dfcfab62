// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "engine/groups/block.hpp"
#include "engine/groups/partitioners.hpp"
#include "model/table.hpp"
#include "tests/engine/hierarchy_samples.hpp"
#include "tests/support/training_graphs.hpp"

namespace remora {
namespace {

/// Whether two groups are one problem, compared piece by piece down to the ops.
class Comparer {
 public:
  Comparer(const Instance& instance, const std::vector<Block>& blocks, std::size_t unit_count)
      : instance_(instance), blocks_(blocks), unit_count_(unit_count) {}

  // NOLINTNEXTLINE(misc-no-recursion)
  [[nodiscard]] bool same(std::size_t a, std::size_t b) const {
    const Block& x = blocks_[a];
    const Block& y = blocks_[b];
    if (x.ops.size() != y.ops.size() || x.tensors.size() != y.tensors.size() || x.interfaces != y.interfaces)
      return false;
    for (std::size_t t = 0; t < x.tensors.size(); ++t) {
      const BlockTensor& one = x.tensors[t];
      const BlockTensor& other = y.tensors[t];
      if (one.role != other.role || one.size != other.size || one.keep != other.keep) return false;
    }
    for (std::size_t o = 0; o < x.ops.size(); ++o) {
      if (!same_op(x.ops[o], y.ops[o])) return false;
    }
    for (std::size_t c = 0; c < x.children.size(); ++c) {
      if (!same(at(x.children[c]) - unit_count_, at(y.children[c]) - unit_count_)) return false;
    }
    return true;
  }

 private:
  [[nodiscard]] bool same_op(const BlockOp& a, const BlockOp& b) const {
    if (a.kind != b.kind || a.child != b.child || a.inputs != b.inputs || a.outputs != b.outputs ||
        a.after != b.after) {
      return false;
    }
    if (a.kind != BlockOp::Kind::op) return true;
    const Op& one = instance_.graph().ops[at(a.op)];
    const Op& other = instance_.graph().ops[at(b.op)];
    return one.type == other.type && one.duration == other.duration && one.workspace == other.workspace &&
           one.recompute == other.recompute && one.max_computes == other.max_computes;
  }

  const Instance& instance_;
  const std::vector<Block>& blocks_;
  std::size_t unit_count_;
};

struct Classified {
  Partition partition{};
  std::vector<Block> blocks{};
  BlockClasses classes{};

  [[nodiscard]] std::size_t distinct() const { return classes.representative.size(); }
};

Classified classified(const Instance& instance, Partition partition) {
  Classified result;
  result.partition = std::move(partition);
  result.blocks = make_blocks(instance, result.partition);
  result.classes = classify(instance, result.blocks, at(result.partition.unit_count()));
  return result;
}

Classified classified(const Graph& graph) {
  const Instance instance(std::make_shared<const Graph>(graph), {});
  return classified(instance, make_partition(instance, IntervalPartition(), {.group_size = 12, .top_size = 8}));
}

/// Equal layers, some of which are changed in one thing.
Graph uneven_layers(std::mt19937& random) {
  const auto count = static_cast<std::int64_t>(2 + random() % 6);
  Graph graph = random() % 2 == 0 ? test::generate_transformer({.layers = count})
                                  : test::generate_chain({.layers = 4 * count, .batch = 2});
  for (std::size_t changes = random() % 4; changes > 0; --changes) {
    Op& op = graph.ops[random() % graph.ops.size()];
    Tensor& tensor = graph.tensors[random() % graph.tensors.size()];
    if (random() % 5 == 0) op.duration += Duration(1);
    if (random() % 5 == 0) op.workspace += Bytes(1);
    if (random() % 5 == 0) op.type = "another";
    if (random() % 5 == 0) op.recompute = !op.recompute;
    if (random() % 5 == 0) op.max_computes = 3;
    if (random() % 5 == 0) tensor.size += Bytes(1);
    if (random() % 5 == 0) tensor.keep = !tensor.keep;
  }
  return random() % 2 == 0 ? graph : *test::with_after_edges(graph, random);
}

TEST(HierarchyClasses, AreEqualGroupsUpToNames) {
  std::mt19937 random(20261141);
  std::size_t saved = 0;
  for (int round = 0; round < 400 && !testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE("seed 20261141, round " + std::to_string(round));
    const Instance instance(std::make_shared<const Graph>(uneven_layers(random)), {});
    const Classified found = classified(instance, test::random_partition(instance, random));
    const Comparer comparer(instance, found.blocks, at(found.partition.unit_count()));
    ASSERT_EQ(found.classes.class_of.size(), found.blocks.size());
    for (std::size_t a = 0; a < found.blocks.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        EXPECT_EQ(found.classes.class_of[a] == found.classes.class_of[b], comparer.same(a, b)) << a << " and " << b;
      }
    }
    saved += found.blocks.size() - found.distinct();
  }
  EXPECT_GT(saved, 400U) << "hardly any groups are equal: this shows nothing";
}

TEST(HierarchyClasses, AreNumberedByTheirFirstBlock) {
  std::mt19937 random(20261142);
  for (int round = 0; round < 200 && !testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE("seed 20261142, round " + std::to_string(round));
    const Instance instance(std::make_shared<const Graph>(uneven_layers(random)), {});
    const Classified found = classified(instance, test::random_partition(instance, random));
    const auto units = at(found.partition.unit_count());
    for (std::size_t c = 0; c < found.distinct(); ++c) {
      const int first = found.classes.representative[c];
      const auto same = std::find(found.classes.class_of.begin(), found.classes.class_of.end(), static_cast<int>(c));
      EXPECT_EQ(same - found.classes.class_of.begin(), first);
      int height = 0;
      for (const int child : found.blocks[at(first)].children) {
        const int below = found.classes.class_of[at(child) - units];
        EXPECT_LT(below, static_cast<int>(c));
        height = std::max(height, 1 + found.classes.height[at(below)]);
      }
      EXPECT_EQ(found.classes.height[c], height);
    }
  }
}

TEST(HierarchyClasses, DoNotDependOnNames) {
  std::mt19937 random(20261143);
  for (int round = 0; round < 200 && !testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE("seed 20261143, round " + std::to_string(round));
    const Graph graph = uneven_layers(random);
    Graph renamed = graph;
    for (std::size_t op = 0; op < graph.ops.size(); ++op)
      renamed.ops[op].name = graph.ops[graph.ops.size() - 1 - op].name;
    for (Tensor& tensor : renamed.tensors) tensor.name = "x" + std::to_string(random()) + tensor.name;
    const Instance instance(std::make_shared<const Graph>(graph), {});
    const Partition partition = test::random_partition(instance, random);
    const Instance other(std::make_shared<const Graph>(renamed), {});
    EXPECT_EQ(classified(instance, partition).classes.class_of, classified(other, partition).classes.class_of);
  }
}

TEST(HierarchyClasses, OfTransformersAreAHandfulWhateverTheDepth) {
  for (const std::int64_t layers : {16, 32, 64, 128}) {
    const Classified found = classified(test::generate_transformer({.layers = layers}));
    EXPECT_GE(found.blocks.size(), static_cast<std::size_t>(layers));
    EXPECT_LE(found.distinct(), 24U) << layers << " layers in " << found.blocks.size() << " groups";
  }
}

/// Groups of the transformer whose class changed other than by number: pairs that were equal and are no longer.
std::size_t parted(const Classified& before, const Classified& after) {
  std::size_t result = 0;
  for (std::size_t a = 0; a < before.blocks.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      const bool were = before.classes.class_of[a] == before.classes.class_of[b];
      const bool are = after.classes.class_of[a] == after.classes.class_of[b];
      EXPECT_TRUE(were || !are) << "groups became equal";
      if (were && !are) ++result;
    }
  }
  return result;
}

TEST(HierarchyClasses, OneDifferentAmountSplitsAClass) {
  const Graph graph = test::generate_transformer({.layers = 12});
  const auto shared = std::make_shared<const Graph>(graph);
  const Partition partition =
      make_partition(Instance(shared, {}), IntervalPartition(), {.group_size = 12, .top_size = 8});
  const Classified before = classified(Instance(shared, {}), partition);
  // An op in the middle: of a layer that has its like.
  const std::size_t op = graph.ops.size() / 4;
  const auto changed = [&](const auto& change) {
    auto other = std::make_shared<Graph>(graph);
    change(*other, other->ops[op]);
    return parted(before, classified(Instance(other, {}), partition));
  };
  EXPECT_EQ(changed([](Graph&, Op& one) { one.name = "another"; }), 0U);
  EXPECT_GT(changed([](Graph&, Op& one) { one.duration += Duration(1); }), 0U);
  EXPECT_GT(changed([](Graph&, Op& one) { one.workspace += Bytes(1); }), 0U);
  EXPECT_GT(changed([](Graph&, Op& one) { one.type = "another"; }), 0U);
  EXPECT_GT(changed([](Graph&, Op& one) { one.recompute = false; }), 0U);
  EXPECT_GT(changed([](Graph&, Op& one) { one.max_computes = 1; }), 0U);
  EXPECT_GT(changed([](Graph& all, Op& one) { all.tensors[at(one.outputs.front())].size += Bytes(1); }), 0U);
  EXPECT_GT(changed([](Graph& all, Op& one) { all.tensors[at(one.outputs.front())].keep = true; }), 0U);
}

}  // namespace
}  // namespace remora
