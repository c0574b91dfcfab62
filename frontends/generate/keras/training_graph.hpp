// SPDX-License-Identifier: Apache-2.0
//
// The training step of a network of layers by the rule of Jain et al. 2020 (Checkmate), as its published graphs have
// it: an op for each layer, in Keras' order, then the loss, then a backward op for each layer, in reverse. The backward
// op of layer u makes the gradient of u's output, as large as this, and reads
//
//     u's output,  the outputs of the layers that read u,  the gradients of their outputs
//
//     a -> b -> loss        b/backward reads b and the loss;  a/backward reads a, b and the gradient of b
//
// and takes twice as many operations as u. The loss reads the last layer's output, is one value an image, takes no
// operations and has no backward op. The image is no tensor. Nothing is `keep`. So a network of L layers with E edges
// between them has 2 L + 1 ops and 3 E + L + 2 edges.
//
// It is not the rule of `--training`, where a backward op reads what its layer's kind demands and writes the
// gradients of the layer's inputs; frontends/onnx/train/training_checkmate.cpp applies the rule to ONNX models.
#pragma once

#include <cstdint>

#include "frontends/generate/keras/layers.hpp"
#include "model/graph.hpp"

namespace remora::generate::keras {

/// What counts as fixed memory: nothing, as in the published graphs, or the parameters and the gradients of those that
/// are trained.
enum class FixedMemory { none, parameters };

/// The training step with `batch` images and values of 4 bytes. Throws InputError where sizes or durations add up to
/// more than 64 bits hold (model/graph.hpp); each by itself must not. O(layers log layers + edges).
Graph training_graph(const LayerGraph& layers, std::int64_t batch, FixedMemory fixed);

}  // namespace remora::generate::keras
