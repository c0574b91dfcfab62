// SPDX-License-Identifier: Apache-2.0
//
// The axes of the ops of a model (docs/design/slices.md).
#pragma once

#include <vector>

#include "frontends/onnx/model/network.hpp"
#include "model/graph.hpp"

namespace remora::onnx_frontend {

/// Gives each op of the network's graph the axes that the rules of loop_rules.hpp state. Random ops, control flow, ops
/// of unknown work, and the backward ops of BackwardRule::checkmate have none. `op_nodes` and `tensor_values` are those
/// of LoweredModel.
///
/// A backward op that adds the gradient of a parameter to a resident buffer adds that of the rows that no earlier slice
/// has computed, as it adds nothing when it is recomputed.
void add_axes(const Network& network, const std::vector<NodeId>& op_nodes, const std::vector<ValueId>& tensor_values,
              Graph& graph);

}  // namespace remora::onnx_frontend
