// SPDX-License-Identifier: Apache-2.0
//
// What a partition promises, checked by definition and by brute force: nothing of engine/groups's own graphs is used
// but the assignment of ops to units.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/groups/partition.hpp"

namespace remora::test {

Instance instance_of(Graph graph);

/// Adds an op that reads the first tensors of the ops given, and returns its number.
int add_op(Graph& graph, const std::vector<int>& reads, std::int64_t size = 1);

/// reach[u][v]: whether a way leads from unit u to unit v, u = v included. O(units^2 x degree).
std::vector<std::vector<char>> unit_reachability(const Instance& instance, const Units& units);

/// Fails the running test where the tree is not one, a group is too large, has one child or isn't convex (HiRemate,
/// Definition A.1), or where forward halves in the tree's order and then backward halves in reverse aren't an order of
/// all ops.
void expect_partition(const Instance& instance, const Partition& partition, const PartitionSettings& settings);

}  // namespace remora::test
