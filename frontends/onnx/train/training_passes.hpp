// SPDX-License-Identifier: Apache-2.0
//
// The two ways to derive the backward pass, and what they share.
#pragma once

#include <cstddef>
#include <vector>

#include "frontends/onnx/model/network.hpp"
#include "frontends/onnx/train/training.hpp"
#include "frontends/onnx/train/training_gradients.hpp"
#include "frontends/onnx/train/training_need.hpp"
#include "frontends/onnx/train/training_rules.hpp"

namespace remora::onnx_frontend {

/// The forward network with its loss, and what is known of it before the backward pass is derived.
struct TrainingStep {
  Network& network;
  const RuleTable& rules;
  const GradientNeed& need;
  GradientLedger& ledger;
  /// The number of forward nodes; the loss is the node after them.
  std::size_t forward_nodes = 0;
  /// The network's floating-point outputs that need a gradient.
  std::vector<ValueId> predictions{};
  NodeId loss{};
};

/// BackwardRule::precise: appends LossGrad and, in reverse topological order, the backward node of each forward node
/// that passes a gradient on. O(nodes + edges) map operations.
void append_precise_backward(TrainingStep& step);

/// BackwardRule::checkmate: see training_checkmate.cpp.
void append_checkmate_backward(TrainingStep& step);

}  // namespace remora::onnx_frontend
