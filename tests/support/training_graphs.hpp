// SPDX-License-Identifier: Apache-2.0
//
// Small training steps (training_step.hpp) whose numbers of ops, tensors and bytes follow a formula, so that a test can
// know what to expect. Real architectures: examples/zoo.
#pragma once

#include <cstdint>

#include "model/graph.hpp"

namespace remora::test {

struct ChainOptions {
  std::int64_t layers = 8;
  std::int64_t batch = 16;
  std::int64_t channels = 256;
};

/// The training step of a chain of L equal linear layers, the graph on which checkpointing began:
///
///     batch -> linear1 -> linear2 -> ... -> linearL -> loss
///
/// With s = 4 batch channels bytes, the size of every value but the loss:
///
///     ops            2 L + 2
///     tensors        2 L + 3, one of them empty
///     bytes          (2 L + 1) s + 4
///     fixed memory   8 L channels (channels + 1): weights, biases and their gradients
///
/// The backward op of a layer reads the layer's input (training_step.hpp).
Graph generate_chain(const ChainOptions& options);

struct UnetOptions {
  std::int64_t levels = 4;
  std::int64_t batch = 4;
  std::int64_t channels = 16;
  std::int64_t size = 128;
};

/// The training step of a small U-Net (Ronneberger et al. 2015), one convolution where the paper has two:
///
///     conv1 ------------------------------> concat1 -> decode1 -> head -> loss
///       `-> pool1 -> conv2 ------> concat2 -> decode2 -> up1 -'
///                      `-> pool2 -> bottom -> up2 -'
///
/// Level l of L has channels 2^(l-1) channels and images of size / 2^(l-1) pixels a side; image and prediction have one
/// channel. With b = 4 batch size^2 bytes for these, s = b channels for what level 1 computes and t = s / 2^(L-1) for
/// what level L does:
///
///     ops       10 (L - 1) + 6
///     tensors   11 (L - 1) + 7, one of them empty
///     bytes     23 s - 21 t + 3 b + 4
///
/// A 3x3 convolution includes its ReLU: its backward op reads input and output, as that of pooling does; concatenation
/// reads nothing, up and head, without ReLU, their input (training_step.hpp). `remora_zoo unet` is the published one.
Graph generate_unet(const UnetOptions& options);

struct TransformerOptions {
  std::int64_t layers = 4;
  std::int64_t batch = 4;
  std::int64_t sequence = 128;
  std::int64_t width = 256;
  std::int64_t heads = 8;
  std::int64_t vocabulary = 1000;
};

/// The training step of a decoder-only transformer (Radford et al. 2019) of L layers, without dropout and last norm:
///
///     tokens -> embed -> layer1 -> ... -> layerL -> head -> loss
///
///     attention:  x -> norm1 -> qkv -> scores -> softmax -> context -> project -> add1    and qkv -> context, x -> add1
///     MLP:        y -> norm2 -> expand -> gelu -> shrink -> add2                          and y -> add2
///
/// With k = 4 batch sequence bytes for the tokens, t = k width for a layer's input, a = k heads sequence for the
/// attention weights and v = k vocabulary for the prediction:
///
///     ops            24 L + 6
///     tensors        27 L + 7, one of them empty
///     bytes          L (41 t + 4 a) + 2 t + 2 v + k + 4
///
/// A backward op reads its forward op's inputs, that of softmax its output, those of sums neither (training_step.hpp).
Graph generate_transformer(const TransformerOptions& options);

}  // namespace remora::test
