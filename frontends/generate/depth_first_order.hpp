// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "model/random.hpp"

namespace remora::generate {

/// A random topological order of the ops 0 to n-1, depth first: the op computed next is the latest that became ready,
/// and of those that one op made ready, a random one.
///
/// The published members' orders are alike: a successor that became ready follows at once in 48 of 52 cases (rl100) and
/// in 164 of 184 (rl500); and layer and position correlate by 0.975 and 0.981, where this rule on the same graphs gives
/// 0.974 and 0.979, a uniform choice among the ready ops 0.989 and 0.993 (means of 200 orders).
///
/// `predecessors`: for each op its own, none twice; acyclic. O(ops + edges).
std::vector<int> depth_first_order(const std::vector<std::vector<int>>& predecessors, Random& random);

}  // namespace remora::generate
