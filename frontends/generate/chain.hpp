// SPDX-License-Identifier: Apache-2.0
//
// The training step of a chain of L equal linear layers, the graph on which checkpointing began:
//
//     batch -> linear1 -> linear2 -> ... -> linearL -> loss
//
// With s = 4 batch channels bytes, the size of every value but the loss:
//
//     ops            2 L + 2
//     tensors        2 L + 3, one of them empty
//     bytes          (2 L + 1) s + 4
//     fixed memory   8 L channels (channels + 1): weights, biases and their gradients
//
// The backward op of a layer reads the layer's input (training_step.hpp).
#pragma once

#include <array>
#include <cstdint>

#include "frontends/generate/option_table.hpp"
#include "model/graph.hpp"

namespace remora::generate {

struct ChainOptions {
  std::int64_t layers = 8;
  std::int64_t batch = 16;
  std::int64_t channels = 256;
};

inline constexpr std::array kChainTable{
    OptionRow<ChainOptions>{"layers", &ChainOptions::layers, 1, 100'000, "linear layers"},
    OptionRow<ChainOptions>{"batch", &ChainOptions::batch, 1, 65'536, "samples"},
    OptionRow<ChainOptions>{"channels", &ChainOptions::channels, 1, 65'536, "values a sample, of every layer"}};

/// Throws InputError for an option out of its range, and where amounts add up to more than 64 bits hold. O(layers).
Graph generate_chain(const ChainOptions& options);

}  // namespace remora::generate
