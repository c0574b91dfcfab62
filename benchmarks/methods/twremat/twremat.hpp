// SPDX-License-Identifier: Apache-2.0
//
// TWRemat (Kumar et al. 2019): a schedule by separators of a tree decomposition, trimmed to what it needs.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "benchmarks/methods/twremat/tree_decomposition.hpp"
#include "engine/base/method.hpp"
#include "model/instance.hpp"
#include "model/table.hpp"

namespace remora {

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

/// The recursion of Kumar et al. 2019, algorithm 1, laid out once: which bag separates each part of the tree
/// decomposition, and which parts are left without it. It depends neither on what a call is asked to compute nor on
/// where the recursion stops, so all calls and all recursion limits share it (theorem 5: "memoize these separators").
///
///     bags     1 - 2 - 3 - 4 - 5 - 6 - 7        4 leaves two parts of at most half the bags (lemma 3), and so on
///
///     parts             4                       A part's separator are the nodes of its bag that no part above has;
///                  .----'----.                  so each node has one part, its home, and the nodes of a part are
///                  2         6                  those at home in it and below it. Parts are numbered in preorder:
///                .-'-.     .-'-.                below part i are i + 1 up to its end.
///                1   3     5   7
class SeparatorTree {
 public:
  struct Part {
    /// How many bags the part has, those included that are empty without the separators above.
    int bags = 0;
    /// One beyond the last part below.
    int end = 0;
    /// Ascending; those without nodes of their own are left out.
    std::vector<int> children{};
    /// Ascending.
    std::vector<int> separator{};
  };

  /// The decomposition of a graph of so many nodes. O(bags * width * log bags).
  SeparatorTree(const TreeDecomposition& decomposition, int nodes);

  /// Part 0 is the whole; there is none for a graph without nodes.
  [[nodiscard]] const std::vector<Part>& parts() const { return parts_; }
  [[nodiscard]] const Part& part(int index) const { return parts_[at(index)]; }
  [[nodiscard]] int home(int node) const { return homes_[at(node)]; }
  [[nodiscard]] bool contains(int index, int node) const { return index <= home(node) && home(node) < part(index).end; }
  /// The child of a part that contains the node, which must be in the part and not in its separator.
  [[nodiscard]] int child_with(int index, int node) const;

 private:
  std::vector<Part> parts_;
  std::vector<int> homes_;
};

/// For each op the producers of its inputs and its `after` ops, both ways: the graph that is decomposed.
Neighbours dependency_graph(const Instance& instance);

/// The sequence for a recursion limit; nothing if it is longer than `most_times` the graph itself, in steps or in
/// duration; at most kComputesWithin64Bits. Every op runs at least once, after its
/// inputs and its `after` ops; how often each may run is not looked at. The tree is one of `dependency_graph`.
/// O(steps * inputs * depth of the tree).
std::optional<Sequence> separator_schedule(const Instance& instance, const SeparatorTree& tree, int limit,
                                           std::int64_t most_times);

// TWRemat (Kumar et al. 2019): schedules of any order from a tree decomposition of the graph. Small treewidth makes
// small separators, around which the graph is computed piece by piece and again; with n ops of unit size and width w
// memory is O(w log n), where it is O(n) without recompute.
//
// The recursion limit k (section 4.3) is swept, from the whole graph in its input order (k large) down to k = 1: by
// factors of two, then more finely around the best. Each sequence is brought within the limits of computes, and if it
// holds the budget, the recomputes that the budget does not need go. The shortest that holds it is the answer, and if
// none does, the one of the least peak. Everything else is said where it is done (files of this folder).

/// Proves nothing. The note names k and the width. Where the order is the input's, only sequences of it count.
/// At the deadline the best so far is the answer, at least the input order.
MethodResult run_twremat(const MethodInput& input);

}  // namespace remora
