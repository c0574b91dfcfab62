// SPDX-License-Identifier: Apache-2.0
//
// TWRemat(k) of Kumar et al. 2019, algorithm 1 and section 4.3: to compute some ops of a part, goes through the ops of
// its separator in topological order, before each lets the parts below compute what it reads there, keeps the separator
// and forgets the rest; at last lets the parts below compute what else is wanted. Parts of fewer than k bags are not
// separated further: their ops run in topological order.
//
//     f1 f2 f3 f4 b4 b3 b2 b1, bi reads fi; separator {f2, b3}
//     f1 f2  f3 f4 b4 (f3) b3  b2 (f1) b1                          in brackets: forgotten, computed again
//
// Where we differ from the paper's text:
//   - A call computes only what leads to what it is asked for; the paper would compute every op of the separator.
//   - Several ops are wanted at the end, not one: those that nothing depends on and those with an output to keep. Every
//     op leads to one of them, so that every op is computed.
//   - `after` dependencies are edges too, but bind only until the op they name has run once.
// Nothing is freed here; that is evaluate's business, whose rule frees all that the paper's annotations free.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/baselines/twremat/separator_tree.hpp"
#include "model/instance.hpp"

namespace remora {

/// For each op the producers of its inputs and its `after` ops, both ways: the graph that is decomposed.
Neighbours dependency_graph(const Instance& instance);

/// The sequence for a recursion limit; nothing if it is longer than `most_times` the graph itself, in steps or in
/// duration; at most kComputesWithin64Bits. Every op runs at least once, after its
/// inputs and its `after` ops; how often each may run is not looked at. The tree is one of `dependency_graph`.
/// O(steps * inputs * depth of the tree).
std::optional<std::vector<OpId>> separator_schedule(const Instance& instance, const SeparatorTree& tree, int limit,
                                                    std::int64_t most_times);

}  // namespace remora
