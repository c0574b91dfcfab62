// SPDX-License-Identifier: Apache-2.0
//
// The truth about small graphs, by brute force.
//
// A shortest path over states (which stage, which op ran last in it, which tensors are resident, how often each op
// ran): a move computes an op by the rules of remora-schedule 1, or releases one resident tensor. It knows nothing of
// retention intervals, of the evaluator, or of the search: it decides releases by trying them all.
#pragma once

#include <optional>

#include "model/graph.hpp"
#include "model/types.hpp"

namespace remora::test {

/// The least duration of a schedule of the staged form within the budget, every op running at most `max_computes`
/// times; nothing if there is none. For graphs of up to 8 ops and 16 tensors.
std::optional<Duration> staged_optimum(const Graph& graph, Bytes budget, int max_computes);

}  // namespace remora::test
