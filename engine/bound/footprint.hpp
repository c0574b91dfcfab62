// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "model/instance.hpp"
#include "model/schedule.hpp"

namespace remora {

/// The smallest budget that any schedule, of whatever order, could hold: while an op runs its inputs, outputs and
/// workspace are resident beside fixed memory and the graph's inputs; at the end, so are all tensors that must be kept.
Bytes least_budget(const Instance& instance);

/// The op of the largest footprint, if that exceeds the budget, or the last op and the tensors that must be kept after
/// it, if those do: an exact proof that no schedule holds the budget. Nothing for a graph without ops. O(edges).
std::optional<Certificate> footprint_certificate(const Instance& instance);

}  // namespace remora
