// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "model/graph.hpp"
#include "model/types.hpp"

namespace remora {

/// The graph with its ops in another order: op i is what was op order[i], and everything that names an op names the same
/// one. Tensors stay where they are. `order` holds every op once (else std::logic_error); that it is a topological order
/// is for validate() to say.
Graph reordered(const Graph& graph, std::span<const OpId> order);

/// Of an order of ops: where each op comes in it.
std::vector<OpId> places_in(std::span<const OpId> order);

}  // namespace remora
