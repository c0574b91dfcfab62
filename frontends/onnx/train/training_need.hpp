// SPDX-License-Identifier: Apache-2.0
//
// Which values need a gradient, and for which leaves.
//
// A leaf is what the training step differentiates with respect to: the trainable parameters. A network without any
// (all its weights are constants) is differentiated with respect to its floating-point inputs instead. A value needs a
// gradient if a leaf reaches it through differentiable inputs of nodes.
//
// Parameters may be computed from others before the schedule starts (a transposed weight). Such a derived parameter has
// no gradient of its own: what its consumers contribute goes to the leaves that it is made of, so a weight that is used
// both as it is and transposed still has one gradient.
#pragma once

#include <vector>

#include "frontends/onnx/model/network.hpp"
#include "frontends/onnx/train/training_rules.hpp"

namespace remora::onnx_frontend {

class GradientNeed {
 public:
  enum class Leaves { trainable_parameters, floating_inputs };

  /// O(nodes + edges), and the leaves of each derived parameter.
  GradientNeed(const Network& network, const RuleTable& rules, Leaves leaves);

  [[nodiscard]] bool needs_gradient(ValueId value) const { return !targets_[value].empty(); }

  /// The values that a contribution to the gradient of `value` goes to: itself, or the leaves of a derived parameter.
  /// Empty if it needs no gradient.
  [[nodiscard]] const std::vector<ValueId>& targets(ValueId value) const { return targets_[value]; }

  /// The positions of the node's inputs that its backward computes gradients of, ascending.
  [[nodiscard]] Positions wanted_inputs(const Node& node, const Rule& rule) const;

 private:
  [[nodiscard]] std::vector<ValueId> leaves_of(const Node& node, const Positions& wanted) const;
  void propagate(const Network& network, const Node& node, const Rule& rule);

  std::vector<std::vector<ValueId>> targets_{};
};

}  // namespace remora::onnx_frontend
