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

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "frontends/generate/keras/layers.hpp"
#include "frontends/generate/option_table.hpp"
#include "model/graph.hpp"

namespace remora::generate {

inline constexpr std::array<std::string_view, 2> kFixedMemoryWords{"none", "parameters"};

struct CheckmateOptions {
  std::string network = "vgg16";
  /// Without it, the published one of the network.
  std::optional<std::int64_t> batch{};
  /// Height and width of the images. Without it the published ones, which need not be equal.
  std::optional<std::int64_t> size{};
  /// "none" as published, or "parameters": those and the gradients of those that are trained.
  std::string fixed_memory = "none";
};

inline constexpr std::array kCheckmateTable{
    word_row<CheckmateOptions>("network", &CheckmateOptions::network, keras::kNetworkNames, "the network"),
    OptionRow<CheckmateOptions>{"batch", &CheckmateOptions::batch, 1, 65'536, "images; without it as published"},
    OptionRow<CheckmateOptions>{"size", &CheckmateOptions::size, 32, 4096,
                                "height and width of the images; without it as published"},
    word_row<CheckmateOptions>("fixed-memory", &CheckmateOptions::fixed_memory, kFixedMemoryWords,
                               "what is always resident")};

/// Throws InputError for an option out of its range, for a size that the network can't halve as often as it must, and
/// where amounts add up to more than 64 bits hold. O(ops log ops).
Graph generate_checkmate(const CheckmateOptions& options);

}  // namespace remora::generate
