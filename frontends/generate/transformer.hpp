// SPDX-License-Identifier: Apache-2.0
//
// The training step of a decoder-only transformer (Radford et al. 2019) of L layers, without dropout and last norm:
//
//     tokens -> embed -> layer1 -> ... -> layerL -> head -> loss
//
//     attention:  x -> norm1 -> qkv -> scores -> softmax -> context -> project -> add1    and qkv -> context, x -> add1
//     MLP:        y -> norm2 -> expand -> gelu -> shrink -> add2                          and y -> add2
//
// With k = 4 batch sequence bytes for the tokens, t = k width for a layer's input, a = k heads sequence for the
// attention weights and v = k vocabulary for the prediction:
//
//     ops            24 L + 6
//     tensors        27 L + 7, one of them empty
//     bytes          L (41 t + 4 a) + 2 t + 2 v + k + 4
//
// A backward op reads its forward op's inputs, that of softmax its output, those of sums neither (training_step.hpp).
#pragma once

#include <array>
#include <cstdint>

#include "frontends/generate/option_table.hpp"
#include "model/graph.hpp"

namespace remora::generate {

struct TransformerOptions {
  std::int64_t layers = 4;
  std::int64_t batch = 4;
  std::int64_t sequence = 128;
  std::int64_t width = 256;
  std::int64_t heads = 8;
  std::int64_t vocabulary = 1000;
};

inline constexpr std::array kTransformerTable{
    OptionRow<TransformerOptions>{"layers", &TransformerOptions::layers, 1, 4096, "layers of attention and MLP"},
    OptionRow<TransformerOptions>{"batch", &TransformerOptions::batch, 1, 4096, "samples"},
    OptionRow<TransformerOptions>{"sequence", &TransformerOptions::sequence, 1, 16'384, "tokens a sample"},
    OptionRow<TransformerOptions>{"width", &TransformerOptions::width, 1, 16'384, "values a token"},
    OptionRow<TransformerOptions>{"heads", &TransformerOptions::heads, 1, 128, "attention heads, a divisor of width"},
    OptionRow<TransformerOptions>{"vocabulary", &TransformerOptions::vocabulary, 1, 262'144, "words to predict"}};

/// Throws InputError for an option out of its range, where the heads don't divide the width, and where amounts add up
/// to more than 64 bits hold. O(layers).
Graph generate_transformer(const TransformerOptions& options);

}  // namespace remora::generate
