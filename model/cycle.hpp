// SPDX-License-Identifier: Apache-2.0
//
// Cycles among the dependencies of a graph that is not yet known to be sound.
//
// An op depends on the producers of its inputs and on its `after` ops:
//
//     A --a--> B --b--> C      C also lists A under `after`: no cycle
//     ^                 |
//     +-------c---------+      A reads c: the cycle A, B, C
#pragma once

#include <span>
#include <vector>

#include "model/graph.hpp"

namespace remora {

/// The ops of one cycle, each depending on the one before it and the first on the last; empty if there is none.
/// `producer[t]` is the op that writes tensor t, or none; all ids of `graph` must be in range. O(ops + edges).
std::vector<OpId> find_cycle(const Graph& graph, std::span<const OpId> producer);

}  // namespace remora
