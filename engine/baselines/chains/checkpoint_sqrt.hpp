// SPDX-License-Identifier: Apache-2.0
//
// Checkpointing in segments (Chen et al. 2016, section 4): keep what later segments read, drop the rest of every
// segment but the last, and compute it once more right before its backward ops. With n equal ops and sqrt(n) segments
// memory grows like sqrt(n), for one more forward part at most.
//
//     forward   [ . . K ][ . . K ][ . . . ]    K kept at the cut
//     backward  of the last segment, recompute, of the second, recompute, of the first
//
// Where a segment may end, as Jain et al. 2020, section 6, generalise it to graphs: at 1-separators, where one op's
// outputs are all that later ops need ("AP sqrt(n)"), or anywhere ("linearized sqrt(n)"; there, everything that crosses
// the cut is kept). Ops that may not run again keep their outputs.
#pragma once

#include <span>
#include <vector>

#include "engine/base/method.hpp"
#include "model/instance.hpp"
#include "model/sequence.hpp"

namespace remora {

/// The plan of one segmentation of the first `forward` ops: segments end with the ops `cuts`, ascending, and with the
/// last forward op. Every op at most once. O(ops + edges), and those of evaluate_plan.
RecomputePlan checkpoint_plan(const Instance& instance, int forward, std::span<const OpId> cuts);

/// Segmentations to try, each as its cuts: from 2 segments to as many as there are places, in steps of a tenth or so,
/// with equal numbers of places a segment and with equal numbers of bytes (Chen et al. 2016, algorithm 3).
std::vector<std::vector<OpId>> segmentations(const Instance& instance, int forward, std::span<const OpId> places);

/// The shortest plan within the budget, of all segmentations at 1-separators and anywhere, otherwise the one with the
/// lowest peak. No sequence, and a note, for graphs without phases. O(log(n)) evaluations.
MethodResult run_checkpoint_sqrt(const MethodInput& input);

}  // namespace remora
