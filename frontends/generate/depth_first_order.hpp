// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "model/random.hpp"

namespace remora::generate {

/// A random topological order of the ops 0 to n-1, depth first: the op computed next is the latest that became ready, and
/// of those that one op made ready, a random one. The published members' orders are alike: a ready successor follows its
/// predecessor at once in 48 of 52 cases (rl100) and 164 of 184 (rl500), and the op's layer correlates with its position
/// by 0.975 and 0.981, against 0.974 and 0.979 of this rule and 0.989 and 0.993 of a uniform choice among ready ops.
///
/// `predecessors`: for each op its own, none twice; acyclic. O(ops + edges).
std::vector<int> depth_first_order(const std::vector<std::vector<int>>& predecessors, Random& random);

}  // namespace remora::generate
