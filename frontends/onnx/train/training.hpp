// SPDX-License-Identifier: Apache-2.0
//
// From a forward network to one training step: a loss, then for every forward node its backward node.
//
// Each differentiable forward value gets one gradient value; where several consumers contribute, their contributions
// are summed by an explicit node. What a backward node reads besides the output's gradient is a rule of its op type
// (training_rules.hpp): the backward of Relu needs the output only, of Conv the input and the weights, of MaxPool input
// and output, of Add nothing.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "frontends/onnx/model/network.hpp"
#include "frontends/onnx/train/training_rules.hpp"

namespace remora::onnx_frontend {

enum class BackwardRule {
  precise,    ///< what the gradient formula of each op really reads
  checkmate,  ///< Jain et al. 2020: grad(u) reads u, the consumers of u and their gradients; twice the forward duration
};

enum class ParameterGradients {
  fixed,       ///< counted under fixed memory, as Checkmate does
  keep,        ///< tensors of their own that stay to the end
  accumulate,  ///< of a later micro-step: each new gradient is a tensor that is added to one under fixed memory
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

// The two ways to derive the backward pass, and what they share.

// The gradients under construction: one for each value that needs one, grown contribution by contribution.
//
// Each consumer of a value contributes to its gradient. The first contribution stands for the gradient until a second
// one arrives; then, and at each later arrival, a GradientSum node adds the newcomer:
//
//     contributions c1, c2, c3 in this order:     c1, c2 -> [1..2];   [1..2], c3 -> grad(x)
//
// Pairwise sums at arrival, not one sum of n at the end: contributions are often as large as the value and arrive far
// apart (a skip connection, DenseNet's concatenations), and a sum at the end would hold all n of them until the last
// has come. Pairwise sums hold one partial sum, at the price of moving 3 (n - 1) tensors instead of n + 1; automatic
// differentiation engines do the same. For the usual n = 2 there is no difference.
//
// The gradient of a parameter is different: under ParameterGradients::fixed its buffer is resident anyway,
// contributions are added in place, and all that is left to record is its size. Under `keep` it is a value like any
// other, marked as an output when it is complete. Under `accumulate` it is a value that dies when it is complete, and
// its buffer is under fixed memory as well: a framework computes a gradient before it adds it.

class GradientLedger {
 public:
  /// `network` must outlive the ledger; its values and nodes so far keep their names.
  GradientLedger(Network& network, ParameterGradients parameter_gradients);

  /// True if contributions to this value are values of their own: false for a parameter under `fixed`.
  [[nodiscard]] bool has_value(ValueId value) const;

  /// Adds the bytes of a parameter's gradient to the fixed memory, at the first call for this parameter.
  void count_fixed(ValueId parameter);

  /// A new value for one more contribution to the gradient of `value`: same shape and type. For a node to produce.
  ValueId new_contribution(ValueId value);

  /// Adds the contribution to the gradient of `value`; appends a GradientSum unless it is the first. Its producer must
  /// be in the network already.
  void contribute(ValueId value, ValueId contribution);

  /// The complete gradient of `value` under its final name, or none if nothing has been contributed.
  ValueId complete(ValueId value);

  /// Completes the gradients of the leaves (parameters under `keep`, inputs) and marks them as outputs; those of
  /// parameters under `accumulate` are counted under fixed memory instead.
  void complete_leaves();

  /// Appends a node whose name is made unique. Its inputs and outputs must be in the network.
  NodeId append(Node node);

  /// A value without bytes that a node produces if it has no other output: the schedule must end with it, so the node
  /// must run.
  ValueId new_token(const std::string& node_name);

  /// A value with a name made unique.
  ValueId append_value(Value value);

 private:
  struct Account {
    ValueId sum{};
    int contributions = 0;
    bool complete = false;
    /// In the fixed memory, once.
    bool counted = false;
  };

  Network& network_;
  ParameterGradients parameter_gradients_;
  UniqueNames value_names_{};
  UniqueNames node_names_{};
  /// By value; the node that produces it, if it is no constant one.
  std::vector<NodeId> producers_{};
  std::map<ValueId, Account> accounts_{};
};

// Which values need a gradient, and for which leaves.
//
// A leaf is what the training step differentiates with respect to: the trainable parameters. A network without any
// (all its weights are constants) is differentiated with respect to its floating-point inputs instead. A value needs a
// gradient if a leaf reaches it through differentiable inputs of nodes.
//
// Parameters may be computed from others before the schedule starts (a transposed weight). Such a derived parameter has
// no gradient of its own: what its consumers contribute goes to the leaves that it is made of, so a weight that is used
// both as it is and transposed still has one gradient.

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

/// BackwardRule::checkmate: see training_backward.cpp.
void append_checkmate_backward(TrainingStep& step);

}  // namespace remora::onnx_frontend
