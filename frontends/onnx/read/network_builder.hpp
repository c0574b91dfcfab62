// SPDX-License-Identifier: Apache-2.0
//
// ModelProto -> Network: walks the sorted nodes once, settles each node's types, elements of small constants, views and
// what is a parameter, and then drops what contributes to no output (node_traits.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "frontends/onnx/infer/shape_rules.hpp"
#include "frontends/onnx/infer/type_inference.hpp"
#include "frontends/onnx/model/network.hpp"
#include "frontends/onnx/read/control_flow.hpp"
#include "frontends/onnx/read/node_traits.hpp"
#include "frontends/onnx/read/onnx_reader.hpp"

namespace onnx {
class GraphProto;
class ModelProto;
class NodeProto;
class ValueInfoProto;
}  // namespace onnx

namespace remora::onnx_frontend {

class NetworkBuilder {
 public:
  /// `model` must be sorted (sort_nodes), without local functions; model and options must outlive the builder.
  NetworkBuilder(onnx::ModelProto& model, const OnnxOptions& options);

  /// Once. Throws InputError as build_network says.
  Network build();

 private:
  /// Builder for a body within `outer`, whose values it may read. Throws InputError for bodies nested too deeply.
  NetworkBuilder(onnx::GraphProto& body, NetworkBuilder& outer);

  /// Facts about a value beyond Value, by ValueId.
  struct Fact {
    TensorType type{};
    std::optional<Constant> constant{};
    ParameterOrigin origin = ParameterOrigin::none;
    bool unknown = false;
    /// For a short list of integers whose elements are unknown: the model's input that they come from; otherwise empty.
    std::string list_from{};
  };

  void add_initializers(const onnx::GraphProto& graph);
  void add_inputs();
  /// Those of a body. Throws InputError where they are not as many as it has.
  void add_body_inputs(const std::vector<BodyValue>& given);
  /// Its nodes, outputs and what contributes to them.
  Network read_nodes();
  BodyRun read_body(onnx::GraphProto& body, const std::vector<BodyValue>& given);
  InferredOutputs infer_control_flow(onnx::NodeProto& proto, const RuleContext& context, Node& node,
                                     const std::vector<bool>& wanted, std::vector<std::optional<Constant>>& constants);
  /// For a training step: adds the rounds of an op of control flow as nodes of their own, whose gradients then save
  /// what each
  /// needs. False where nobody knows the rounds or they are too many, of which a warning tells.
  bool unroll(onnx::NodeProto& proto, const Node& node);
  void add_rounds(const onnx::NodeProto& proto, const RuleContext& context, const ControlFlow& flow);
  std::string fresh_name(const std::string& wanted);
  /// A loop reads the parts of what it scans where they are.
  void view_parts(Node& split);
  /// The value of that name, which a body may find in what is around it; none where nothing has it.
  ValueId find(const std::string& name);
  void add_node(onnx::NodeProto& proto, int position);
  /// The scales of a Resize, as attribute.
  void keep_scales(Node& node) const;
  /// Types of the node's outputs, none for those of unknown size, and the elements of small ones.
  InferredOutputs infer(onnx::NodeProto& proto, Node& node, const std::vector<bool>& wanted,
                        std::vector<std::optional<Constant>>& constants);
  void warn_of_unknown(Network& network) const;
  void mark_outputs();

  ValueId add(const std::string& name, Fact fact, ValueKind kind);
  TensorType input_type(const onnx::ValueInfoProto& input) const;
  std::vector<ValueId> find_inputs(onnx::NodeProto& proto);
  /// True if no shape is a bound or a guess.
  [[nodiscard]] bool is_exact() const;
  RuleContext context_of(const Node& node, std::size_t output_count) const;
  /// The user's bound for the node, and the name that it was given for; none without one.
  const std::pair<const std::string, std::int64_t>* bound_of(const onnx::NodeProto& proto);
  NetworkBuilder& model();
  /// True if somebody reads the value, by name.
  [[nodiscard]] bool is_used(const std::string& name) const { return !name.empty() && used_.contains(name); }
  [[nodiscard]] bool is_constant(const Node& node, bool random) const;
  [[nodiscard]] ParameterOrigin origin_of(const Node& node, const TensorType& type) const;

  void add_outputs(const onnx::NodeProto& proto, Node& node, const InferredOutputs& inferred,
                   const std::vector<std::optional<Constant>>& constants);

  onnx::GraphProto& graph_;
  const OnnxOptions& options_;
  std::int64_t opset_;
  TypeInference inference_;
  Network network_;
  std::vector<Fact> facts_;
  std::unordered_map<std::string, ValueId> values_;
  std::unordered_set<std::string> used_;
  /// Parameters that stand for shapes of activations.
  std::unordered_set<ValueId> derived_from_shape_;
  /// Nodes that were left out, as a warning shows them.
  std::vector<std::string> dead_nodes_;
  /// Why the first node of unknown size is one.
  std::string first_unknown_;
  NetworkBuilder* outer_ = nullptr;
  // Limits of the model's builder, for all bodies.
  std::int64_t body_nodes_ = 0;
  /// Nodes, inputs and outputs of unrolled rounds, and all names of the model once there are some.
  std::int64_t unrolled_ = 0;
  std::optional<UniqueNames> names_{};
  /// Names of --bound that a node has, and those of nodes with a size that depends on data.
  std::set<std::string> found_bounds_;
  std::set<std::string> used_bounds_;
  /// The first guess that sizes rest on; empty if all are exact.
  std::string guess_;
};

}  // namespace remora::onnx_frontend
