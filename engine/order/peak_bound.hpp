// SPDX-License-Identifier: Apache-2.0
//
// A bound below which no order's peak comes, by minimum cuts.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/order/order_problem.hpp"

namespace remora {

// Which nodes to have run so that least is resident.
//
// Let R(S) be what is resident once the nodes of S have run, for S that contain the predecessors of all their nodes
// (down-sets). A node w that runs next needs R(S) + running(w), so a peak is a matter of R alone. R is submodular,
//
//     R(S u T) + R(S n T) <= R(S) + R(T),
//
// because each buffer's share is: 1 if its writer is in S (additive), less 1 if its writer and all its readers are
// (which can only gain by a union). So a smallest R between two down-sets is a minimum cut (Picard 1976): the source's
// side are the nodes that run, uncuttable arcs lead from each to its predecessors,
//
//     writer --size--> (buffer) --uncut--> each reader        the writer ran and some reader did not: pay the size

/// A cut of least capacity between two vertices of a directed graph: Boykov and Kolmogorov's maximum flow, Boost's.
class MinimumCut {
 public:
  static constexpr int kSource = 0;
  static constexpr int kSink = 1;
  /// An arc that is in no minimum cut; sums of the others' capacities must stay below it.
  static constexpr std::int64_t kUncut = std::int64_t{1} << 61U;

  /// A vertex's number: 2, 3, 4 ...
  int add_vertex() { return vertex_count_++; }
  void add_arc(int from, int to, std::int64_t capacity) { arcs_.push_back({from, to, capacity}); }

  /// Finds the cut whose source's side is smallest; its capacity.
  std::int64_t solve();
  /// After solve().
  [[nodiscard]] bool with_source(int vertex) const { return with_source_[vertex]; }

 private:
  struct Arc {
    int from;
    int to;
    std::int64_t capacity;
  };

  /// Arcs between the same vertices as one, and a reverse for each.
  void merge();

  int vertex_count_ = 2;
  std::vector<Arc> arcs_;
  Table<int, bool> with_source_;
};

class LeastResident {
 public:
  explicit LeastResident(const OrderProblem& problem);

  struct Choice {
    /// By how much less is resident than before, zero or less.
    Bytes change{};
    /// The nodes to run, a subset of those that may be, in the same order; as few as possible.
    std::vector<NodeId> nodes{};
  };

  /// `done` (one entry a node) have run, of `free` any down-set may run, nothing else. Both `done` and the union are
  /// down-sets. Time: that of a maximum flow on as many vertices as there are free nodes and buffers they touch.
  Choice find(const Table<NodeId, bool>& done, std::span<const NodeId> free);

 private:
  struct Uses;

  const OrderProblem& problem_;
  /// Vertex of each free node, 0 for others.
  Table<NodeId, int> vertices_;
  /// The call that last met each buffer.
  Table<BufferId, std::int64_t> met_;
  std::int64_t call_ = 0;
};

struct PeakBoundSettings {
  /// A bound this high is enough.
  Bytes enough = Bytes::max();
  /// Nodes looked at and nodes in the networks that are cut, summed.
  std::int64_t work_limit = INT64_MAX;
  /// Asked before each cut; may be empty.
  std::function<bool()> interrupted{};
};

struct PeakBound {
  /// No order's peak is lower.
  Bytes bytes{};
  std::int64_t work = 0;
};

/// For each node, the least that can be resident when it starts: its ancestors have run, its descendants have not, and
/// the others as serves best (engine/order/peak_bound.hpp). The largest of it, with what the node itself needs, is
/// a bound. Nodes are asked in the order of their memory in `known`, any valid order, largest first; those whose memory
/// there is within the bound already cannot raise it. So the bound is at most the known order's peak. Stopped early it
/// is lower, but still a bound; never below what the largest node needs for itself.
PeakBound peak_bound(const OrderProblem& problem, std::span<const NodeId> known, const PeakBoundSettings& settings);

/// Maximum over nodes of their own needs: base memory, inputs, outputs and workspace.
Bytes largest_footprint(const OrderProblem& problem);

}  // namespace remora
