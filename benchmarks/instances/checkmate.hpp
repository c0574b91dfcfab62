// SPDX-License-Identifier: Apache-2.0
//
// The training steps that Jain et al. 2020 (Checkmate) measure, rebuilt from their networks at the level of Keras'
// layers (keras/layers.hpp) by Checkmate's rule for backward ops (checkmate.cpp). Ops and edges:
//
//     vgg16  45, 87     mobilenet  185, 367     fcn8    73, 149     unet  71, 148
//     vgg19  51, 99     resnet50   353, 751     segnet  77, 151
//
// Those of vgg16, mobilenet, fcn8 and segnet are the published graphs, op for op; their durations are measured times
// there, but for fcn8. docs/guide/generate.md compares.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "benchmarks/instances/keras/layers.hpp"
#include "model/graph.hpp"

namespace remora::instances {

struct CheckmateOptions {
  std::string network = "vgg16";
  /// From 1 to 65536. Without it, the published one of the network.
  std::optional<std::int64_t> batch{};
  /// Height and width of the images, from 32 to 4096. Without it the published ones, which need not be equal.
  std::optional<std::int64_t> size{};
  /// Whether parameters and the gradients of those that are trained are resident; none are in the published graphs.
  bool parameters = false;
};

/// Throws InputError for an option out of its range, for a size that the network can't halve as often as it must, and
/// where amounts add up to more than 64 bits hold. O(ops log ops).
Graph checkmate(const CheckmateOptions& options);

}  // namespace remora::instances
