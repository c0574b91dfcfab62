// SPDX-License-Identifier: Apache-2.0
//
// From a forward network to one training step: a loss, then for every forward node its backward node.
//
// Each differentiable forward value gets one gradient value; where several consumers contribute, their contributions
// are summed by an explicit node. What a backward node reads besides the output's gradient is a rule of its op type
// (training_rules.hpp): the backward of Relu needs the output only, of Conv the input and the weights, of MaxPool input
// and output, of Add nothing.
#pragma once

#include "frontends/onnx/model/network.hpp"

namespace remora::onnx_frontend {

enum class BackwardRule {
  precise,    ///< what the gradient formula of each op really reads
  checkmate,  ///< Jain et al. 2020: grad(u) reads u, the consumers of u and their gradients; twice the forward duration
};

enum class ParameterGradients {
  fixed,  ///< counted under fixed memory, as Checkmate does
  keep,   ///< tensors of their own that stay to the end
};

struct TrainingOptions {
  BackwardRule backward = BackwardRule::precise;
  ParameterGradients gradients = ParameterGradients::fixed;
};

/// `forward` with loss and backward nodes appended: phases and `backward_of` are set. A forward output stays no output
/// of the training step: what must stay is the loss (a scalar) and, where they are values, the parameter gradients.
/// A network without trainable parameters is differentiated for its floating-point inputs, whose gradients stay.
///
/// Backward nodes carry what the cost model has to know: under `precise` the attribute "gradient_of", the positions of
/// the forward node's inputs whose gradients the node computes, whether or not they are outputs of it (parameter
/// gradients under `fixed` aren't); under `checkmate` the attribute "duration_factor", 2. A node without other outputs
/// has a token, an output value of shape {0}. The backward of a view is a view.
///
/// An op type without a rule gets the conservative
/// default (its backward reads all its inputs and outputs) and a line in `warnings`.
/// Throws InputError if no output of the network depends on a trainable parameter or a floating-point input.
Network differentiate(Network forward, const TrainingOptions& options);

}  // namespace remora::onnx_frontend
