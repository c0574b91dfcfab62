// SPDX-License-Identifier: Apache-2.0
//
// Which recomputes of a sequence to do without.
#pragma once

#include "engine/base/deadline.hpp"
#include "engine/baselines/twremat/trimmed_sequence.hpp"

namespace remora {

/// Takes out recomputes of the ops that run more often than the instance allows, first those that add least to memory
/// (bytes times steps). Afterwards all ops keep their limits; memory may be more. O(computes log^2 computes).
void remove_beyond_limits(TrimmedSequence& sequence);

/// Takes out the recomputes without which memory holds the instance's budget, the dearest first, then the earliest;
/// goes through them again while that takes out any, a few times. The sequence must hold the budget, and does
/// afterwards; the duration never grows. Ends where it is at the deadline. O(steps * tensors of an op * log steps).
void remove_unneeded(TrimmedSequence& sequence, const Deadline& deadline);

}  // namespace remora
