// SPDX-License-Identifier: Apache-2.0
//
// The types of a network's values: by libonnx's schema inference, node by node, where no rule of our own knows better.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "frontends/onnx/infer/shape_rules.hpp"

namespace onnx {
class GraphProto;
class NodeProto;
}  // namespace onnx

namespace remora::onnx_frontend {

// One node's output types by libonnx: its operator schema's type and shape inference, given full knowledge of the
// inputs.
//
// Why node by node and not onnx::shape_inference::InferShapes on the whole model: there every shape of a node beyond
// opset 17 is lost silently and all shapes behind it with it, and data propagation covers only a few ops. Here each
// node sees its inputs' exact types and every constant that constant_folding.hpp knows, and can fall back by itself.

/// The newest opset whose schemas the installed libonnx has.
inline constexpr std::int64_t kNewestKnownOpset = 17;

struct SchemaAnswer {
  /// True if libonnx has a schema for the op at this opset (or at its newest, if the opset is newer).
  bool known = false;
  /// By position; none where libonnx gives no full shape.
  OutputTypes outputs{};
  /// An output is a sequence, an optional or a map.
  bool not_a_tensor = false;
  /// Which outputs the op may leave out.
  std::vector<bool> optional_outputs{};
  /// Error of libonnx's type check for the node, one line; empty if there is none.
  std::string complaint{};
  /// Why there are no shapes, one line; empty if there are.
  std::string failure{};
};

/// Attributes that the op's schema does not have (of newer opsets, or an exporter's own) are removed from `node`.
SchemaAnswer infer_by_schema(onnx::NodeProto& node, const RuleContext& context);

// The types of one node's outputs, from whoever knows them. In this order:
//
//   1. Remora's rule, for ops whose definition libonnx does not know or knows in an older form,
//   2. libonnx's schema (of opset 17, if the model's opset is newer),
//   3. Remora's rule as a fallback,
//   4. the shape that the file states for the value (value_info, outputs).
//
// Only then is it an error, which names the node and the remedy. Beyond opset 17 a shape that the file states wins over
// one from libonnx, with a warning.

struct InferredOutputs {
  /// By position; set for every output in `wanted`.
  OutputTypes types{};
  /// Outputs that the op need not write.
  std::vector<bool> optional{};
};

/// Types of a node's outputs by its bodies.
struct BodyTypes {
  OutputTypes types{};
  /// Why one has no type; empty if all have.
  std::string unknown{};
};

class TypeInference {
 public:
  /// Takes the shapes that `graph` states; the graph need not outlive this.
  TypeInference(const onnx::GraphProto& graph, std::int64_t opset);

  /// The outputs' types; `wanted` tells by position which must be known. `of_bodies`: of a node that has bodies, what
  /// these say. Throws UnknownSize, naming the node and the remedy, for sequences and shapes that stay unknown.
  InferredOutputs infer(onnx::NodeProto& node, const RuleContext& context, const std::vector<bool>& wanted,
                        const BodyTypes* of_bodies = nullptr);

  /// For a node that reads values of unknown size: the types that the file states, none for the other outputs. Throws
  /// InputError
  /// where one is impossible.
  [[nodiscard]] InferredOutputs infer_from_statements(const onnx::NodeProto& node) const;

  /// One line for each kind of thing that the user should know. Of a model newer than the ONNX library, the ops that
  /// were read by an older definition, with no rule of ours and no shape in the file to confirm it.
  [[nodiscard]] std::vector<std::string> warnings() const;

 private:
  /// The outputs' types that the file states in full; none for the others.
  [[nodiscard]] OutputTypes stated(const onnx::NodeProto& node) const;
  void prefer_stated(const onnx::NodeProto& node, OutputTypes& types);
  void fall_back_to_stated(const onnx::NodeProto& node, OutputTypes& types, const std::vector<bool>& wanted);
  void warn_once(const std::string& key, const std::string& line);

  std::int64_t opset_;
  std::unordered_map<std::string, TensorType> stated_;
  std::set<std::string> warned_;
  /// Types of ops that were read by the library's older definition alone.
  std::set<std::string> unconfirmed_;
  std::vector<std::string> warnings_;
};

}  // namespace remora::onnx_frontend
