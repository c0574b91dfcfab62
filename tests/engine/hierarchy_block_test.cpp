// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "engine/baselines/chains/block_chain.hpp"
#include "engine/groups/block.hpp"
#include "model/evaluate.hpp"
#include "model/table.hpp"
#include "tests/engine/hierarchy_samples.hpp"
#include "tests/engine/partition_oracle.hpp"
#include "tests/support/fewer.hpp"

namespace remora {
namespace {

using Kind = BlockOp::Kind;
using Role = BlockTensor::Role;

/// A group by definition: its ops, and what it shares with the rest of the network.
class Group {
 public:
  Group(const Instance& instance, const Partition& partition, const std::vector<int>& units)
      : instance_(instance), first_backward_(forward_part(instance).value_or(instance.op_count())) {
    for (const int unit : units) {
      ops_.insert(partition.units.units[at(unit)].op);
      for (const OpId op : partition.units.units[at(unit)].backward) ops_.insert(op);
    }
  }

  [[nodiscard]] const std::set<int>& ops() const { return ops_; }
  [[nodiscard]] bool backward(int op) const { return op >= first_backward_; }
  [[nodiscard]] bool has_backward() const { return !ops_.empty() && backward(*ops_.rbegin()); }

  /// Made outside, read by one of the group's ops; forward ones alone if so asked.
  [[nodiscard]] std::set<int> inputs(bool forward_only) const {
    std::set<int> result;
    for (const int op : ops_) {
      if (forward_only && backward(op)) continue;
      for (const TensorId t : instance_.inputs(OpId(op))) {
        if (ops_.count(instance_.producer(t)) == 0) result.insert(t);
      }
    }
    return result;
  }
  /// Made by the group's forward or backward ops, read outside or kept.
  [[nodiscard]] std::set<int> outputs(bool by_backward) const {
    std::set<int> result;
    for (const int op : ops_) {
      if (backward(op) != by_backward) continue;
      for (const TensorId t : instance_.outputs(OpId(op))) {
        bool outside = instance_.keep(t);
        for (const OpId user : instance_.users(t)) outside = outside || ops_.count(user) == 0;
        if (outside) result.insert(t);
      }
    }
    return result;
  }

 private:
  const Instance& instance_;
  int first_backward_;
  std::set<int> ops_;
};

std::set<int> network_tensors(const Block& block, const std::vector<int>& locals) {
  std::set<int> result;
  for (const int t : locals) {
    if (block.tensors[at(t)].tensor.valid()) result.insert(block.tensors[at(t)].tensor);
  }
  return result;
}

std::set<int> with_role(const Block& block, Role role) {
  std::set<int> result;
  for (const BlockTensor& tensor : block.tensors) {
    if (tensor.role == role) result.insert(tensor.tensor);
  }
  return result;
}

std::set<int> joined(std::set<int> a, const std::set<int>& b) {
  a.insert(b.begin(), b.end());
  return a;
}

class BlockChecker {
 public:
  BlockChecker(const Instance& instance, const Partition& partition) : instance_(instance), partition_(partition) {
    for (const auto& units : units_below(partition)) groups_.emplace_back(instance, partition, units);
  }

  void check(const std::vector<Block>& blocks) const {
    ASSERT_EQ(blocks.size(), partition_.nodes.size() - units());
    std::multiset<int> placed;
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      SCOPED_TRACE("block " + std::to_string(b));
      for (const BlockOp& op : blocks[b].ops) {
        if (op.kind == Kind::op) placed.insert(op.op);
      }
      check_children(blocks[b], static_cast<int>(units() + b));
      check_face(blocks[b], static_cast<int>(units() + b));
      check_order(blocks[b]);
      check_interfaces(blocks, blocks[b]);
    }
    std::multiset<int> all;
    for (int op = 0; op < instance_.op_count(); ++op) all.insert(op);
    EXPECT_EQ(placed, all) << "an op is nowhere or in two places";
  }

 private:
  [[nodiscard]] std::size_t units() const { return at(partition_.unit_count()); }

  /// The block's ops are those of its units, its children the groups below.
  void check_children(const Block& block, int node) const {
    std::set<int> ops;
    std::set<int> groups;
    for (const int child : partition_.node(node).children) {
      if (!partition_.is_unit(child)) {
        groups.insert(child);
        continue;
      }
      ops = joined(ops, groups_[at(child)].ops());
    }
    std::set<int> found;
    for (const BlockOp& op : block.ops) {
      if (op.kind == Kind::op) found.insert(op.op);
    }
    EXPECT_EQ(found, ops);
    EXPECT_EQ(std::set<int>(block.children.begin(), block.children.end()), groups);
    EXPECT_EQ(block.children.size(), groups.size());
    for (std::size_t child = 0; child < block.children.size(); ++child) check_halves(block, static_cast<int>(child));
  }

  /// A child's halves read and make what the group's ops of that half do.
  void check_halves(const Block& block, int child) const {
    const Group& group = groups_[at(block.children[at(child)])];
    const BlockOp* forward = nullptr;
    const BlockOp* backward = nullptr;
    for (const BlockOp& op : block.ops) {
      if (op.child != child) continue;
      const BlockOp*& half = op.kind == Kind::forward_half ? forward : backward;
      EXPECT_EQ(half, nullptr) << "a half twice";
      half = &op;
    }
    ASSERT_NE(forward, nullptr);
    EXPECT_EQ(network_tensors(block, forward->inputs), group.inputs(true));
    EXPECT_EQ(network_tensors(block, forward->outputs), group.outputs(false));
    ASSERT_EQ(backward != nullptr, group.has_backward());
    if (backward == nullptr) return;
    // A backward half may run forward ops again: it reads what they do, too.
    EXPECT_EQ(network_tensors(block, backward->inputs), joined(group.inputs(false), group.outputs(false)));
    EXPECT_EQ(network_tensors(block, backward->outputs), group.outputs(true));
    const int phantom = forward->outputs.back();
    EXPECT_EQ(block.tensors[at(phantom)].role, Role::phantom);
    EXPECT_EQ(std::count(backward->inputs.begin(), backward->inputs.end(), phantom), 1);
  }

  void check_face(const Block& block, int node) const {
    const Group& group = groups_[at(node)];
    const bool is_root = node == partition_.root();
    EXPECT_EQ(block.enter >= 0, !is_root);
    EXPECT_EQ(block.has_halves(), !is_root && group.has_backward());
    EXPECT_EQ(block.leave >= 0, block.has_halves());
    const std::set<int> outputs = joined(group.outputs(false), group.outputs(true));
    EXPECT_EQ(with_role(block, Role::input), is_root ? std::set<int>{} : group.inputs(false));
    EXPECT_EQ(with_role(block, Role::output), is_root ? std::set<int>{} : outputs);
    if (!block.has_halves()) return;
    EXPECT_EQ(network_tensors(block, block.ops[at(block.leave)].inputs), group.outputs(false));
    // What the forward half reads was there when it began.
    const std::set<int> entering = network_tensors(block, block.ops[at(block.enter)].outputs);
    for (const int t : group.inputs(true)) EXPECT_EQ(entering.count(t), 1U) << "tensor " << t;
    const std::set<int> made = joined(entering, network_tensors(block, block.ops[at(block.away)].outputs));
    EXPECT_EQ(made, group.inputs(false));
  }

  void check_order(const Block& block) const {
    std::vector<int> maker(block.tensors.size(), -1);
    for (int o = 0; o < static_cast<int>(block.ops.size()); ++o) {
      const BlockOp& op = block.ops[at(o)];
      for (const int t : op.inputs) {
        EXPECT_GE(maker[at(t)], 0) << "read before it is made";
      }
      for (const int before : op.after) EXPECT_LT(before, o);
      for (const int t : op.outputs) {
        EXPECT_EQ(maker[at(t)], -1) << "made twice";
        maker[at(t)] = o;
      }
      EXPECT_EQ(op.kind == Kind::enter, o == block.enter);
      if (!block.has_halves() || op.kind == Kind::leave || op.kind == Kind::away) continue;
      const bool behind = op.kind == Kind::backward_half || (op.kind == Kind::op && groups_.back().backward(op.op));
      EXPECT_EQ(o > block.away, behind);
      EXPECT_EQ(o < block.leave, !behind);
    }
    EXPECT_EQ(std::count(maker.begin(), maker.end(), -1), 0) << "made by nobody";
  }

  void check_interfaces(const std::vector<Block>& blocks, const Block& block) const {
    ASSERT_EQ(block.interfaces.size(), block.children.size());
    for (std::size_t child = 0; child < block.children.size(); ++child) {
      const Block& inside = blocks[at(block.children[child]) - units()];
      const std::vector<int> theirs = inside.interface();
      const std::vector<int>& ours = block.interfaces[child];
      ASSERT_EQ(theirs.size(), ours.size());
      for (std::size_t i = 0; i < ours.size(); ++i) {
        const BlockTensor& outer = block.tensors[at(ours[i])];
        const BlockTensor& inner = inside.tensors[at(theirs[i])];
        EXPECT_TRUE(outer.tensor == inner.tensor && outer.size == inner.size);
      }
    }
  }

  const Instance& instance_;
  const Partition& partition_;
  std::vector<Group> groups_;
};

TEST(HierarchyBlocks, HoldEveryOpOnceAndSayWhatIsShared) {
  std::mt19937 random(20261121);
  int levels = 0;
  for (int round = 0; round < test::fewer(6000) && !testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE("seed 20261121, round " + std::to_string(round));
    const Instance instance(test::random_network(random, 30), {});
    const Partition partition = test::random_partition(instance, random);
    levels += partition.node(partition.root()).level;
    BlockChecker(instance, partition).check(make_blocks(instance, partition));
  }
  EXPECT_GT(levels, 2 * test::fewer(6000)) << "the groups are too large to show anything";
}

TEST(HierarchyBlocks, AreInstancesOfTheRetentionModel) {
  std::mt19937 random(20261122);
  for (int round = 0; round < test::fewer(2000) && !testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE("seed 20261122, round " + std::to_string(round));
    const Instance instance(test::random_network(random, 24), {.max_computes = 2 + static_cast<int>(random() % 2)});
    const Hierarchy hierarchy = test::make_hierarchy(instance, test::random_partition(instance, random), random,
                                                     static_cast<int>(random() % 3));
    for (const Block& block : hierarchy.blocks) {
      const BlockProblem problem = test::problem_of(instance, hierarchy, block);
      const Instance local = with_budgets(problem, Bytes(1000), Bytes(random() % 50));
      const std::vector<Compute> once = computes_of(input_order(local));
      EXPECT_TRUE(modes_hold(local, once));
      EXPECT_GT(evaluate(local, once).peak, Bytes(-1));
    }
  }
}

TEST(HierarchyBlocks, OfNoOpsIsAnEmptyRoot) {
  const Instance instance = test::instance_of({});
  std::mt19937 random(1);
  const std::vector<Block> blocks = make_blocks(instance, test::random_partition(instance, random));
  ASSERT_EQ(blocks.size(), 1U);
  EXPECT_TRUE(blocks[0].ops.empty());
  EXPECT_FALSE(blocks[0].has_halves());
}

}  // namespace
}  // namespace remora
