// SPDX-License-Identifier: Apache-2.0
//
// The types of one node's outputs, from whoever knows them. In this order:
//
//   1. Remora's rule, for ops whose definition libonnx does not know or knows in an older form,
//   2. libonnx's schema (of opset 17, if the model's opset is newer),
//   3. Remora's rule as a fallback,
//   4. the shape that the file states for the value (value_info, outputs).
//
// Only then is it an error, which names the node and the remedy. Beyond opset 17 a shape that the file states wins over
// one from libonnx, with a warning.
#pragma once

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

struct InferredOutputs {
  /// By position; set for every output in `wanted`.
  OutputTypes types{};
  /// Outputs that the op need not write.
  std::vector<bool> optional{};
};

class TypeInference {
 public:
  /// Takes the shapes that `graph` states; the graph need not outlive this.
  TypeInference(const onnx::GraphProto& graph, std::int64_t opset);

  /// The outputs' types; `wanted` tells by position which must be known. Throws InputError, naming the node and the
  /// remedy, for control flow, sequences and shapes that stay unknown.
  InferredOutputs infer(onnx::NodeProto& node, const RuleContext& context, const std::vector<bool>& wanted);

  /// One line for each kind of thing that the user should know.
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  void prefer_stated(const onnx::NodeProto& node, OutputTypes& types);
  void fall_back_to_stated(const onnx::NodeProto& node, OutputTypes& types, const std::vector<bool>& wanted);
  void warn_once(const std::string& key, const std::string& line);

  std::int64_t opset_;
  std::unordered_map<std::string, TensorType> stated_;
  std::set<std::string> warned_;
  std::vector<std::string> warnings_;
};

}  // namespace remora::onnx_frontend
