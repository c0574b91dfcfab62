// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <unordered_map>
#include <utility>

#include "frontends/onnx/model/model_proto.hpp"
#include "frontends/onnx/read/control_flow.hpp"
#include "model/error.hpp"
#include "onnx/onnx_pb.h"

namespace remora::onnx_frontend {
namespace {

using Names = std::vector<std::string>;
using onnx::AttributeProto;

/// From this opset on, Split has the sizes of its parts as an input.
constexpr std::int64_t kFirstSplitByInput = 13;

class Unroller {
 public:
  Unroller(const onnx::NodeProto& proto, const RuleContext& context, const ControlFlow& flow, const Around& around,
           onnx::GraphProto& result)
      : proto_(proto),
        context_(context),
        flow_(flow),
        body_(*flow.body),
        around_(around),
        result_(result),
        prefix_(proto.name().empty() ? proto.output(0) : proto.name()) {
    for (const auto& weight : body_.initializer()) {
      onnx::TensorProto& copy = *result_.add_initializer();
      copy = weight;
      copy.set_name(shared(weight.name()));
    }
    for (const auto& weight : body_.sparse_initializer()) {
      onnx::SparseTensorProto& copy = *result_.add_sparse_initializer();
      copy = weight;
      copy.mutable_values()->set_name(shared(weight.values().name()));
    }
    share_constants();
  }

  std::unordered_set<int> run() {
    if (context_.node.type == "If") {
      const Names outputs = add_round(prefix_, {});
      for (std::size_t k = 0; k < outputs.size(); ++k) add("Identity", {outputs[k]}, {output(k)});
    } else if (context_.node.type == "Loop") {
      run_loop();
    } else {
      run_scan();
    }
    return std::move(windows_);
  }

 private:
  [[nodiscard]] std::string output(std::size_t k) const { return proto_.output(static_cast<int>(k)); }
  [[nodiscard]] std::string input(std::size_t k) const { return proto_.input(static_cast<int>(k)); }
  [[nodiscard]] std::size_t body_inputs() const { return static_cast<std::size_t>(body_.input_size()); }
  [[nodiscard]] std::string round_prefix(std::int64_t round) const {
    return prefix_ + "[" + std::to_string(round) + "]";
  }

  /// The name of a weight, for all rounds.
  std::string shared(const std::string& name) {
    return shared_.emplace(name, around_.make_name(prefix_ + "/" + name)).first->second;
  }

  /// Adds once what all rounds compute alike from parameters.
  void share_constants() {
    std::unordered_set<std::string> own;
    for (const auto& input : body_.input()) own.insert(input.name());
    for (int k = 0; k < body_.node_size(); ++k) {
      const onnx::NodeProto& node = body_.node(k);
      const bool alike = std::all_of(node.input().begin(), node.input().end(), [&](const std::string& name) {
        return name.empty() || shared_.contains(name) || (!own.contains(name) && around_.is_parameter(name));
      });
      if (!alike || has_bodies(node) || (node.input_size() == 0 && node.op_type() != "Constant") || draws(node)) {
        own.insert(node.output().begin(), node.output().end());
        continue;
      }
      is_shared_.insert(k);
      onnx::NodeProto& copy = *result_.add_node();
      copy = node;
      if (!copy.name().empty()) copy.set_name(prefix_ + "/" + copy.name());
      for (std::string& name : *copy.mutable_input()) rename(name, shared_);
      for (std::string& name : *copy.mutable_output()) {
        if (!name.empty()) name = shared(name);
      }
    }
  }

  /// Random numbers, anew in each round.
  static bool draws(const onnx::NodeProto& node) {
    const std::string& type = node.op_type();
    return type.starts_with("Random") || type == "Bernoulli" || type == "Multinomial" || type == "Dropout";
  }

  /// A name that is not among the names belongs to the surroundings of the body.
  static void rename(std::string& name, const std::unordered_map<std::string, std::string>& names) {
    const auto found = names.find(name);
    if (found != names.end()) name = found->second;
  }

  void run_loop() {
    const std::size_t states = body_inputs() - 2;
    Names state;
    for (std::size_t k = 0; k < states; ++k) state.push_back(input(2 + k));
    const std::string goes_on = integers(prefix_ + "/goes_on", onnx::TensorProto::BOOL, {}, {1});
    std::vector<Names> written(context_.output_count - states);
    for (std::int64_t round = 0; round < flow_.rounds; ++round) {
      const std::string prefix = round_prefix(round);
      Names inputs{integers(prefix + "/round", onnx::TensorProto::INT64, {}, {round}), goes_on};
      inputs.insert(inputs.end(), state.begin(), state.end());
      const Names outputs = add_round(prefix, inputs);
      for (std::size_t k = 0; k < states; ++k) state[k] = outputs[1 + k];
      for (std::size_t k = 0; k < written.size(); ++k) written[k].push_back(outputs[1 + states + k]);
    }
    finish(state, written);
  }

  void run_scan() {
    const auto scanned = static_cast<std::size_t>(context_.attribute("num_scan_inputs", 0));
    const std::size_t states = body_inputs() - scanned;
    // ScanVarLen may have lengths before its inputs.
    const std::size_t before = flow_.first_input;
    Names state;
    for (std::size_t k = 0; k < states; ++k) state.push_back(input(before + k));
    std::vector<Names> slices;
    for (std::size_t k = 0; k < scanned; ++k) slices.push_back(slices_of(before + states + k, k));
    std::vector<Names> written(context_.output_count - states);
    for (std::int64_t round = 0; round < flow_.rounds; ++round) {
      Names inputs = state;
      for (const Names& slice : slices) inputs.push_back(slice[static_cast<std::size_t>(round)]);
      const Names outputs = add_round(round_prefix(round), inputs);
      for (std::size_t k = 0; k < states; ++k) state[k] = outputs[k];
      for (std::size_t k = 0; k < written.size(); ++k) written[k].push_back(outputs[states + k]);
    }
    for (std::size_t k = 0; k < written.size(); ++k) {
      if (nth("scan_output_directions", k) != 0) std::reverse(written[k].begin(), written[k].end());
    }
    finish(state, written);
  }

  /// Element k of a Scan's list, which a Loop does not have.
  [[nodiscard]] std::int64_t nth(const char* list, std::size_t k) const {
    if (context_.node.type == "Loop") return 0;
    const std::vector<std::int64_t> elements = context_.attribute_list(list);
    return k < elements.size() ? elements[k] : 0;
  }

  /// The slices of the node's scanned input `position`, in the order of rounds.
  Names slices_of(std::size_t position, std::size_t k) {
    Shape shape = context_.input(position).shape;
    const std::size_t axis = normalized_axis(nth("scan_input_axes", k), shape.size());
    Names parts;
    for (std::int64_t round = 0; round < flow_.rounds; ++round) {
      parts.push_back(around_.make_name(input(position) + "[" + std::to_string(round) + "]"));
    }
    const std::vector<std::int64_t> ones(parts.size(), 1);
    Names inputs{input(position)};
    const bool by_input = context_.opset >= kFirstSplitByInput;
    if (by_input) {
      const Shape count{static_cast<std::int64_t>(parts.size())};
      inputs.push_back(integers(prefix_ + "/ones", onnx::TensorProto::INT64, count, ones));
    }
    windows_.insert(result_.node_size());
    onnx::NodeProto& split = add("Split", inputs, parts);
    set(split, "axis", static_cast<std::int64_t>(axis));
    if (!by_input) set(split, "split", ones);
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
    for (std::string& part : parts) part = reshaped(part, shape);
    if (nth("scan_input_directions", k) != 0) std::reverse(parts.begin(), parts.end());
    return parts;
  }

  /// The node's outputs: the last states, and what the rounds wrote, joined.
  void finish(const Names& state, const std::vector<Names>& written) {
    for (std::size_t k = 0; k < state.size(); ++k) add("Identity", {state[k]}, {output(k)});
    const bool joins = context_.node.type == "ScanVarLen";
    for (std::size_t k = 0; k < written.size(); ++k) {
      const std::string name = output(state.size() + k);
      if (name.empty()) continue;
      Shape shape = flow_.outputs[state.size() + k]->type.shape;
      const std::size_t axis = normalized_axis(nth("scan_output_axes", k), shape.size());
      shape[axis] = 1;
      Names parts = written[k];
      if (!joins) {
        for (std::string& part : parts) part = reshaped(part, shape);
      }
      set(add("Concat", parts, {name}), "axis", static_cast<std::int64_t>(axis));
    }
  }

  /// The nodes of one run of the body; the names of its outputs.
  Names add_round(const std::string& prefix, const Names& inputs) {
    const std::string start = prefix + "/";
    std::unordered_map<std::string, std::string> names = shared_;
    for (std::size_t k = 0; k < inputs.size(); ++k) names[body_.input(static_cast<int>(k)).name()] = inputs[k];
    for (int k = 0; k < body_.node_size(); ++k) {
      if (is_shared_.contains(k)) continue;
      for (const std::string& value : body_.node(k).output()) {
        if (!value.empty()) names[value] = around_.make_name(std::string(start).append(value));
      }
    }
    for (int k = 0; k < body_.node_size(); ++k) {
      if (is_shared_.contains(k)) continue;
      onnx::NodeProto& copy = *result_.add_node();
      copy = body_.node(k);
      if (!copy.name().empty()) copy.set_name(std::string(start).append(copy.name()));
      visit_reads(copy, [&](std::string& name) { rename(name, names); });
      for (std::string& value : *copy.mutable_output()) rename(value, names);
    }
    Names outputs;
    for (const auto& value : body_.output()) rename(outputs.emplace_back(value.name()), names);
    return outputs;
  }

  std::string reshaped(const std::string& value, const Shape& shape) {
    std::string target =
        integers(value + "/shape", onnx::TensorProto::INT64, {static_cast<std::int64_t>(shape.size())}, shape);
    std::string name = around_.make_name(value + "/slice");
    add("Reshape", {value, target}, {name});
    return name;
  }

  std::string integers(const std::string& wanted, int type, const Shape& shape,
                       const std::vector<std::int64_t>& elements) {
    std::string name = around_.make_name(wanted);
    AttributeProto& value = *add("Constant", {}, {name}).add_attribute();
    value.set_name("value");
    value.set_type(AttributeProto::TENSOR);
    *value.mutable_t() = to_proto(Constant{.type = {.data_type = type, .shape = shape}, .integers = elements});
    return name;
  }

  onnx::NodeProto& add(const char* type, const Names& inputs, const Names& outputs) {
    onnx::NodeProto& node = *result_.add_node();
    node.set_op_type(type);
    for (const std::string& one : inputs) node.add_input(one);
    for (const std::string& one : outputs) node.add_output(one);
    return node;
  }
  static void set(onnx::NodeProto& node, const char* name, std::int64_t value) {
    AttributeProto& attribute = *node.add_attribute();
    attribute.set_name(name);
    attribute.set_type(AttributeProto::INT);
    attribute.set_i(value);
  }
  static void set(onnx::NodeProto& node, const char* name, const std::vector<std::int64_t>& values) {
    AttributeProto& attribute = *node.add_attribute();
    attribute.set_name(name);
    attribute.set_type(AttributeProto::INTS);
    for (const std::int64_t value : values) attribute.add_ints(value);
  }

  const onnx::NodeProto& proto_;
  const RuleContext& context_;
  const ControlFlow& flow_;
  const onnx::GraphProto& body_;
  const Around& around_;
  onnx::GraphProto& result_;
  std::unordered_set<int> windows_{};
  std::string prefix_;
  /// Weights and what is computed from them, by their names in the body, and the nodes that compute it.
  std::unordered_map<std::string, std::string> shared_{};
  std::unordered_set<int> is_shared_{};
};

}  // namespace

std::unordered_set<int> unroll(const onnx::NodeProto& proto, const RuleContext& context, const ControlFlow& flow,
                               const Around& around, onnx::GraphProto& result) {
  return Unroller(proto, context, flow, around, result).run();
}

}  // namespace remora::onnx_frontend
