// SPDX-License-Identifier: Apache-2.0
//
// A schedule as a TFLite model: the same operators in its order, some of them again or in slices.
//
//     CONV_2D: x -> y in two slices, each of which reads a halo; the next operator reads all of y
//
//     SLICE: x -> x/rows    PAD: x/rows -> x/rows/padded    CONV_2D, VALID: -> y#0
//     the same for y#1      CONCATENATION: y#0, y#1 -> y
//
// What all readers read in the same slices is never put together.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "frontends/tflite/lowering.hpp"
#include "model/sequence.hpp"
#include "model/slices.hpp"

namespace remora::tflite {

/// The model whose operators run in the order of `ops`, which are those of `sliced`: `lowered.graph` in regions of its
/// ops. Names and numbers of the model's inputs and outputs stay; everything else of the file does, too. Throws
/// InputError for what cannot be moved in the file (with_plan), and a model of 2 GiB or more.
std::string rewrite_model(std::string_view bytes, const LoweredModel& lowered, std::span<const Region> regions,
                          const SlicedGraph& sliced, const Sequence& ops);

}  // namespace remora::tflite
