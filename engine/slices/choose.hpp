// SPDX-License-Identifier: Apache-2.0
//
// Which ops to compute in slices: regions, axes and numbers (docs/design/slices.md).
//
// Greedy, by what ops need: first alone, in any schedule, then at their step of the input order.
//
//     for each level     the budget, and a quarter less than before until an op cannot follow
//       for each seed    the op that needs most, as long as that is above the level
//         a region grows from it, and from ops like it above the level, over large tensors on which neighbors agree,
//         along the axis and in the fewest slices that leave least above the level
//     fewer slices       of each region, as far as others set the figures
//
// So equal layers are cut together, since the first alone brings nothing, and unlike ones in regions with numbers of
// their own. Where ops need less than the budget alone, more is resident beside them that is recomputed otherwise: so
// levels below it give candidates, too. How small the tensors are over which regions grow is the reach: each is tried
// by itself, since a short one cuts a loss alone and a long one a whole step, and only a search can say what is better.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "engine/base/allowance.hpp"
#include "engine/slices/figures.hpp"
#include "engine/slices/request.hpp"
#include "model/graph.hpp"
#include "model/schedule.hpp"
#include "model/slices.hpp"
#include "model/types.hpp"

namespace remora {

struct Slicing {
  /// Without a common op, in the order in which they were chosen; ops and axes are those of the original graph.
  std::vector<Region> regions{};
  std::shared_ptr<const SlicedGraph> sliced{};
  SlicingFigures figures{};
  /// Others of the same reach. For the smallest budget those on the way here, the nearest first. For another one, with
  /// a bound within it: with fewer slices each, and those in which ops need less of it alone.
  std::vector<Slicing> others{};

  [[nodiscard]] std::shared_ptr<const Graph> graph() const { return {sliced, &sliced->graph}; }
};

/// The slices that were found for the budget, the nearest to it first, and the shortest of those as near; 0 asks for
/// the smallest budget. At least one, and one without regions only where nothing else brings the graph nearer. The
/// graph must be sound. Ends when the allowance is over; a graph that is rewritten and looked at counts as a unit of
/// work for each thousand of its ops.
std::vector<Slicing> choose_slices(const Graph& graph, Bytes budget, const SliceRun& run, Allowance& allowance);

/// The slicings and their others, each once and without others, as far as they have regions.
std::vector<Slicing> all_of(std::vector<Slicing> found);

/// The regions that a user names. One that grows from an op has the axis, where none is given, and the reach that bring
/// the graph nearest to the budget; 0 asks for the smallest budget. Throws InputError, placed at the option "slices",
/// for an unknown op or axis, an op that is in two regions, and for slices that would not be independent.
Slicing slice_as_asked(const Graph& graph, std::span<const RegionRequest> asked, Bytes budget, const SliceRun& run);

struct RegionsWithEffects {
  std::vector<NamedRegion> regions{};
  SlicedGraph sliced{};
};

/// The regions by names, with their effects, and the graph in them. Throws as slice() of several regions.
RegionsWithEffects with_effects(const Graph& graph, const std::vector<Region>& regions, const SliceRun& run);

/// Regions reach over tensors down to these parts of the largest one of their seed: the last over a number for each
/// row, such as the maximum over the words of a vocabulary, without which a loss falls into several parts.
inline constexpr std::array<int, 8> kReaches = {1, 2, 4, 16, 64, 256, 1024, 1 << 18};

/// The largest tensor that the op reads or writes.
Bytes largest_tensor(const Graph& graph, OpId op);

}  // namespace remora
