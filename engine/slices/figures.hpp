// SPDX-License-Identifier: Apache-2.0
//
// What a graph in slices needs, before any search.
//
//     bound  max over ops of what must be resident while the op runs   ----.
//     peak   of the input order without recomputation                       >  of the sliced graph, in this order
//     time   of all ops once                                           ----'
#pragma once

#include "model/graph.hpp"
#include "model/slices.hpp"
#include "model/table.hpp"
#include "model/types.hpp"

namespace remora {

/// Figures of a graph before any search.
struct SlicingFigures {
  /// No schedule of the graph has a lower peak.
  Bytes lower_bound{};
  /// The peak of the input order without recomputation.
  Bytes peak{};
  Duration duration{};

  friend bool operator==(const SlicingFigures&, const SlicingFigures&) = default;
};

/// The figures of a graph that is sound.
SlicingFigures figures_of(const Graph& graph);

/// Memory by op of the graph that was sliced: of its slices that which needs most.
struct OpNeeds {
  /// While the op runs, in any schedule.
  Table<OpId, Bytes> alone{};
  /// At its step of the input order without recomputation.
  Table<OpId, Bytes> in_order{};
};

struct SlicedNeeds {
  SlicingFigures figures{};
  OpNeeds needs{};
};

/// The same of a graph of so many ops in slices.
SlicedNeeds needs_of(std::size_t ops, const SlicedGraph& sliced);

/// Memory that no slices save: what is always resident, and what must be kept.
Bytes unavoidable_memory(const Graph& graph);

/// True if a graph with figures a is clearly nearer to the budget than one with b: by the bound or, where that is the
/// same, by the peak. Clearly: by a hundredth of the bytes in question.
bool is_nearer(const SlicingFigures& a, const SlicingFigures& b, Bytes budget);

/// The same, or as near and shorter.
bool is_better(const SlicingFigures& a, const SlicingFigures& b, Bytes budget);

/// The distance from a budget: first what no schedule can help, then what a recomputation might.
struct Distance {
  Bytes bound{};
  Bytes peak{};
};

Distance distance(const SlicingFigures& figures, Bytes budget);

}  // namespace remora
