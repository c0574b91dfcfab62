// SPDX-License-Identifier: Apache-2.0
//
// A graph in slices, region by region: each state between them can be looked at.
//
//     SlicedGraph made = slice(graph, std::span<const Region>());
//     for (const Region& region : regions) made = slice_more(graph, made, region);    the same as slice(graph, regions)
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "model/graph.hpp"
#include "model/slices.hpp"

namespace remora {

/// value / unit, rounded up, of a value that is not negative.
template <class Value>
constexpr Value quotient_up(Value value, Value unit) {
  return value / unit + (value % unit > 0 ? 1 : 0);
}

/// As slice() of several regions; `look` sees the graph after each of them.
SlicedGraph slice_each(const Graph& graph, std::span<const Region> regions, const SliceRun& run,
                       const std::function<void(std::size_t, const SlicedGraph&)>& look);

/// One more region of `graph`, of which earlier ones have made `made`. Throws InputError as `slice` of one region does.
SlicedGraph slice_more(const Graph& graph, const SlicedGraph& made, const Region& region, const SliceRun& run = {});

}  // namespace remora
