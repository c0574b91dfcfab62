// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace remora {

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
  [[nodiscard]] bool with_source(int vertex) const { return with_source_[static_cast<std::size_t>(vertex)]; }

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
  std::vector<bool> with_source_;
};

}  // namespace remora
