// SPDX-License-Identifier: Apache-2.0
//
// Which ops to compute in slices: regions, axes and numbers (docs/design/slices.md).
//
// Greedy, driven by the peak. The seed is the op that sets the lower bound on the minimum budget or, if that is
// within the budget, the op at the peak of the input order. A region grows from it over large tensors on which
// neighbors agree. Candidates differ in the seed's axis and in the number of slices. The best one is kept if it brings
// the graph nearer to the budget; then again. How small the tensors are over which regions grow is the reach: each is
// tried by itself, since a short one cuts a loss alone and a long one a whole step, and only a search can say what is
// better.
//
//     bound  max over ops of what must be resident while the op runs   ----.
//     peak   of the input order without recomputation                       >  of the sliced graph, in this order
//     time   of all ops once                                           ----'
#pragma once

#include <array>
#include <span>
#include <vector>

#include "engine/base/allowance.hpp"
#include "engine/slices/request.hpp"
#include "model/graph.hpp"
#include "model/schedule.hpp"
#include "model/slices.hpp"
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

struct Slicing {
  /// Without a common op, in the order in which they were chosen; ops and axes are those of the original graph.
  std::vector<Region> regions{};
  SlicedGraph sliced{};
  SlicingFigures figures{};
};

/// The figures of a graph that is sound.
SlicingFigures figures_of(Graph graph);

/// The slices that were found for the budget, the nearest to it first, and the shortest of those as near; 0 asks for
/// the smallest budget. At least one, and one without regions only where nothing else brings the graph nearer. The
/// graph must be sound. Ends when the allowance is over; a graph that is rewritten and looked at counts as a unit of
/// work for each thousand of its ops.
std::vector<Slicing> choose_slices(const Graph& graph, Bytes budget, const SliceRun& run, Allowance& allowance);

/// The regions that a user names. One that grows from an op has the axis, where none is given, and the reach that bring
/// the graph nearest to the budget; 0 asks for the smallest budget. Throws InputError, placed at the option "slices",
/// for an unknown op or axis, an op that is in two regions, and for slices that would not be independent.
Slicing slice_as_asked(const Graph& graph, std::span<const RegionRequest> asked, Bytes budget, const SliceRun& run);

/// The regions by names, with their effects.
std::vector<NamedRegion> with_effects(const Graph& graph, const std::vector<Region>& regions, const SliceRun& run);

/// True if a graph with figures a is clearly nearer to the budget than one with b, or as near and shorter.
bool is_better(const SlicingFigures& a, const SlicingFigures& b, Bytes budget);

/// Regions reach over tensors down to these parts of the largest one of their seed.
inline constexpr std::array<int, 6> kReaches = {1, 4, 16, 64, 256, 1024};

/// The largest tensor that the op reads or writes.
Bytes largest_tensor(const Graph& graph, OpId op);

}  // namespace remora
