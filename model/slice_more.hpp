// SPDX-License-Identifier: Apache-2.0
//
// A graph in slices, region by region: each state between them can be looked at.
//
//     SlicedGraph made = slice(graph, std::span<const Region>());
//     for (const Region& region : regions) made = slice_more(graph, made, region);    the same as slice(graph, regions)
#pragma once

#include "model/graph.hpp"
#include "model/slices.hpp"

namespace remora {

/// One more region of `graph`, of which earlier ones have made `made`. Throws InputError as `slice` of one region does.
SlicedGraph slice_more(const Graph& graph, const SlicedGraph& made, const Region& region, const SliceRun& run = {});

}  // namespace remora
