// SPDX-License-Identifier: Apache-2.0
//
// The truth about small problems, by brute force.
//
// A shortest path over states (how often each op ran and what that weighs, which tensors are resident and by which
// mode; in the staged form also which stage it is and which op ran last in it): a move computes an op by the rules of
// remora-schedule 1, or releases one resident tensor. A compute whose mode has inner peaks may also release inputs
// inside. It knows nothing of retention intervals, of the evaluator, or of the search: it decides releases by trying
// them all.
#pragma once

#include <optional>

#include "model/instance.hpp"
#include "model/types.hpp"

namespace remora::test {

/// The least duration of a schedule of the stated problem (order mode, budget, max_computes) and its modes; nothing
/// if there is none. For graphs of up to 8 ops and 16 tensors, 3 computes an op, 3 modes and weights
/// of 5.
std::optional<Duration> optimum(const Instance& instance);

}  // namespace remora::test
