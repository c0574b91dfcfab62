// SPDX-License-Identifier: Apache-2.0
//
// Slices as a user asks for them.
//
//     auto                    regions, axes and numbers are chosen
//     loss=8@0                8 slices along axis 0 of the op 'loss', whose region grows from it
//     mm,softmax,loss=8@0     these ops, and axis 0 of the first
//     mm,=8                   this op alone, along the best of its axes
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/api.hpp"
#include "model/slices.hpp"

namespace remora {

/// A region by its ops.
struct RegionRequest {
  /// The name of an op, from which the region grows over large tensors as far as that brings the graph nearer to the
  /// budget; or, separated or ended by commas, the names of all ops of the region.
  std::string ops{};
  int slices = 2;
  /// The number of the first op's axis; none: the one that brings the graph nearest to the budget.
  std::optional<int> axis{};
};

struct SliceRequest {
  bool is_allowed = false;
  /// None: chosen, and only where they shorten the schedule or make it possible.
  std::vector<RegionRequest> regions{};
  SliceRun run{};

  /// True if the engine chooses.
  [[nodiscard]] bool is_automatic() const { return is_allowed && regions.empty(); }
};

/// The request in words: "none", "auto", or regions as above; no words are "none". Throws InputError, placed at the
/// option "slices", for what is none of these, and for a number of slices that is not from 2 to kMaxSlices.
REMORA_API SliceRequest slices_asked(std::span<const std::string> words);

}  // namespace remora
