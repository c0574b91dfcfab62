// SPDX-License-Identifier: Apache-2.0
//
// One node's output types by libonnx: its operator schema's type and shape inference, given full knowledge of the
// inputs.
//
// Why node by node and not onnx::shape_inference::InferShapes on the whole model: there every shape of a node beyond
// opset 17 is lost silently and all shapes behind it with it, and data propagation covers only a few ops. Here each
// node sees its inputs' exact types and every constant that constant_folding.hpp knows, and can fall back by itself.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "frontends/onnx/infer/shape_rules.hpp"

namespace onnx {
class NodeProto;
}  // namespace onnx

namespace remora::onnx_frontend {

// What libonnx 1.12's inference functions take for granted and crash without: found by running all of them on random
// nodes. A node that does not hold it is wrong anyway, so it is an error of the node here, not a crash there.

/// Why libonnx must not see this node, one line; empty if it may.
std::string schema_objection(const RuleContext& context);

/// The newest opset whose schemas the installed libonnx has.
inline constexpr std::int64_t kNewestKnownOpset = 17;

struct SchemaAnswer {
  /// Whether libonnx has a schema for the op at this opset (or at its newest, if the opset is newer).
  bool known = false;
  /// By position; none where libonnx gives no full shape.
  OutputTypes outputs{};
  /// An output is a sequence, an optional or a map.
  bool not_a_tensor = false;
  /// Which outputs the op may leave out.
  std::vector<bool> optional_outputs{};
  /// What libonnx's type check says against the node, one line; empty if nothing.
  std::string complaint{};
  /// Why there are no shapes, one line; empty if there are.
  std::string failure{};
};

/// Attributes that the op's schema does not have (of newer opsets, or an exporter's own) are removed from `node`.
SchemaAnswer infer_by_schema(onnx::NodeProto& node, const RuleContext& context);

}  // namespace remora::onnx_frontend
