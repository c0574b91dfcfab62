// SPDX-License-Identifier: Apache-2.0
//
// Hierarchies to test with: random graphs, random groups, and schedules that nobody looked for.
//
// Schedules of a group come from random sequences of its problem instead of a solver: what they cost must be right
// whatever they do, and there are far more kinds of them than a solver would choose.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/groups/composition.hpp"
#include "engine/groups/partitioners.hpp"
#include "model/instance.hpp"
#include "model/modes.hpp"

namespace remora::test {

/// Groups of random lengths along a random topological order: convex, and seldom contiguous in the input order.
class RandomPartitioner : public Partitioner {
 public:
  explicit RandomPartitioner(std::uint32_t seed) : seed_(seed) {}
  [[nodiscard]] std::string name() const override { return "random"; }
  [[nodiscard]] std::vector<int> group(const PartitionGraph& graph, const PartitionSettings& settings) const override;

 private:
  std::uint32_t seed_;
};

/// The graph with random `after` edges from earlier ops.
std::shared_ptr<const Graph> with_after_edges(const Graph& graph, std::mt19937& random);

/// A training graph or, one time in three, any graph; half of them with `after` edges.
std::shared_ptr<const Graph> random_network(std::mt19937& random, int most_ops);

/// A training step of `blocks` blocks of `ops` forward ops each, with as many backward ops. Between blocks there is one
/// tensor, inside there are skips; amounts from 1 to 9; a backward op reads inputs of its forward op or its output.
std::shared_ptr<const Graph> blocks_in_a_chain(std::mt19937& random, int blocks, int ops);

/// So many nodes in a row a group, however long that makes the top level: once.
class EqualPartitioner : public Partitioner {
 public:
  explicit EqualPartitioner(int size) : size_(size) {}
  [[nodiscard]] std::string name() const override { return "equal"; }
  [[nodiscard]] std::vector<int> group(const PartitionGraph& graph, const PartitionSettings& settings) const override;

 private:
  int size_;
};

/// By intervals or random groups, small ones, so that there are several levels.
Partition random_partition(const Instance& instance, std::mt19937& random);

/// The problem of a block whose children have their schedules.
BlockProblem problem_of(const Instance& instance, const Hierarchy& hierarchy, const Block& block);

/// A sequence of the staged form with random recomputes and random modes, as modes_hold() wants them; every op once
/// by mode 0 where no other was found.
std::vector<Compute> random_sequence(const Instance& instance, std::mt19937& random);

/// Blocks and classes, and for each class but the root's the saving schedule and up to `further` random ones.
Hierarchy make_hierarchy(const Instance& instance, const Partition& partition, std::mt19937& random, int further);

}  // namespace remora::test
