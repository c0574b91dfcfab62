// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/read/network_builder.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "frontends/onnx/infer/constant_folding.hpp"
#include "frontends/onnx/infer/shape_rules.hpp"
#include "frontends/onnx/model/model_proto.hpp"
#include "frontends/onnx/model/network.hpp"
#include "frontends/onnx/read/node_traits.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/quote.hpp"
#include "onnx/onnx_pb.h"

namespace remora::onnx_frontend {

// The parts of a NodeProto apart from its inputs and outputs.

/// Numbers, strings and lists of numbers; a tensor of one element (the value of ConstantOfShape) becomes a number.
/// Other tensors, graphs and lists of strings are left out.
Attributes read_attributes(const onnx::NodeProto& node);

struct ConstantNode {
  TensorType type{};
  /// None if there are many, or of a type with no use in shapes.
  std::optional<Constant> elements{};
};

/// The value of a Constant node, none for other nodes. Throws InputError, naming the node, for a Constant without a
/// usable value (strings, none at all).
std::optional<ConstantNode> read_constant_node(const onnx::NodeProto& node);

namespace {

using onnx::AttributeProto;

ConstantNode from_tensor(const onnx::TensorProto& tensor) {
  return {.type = type_of(tensor), .elements = read_constant(tensor)};
}

ConstantNode from_integers(std::vector<std::int64_t> elements, Shape shape) {
  const TensorType type{.data_type = onnx::TensorProto::INT64, .shape = std::move(shape)};
  return {.type = type, .elements = Constant{.type = type, .integers = std::move(elements)}};
}

ConstantNode from_reals(std::vector<double> elements, Shape shape) {
  const TensorType type{.data_type = onnx::TensorProto::FLOAT, .shape = std::move(shape)};
  return {.type = type, .elements = Constant{.type = type, .reals = std::move(elements)}};
}

std::optional<ConstantNode> read_value(const AttributeProto& attribute) {
  const std::string& name = attribute.name();
  if (name == "value") return from_tensor(attribute.t());
  if (name == "value_int") return from_integers({attribute.i()}, {});
  if (name == "value_ints")
    return from_integers({attribute.ints().begin(), attribute.ints().end()}, {attribute.ints_size()});
  if (name == "value_float") return from_reals({static_cast<double>(attribute.f())}, {});
  if (name == "value_floats") {
    return from_reals({attribute.floats().begin(), attribute.floats().end()}, {attribute.floats_size()});
  }
  if (name == "sparse_value") {
    onnx::TensorProto dense;
    dense.set_data_type(attribute.sparse_tensor().values().data_type());
    *dense.mutable_dims() = attribute.sparse_tensor().dims();
    return ConstantNode{.type = type_of(dense)};
  }
  return std::nullopt;
}

void read_tensor(const onnx::TensorProto& tensor, Attributes& attributes, const std::string& name) {
  std::int64_t count = 1;
  for (const std::int64_t extent : tensor.dims()) count = count == 1 ? extent : 0;
  if (count != 1) return;
  const auto constant = read_constant(tensor);
  if (!constant) return;
  if (constant->real()) {
    attributes.set(name, constant->reals.front());
  } else {
    attributes.set(name, constant->integers.front());
  }
}

}  // namespace

Attributes read_attributes(const onnx::NodeProto& node) {
  Attributes attributes;
  for (const AttributeProto& attribute : node.attribute()) {
    const std::string& name = attribute.name();
    switch (attribute.type()) {
      case AttributeProto::INT:
        attributes.set(name, static_cast<std::int64_t>(attribute.i()));
        break;
      case AttributeProto::FLOAT:
        attributes.set(name, static_cast<double>(attribute.f()));
        break;
      case AttributeProto::STRING:
        attributes.set(name, attribute.s());
        break;
      case AttributeProto::INTS:
        attributes.set(name, std::vector<std::int64_t>(attribute.ints().begin(), attribute.ints().end()));
        break;
      case AttributeProto::FLOATS:
        attributes.set(name, std::vector<double>(attribute.floats().begin(), attribute.floats().end()));
        break;
      case AttributeProto::TENSOR:
        read_tensor(attribute.t(), attributes, name);
        break;
      default:
        break;
    }
  }
  return attributes;
}

std::optional<ConstantNode> read_constant_node(const onnx::NodeProto& node) {
  const bool default_domain = node.domain().empty() || node.domain() == "ai.onnx";
  if (node.op_type() != "Constant" || !default_domain) return std::nullopt;
  for (const AttributeProto& attribute : node.attribute()) {
    try {
      if (auto value = read_value(attribute)) return value;
    } catch (const InputError& error) {
      throw InputError(node_place(node), error.what());
    }
  }
  throw InputError(node_place(node), "has no numeric value");
}

namespace {

/// The type that represents a value of unknown size.
TensorType type_of_unknown() {
  return {.data_type = onnx::TensorProto::UINT8, .shape = {0}};
}

/// Integers, few enough to be a shape, axes or the like.
bool is_short_list(const TensorType& type) {
  constexpr std::int64_t kMaximum = 64;
  return !element_type(type.data_type)->floating && type.shape.size() <= 1 && element_count(type.shape) <= kMaximum;
}

/// The names that the outputs depend on, through any chain of nodes.
std::unordered_set<std::string> used_names(onnx::GraphProto& sorted) {
  std::unordered_set<std::string> names;
  for (const auto& output : sorted.output()) names.insert(output.name());
  for (int k = sorted.node_size(); k-- > 0;) {
    onnx::NodeProto& node = *sorted.mutable_node(k);
    const bool used = std::any_of(node.output().begin(), node.output().end(),
                                  [&](const std::string& output) { return names.contains(output); });
    if (used) visit_reads(node, [&](const std::string& name) { names.insert(name); });
  }
  return names;
}

ParameterOrigin weight_if(bool weight) {
  return weight ? ParameterOrigin::weight : ParameterOrigin::none;
}

/// The cost of one run of a body, its ops in their order.
InnerRun inner_run(const Network& network) {
  const auto graph = std::make_shared<const Graph>(lower(network, CostModel::unit, Machine()));
  InnerRun inner{.fixed = graph->fixed_memory};
  Bytes around = inner.fixed;
  for (const Value& value : network.values) {
    const Bytes size = byte_size(value.shape, value.type);
    if (value.kind == ValueKind::input) around += size;
    if (value.kind == ValueKind::activation && !value.view_of.valid()) inner.made = sum_of(inner.made, size, "body");
  }
  const Bytes peak = baseline_peak(Instance(graph, {}));
  inner.workspace = peak - std::min(peak, around);
  for (std::size_t k = 0; k < network.nodes.size(); ++k) {
    const Node& node = network.nodes[k];
    if (node.constant || node.view) continue;
    inner.flops = saturating_sum(inner.flops, flops(network, NodeId(k)));
    inner.moved = sum_of(inner.moved, bytes_moved(network, NodeId(k)), "body");
    inner.random = inner.random || node.never_recompute;
  }
  return inner;
}

/// The message for a dimension without an extent, and how to give it one.
std::string open_dimension(const std::string& input, int axis, const onnx::TensorShapeProto::Dimension& dimension) {
  const std::string name = printable(dimension.dim_param());
  const std::string option =
      " with --dim " + (name.empty() ? printable(input) + "[" + std::to_string(axis) + "]" : name);
  const std::string place = "dimension " + std::to_string(axis);
  if (dimension.has_dim_value()) {
    return place + " is " + std::to_string(dimension.dim_value()) + "; set it" + option + "=VALUE";
  }
  return place + " has no value" + (name.empty() ? "" : ", only the name " + name) + "; set it" + option + "=VALUE";
}

}  // namespace

NetworkBuilder::NetworkBuilder(onnx::ModelProto& model, const OnnxOptions& options)
    : graph_(*model.mutable_graph()),
      options_(options),
      opset_(default_opset(model)),
      inference_(graph_, opset_),
      used_(used_names(graph_)) {
  network_.name = graph_.name();
  network_.opset = opset_;
  network_.producer = model.producer_name();
  if (!model.producer_version().empty()) network_.producer += " " + model.producer_version();
}

NetworkBuilder::NetworkBuilder(onnx::GraphProto& body, NetworkBuilder& outer)
    : graph_(body),
      options_(outer.options_),
      opset_(outer.opset_),
      inference_(graph_, opset_),
      used_(used_names(graph_)),
      outer_(&outer) {
  constexpr std::int64_t kMaxNodes = 50'000;
  std::int64_t& nodes = model().body_nodes_;
  nodes += body.node_size() + 1;
  if (nodes > kMaxNodes) {
    throw InputError("", "its bodies, read as often as their rounds differ, have more than 50,000 nodes");
  }
}

NetworkBuilder& NetworkBuilder::model() {
  NetworkBuilder* builder = this;
  while (builder->outer_ != nullptr) builder = builder->outer_;
  return *builder;
}

const std::pair<const std::string, std::int64_t>* NetworkBuilder::bound_of(const onnx::NodeProto& proto) {
  std::vector<std::string> names{proto.name()};
  names.insert(names.end(), proto.output().begin(), proto.output().end());
  names.push_back(proto.op_type());
  for (const std::string& name : names) {
    const auto found = options_.bounds.find(name);
    if (found == options_.bounds.end()) continue;
    model().found_bounds_.insert(name);
    return &*found;
  }
  return nullptr;
}

Network NetworkBuilder::build() {
  add_initializers(graph_);
  add_inputs();
  Network network = read_nodes();
  for (const auto& [name, bound] : options_.bounds) {
    if (!found_bounds_.contains(name))
      throw InputError("--bound " + name, "no node that contributes has this name or type");
    if (!used_bounds_.contains(name)) throw InputError("--bound " + name, "no size depends on its data");
    network.warnings.push_back("sizes that depend on the data of " + printable(name) + " are upper bounds, for " +
                               std::to_string(bound));
  }
  warn_of_unknown(network);
  const bool computes = std::any_of(network.nodes.begin(), network.nodes.end(),
                                    [](const Node& node) { return !node.constant && !node.view; });
  if (!computes) network.warnings.emplace_back("the model computes nothing from its inputs: no op is left to schedule");
  return network;
}

void NetworkBuilder::warn_of_unknown(Network& network) const {
  const auto is_unknown = [](const auto& one) { return one.unknown; };
  const auto nodes = std::count_if(network.nodes.begin(), network.nodes.end(), is_unknown);
  const auto values = std::count_if(network.values.begin(), network.values.end(), is_unknown);
  if (values == 0) return;
  network.warnings.push_back("the size of " + std::to_string(values) + (values == 1 ? " value" : " values") +
                             " is unknown and counts as 0 bytes: peak, budget and bound are those of the rest, and " +
                             std::to_string(nodes) + (nodes == 1 ? " node runs" : " nodes run") +
                             " once; the first: " + first_unknown_);
}

Network NetworkBuilder::read_nodes() {
  for (int k = 0; k < graph_.node_size(); ++k) add_node(*graph_.mutable_node(k), k);
  mark_outputs();
  name_nodes(network_);
  std::vector<ParameterOrigin> origins;
  for (const Fact& fact : facts_) origins.push_back(fact.origin);
  mark_trainable(network_, origins);
  const std::vector<std::string> warnings = inference_.warnings();
  network_.warnings.insert(network_.warnings.end(), warnings.begin(), warnings.end());
  return drop_dead_nodes(std::move(network_), dead_nodes_);
}

ValueId NetworkBuilder::add(const std::string& name, Fact fact, ValueKind kind) {
  Value value{.name = name, .shape = fact.type.shape, .type = *element_type(fact.type.data_type), .kind = kind};
  value.unknown = fact.unknown;
  // All elements of an empty tensor are known.
  if (!fact.constant && !fact.unknown && element_count(value.shape) == 0) fact.constant = Constant{.type = fact.type};
  if (fact.constant) value.constant = fact.constant->integers;
  if (fact.constant || !is_short_list(fact.type)) fact.list_from.clear();
  const ValueId id = network_.add_value(std::move(value));
  if (!values_.emplace(name, id).second) throw InputError("value " + printable(name), "is there twice");
  facts_.push_back(std::move(fact));
  return id;
}

void NetworkBuilder::add_initializers(const onnx::GraphProto& graph) {
  const auto add_one = [&](const std::string& name, TensorType type, std::optional<Constant> constant) {
    if (!is_used(name)) return;
    const bool weight = element_type(type.data_type)->floating && !type.shape.empty();
    add(name, {.type = std::move(type), .constant = std::move(constant), .origin = weight_if(weight)},
        ValueKind::parameter);
  };
  std::unordered_set<std::string_view> inputs;
  for (const auto& input : graph.input()) inputs.insert(input.name());
  for (const auto& initializer : graph.initializer()) {
    if (!is_used(initializer.name())) continue;
    add_one(initializer.name(), type_of(initializer), read_constant(initializer));
    // A run may replace one that is an input, too.
    const bool is_outside = initializer.data_location() == onnx::TensorProto::EXTERNAL;
    network_.values[values_.at(initializer.name())].stored = !inputs.contains(initializer.name()) && !is_outside;
  }
  // Runtimes unpack a sparse initializer when they load it, so it counts like a dense one.
  for (const auto& sparse : graph.sparse_initializer()) {
    onnx::TensorProto dense;
    dense.set_name(sparse.values().name());
    dense.set_data_type(sparse.values().data_type());
    *dense.mutable_dims() = sparse.dims();
    if (is_used(dense.name())) add_one(dense.name(), type_of(dense), std::nullopt);
  }
}

/// Initializers are listed as inputs in old files; those are parameters already. Inputs that nobody reads are left out.
void NetworkBuilder::add_inputs() {
  for (const auto& input : graph_.input()) {
    if (!is_used(input.name()) || values_.contains(input.name())) continue;
    add(input.name(), {.type = input_type(input), .list_from = input.name()}, ValueKind::input);
  }
}

TensorType NetworkBuilder::input_type(const onnx::ValueInfoProto& input) const {
  const std::string place = "input " + printable(input.name());
  if (!input.type().has_tensor_type()) {
    throw InputError(place, "is not a tensor; export the model so that its inputs are tensors");
  }
  const auto& proto = input.type().tensor_type();
  TensorType type{.data_type = proto.elem_type()};
  if (!element_type(type.data_type)) throw InputError(place, data_type_name(type.data_type) + " elements have no size");
  if (!proto.has_shape()) throw InputError(place, "has no shape; export the model with a shape for it");
  for (int axis = 0; axis < proto.shape().dim_size(); ++axis) {
    const auto& dimension = proto.shape().dim(axis);
    if (dimension.has_dim_value() && dimension.dim_value() >= 0) {
      type.shape.push_back(dimension.dim_value());
      continue;
    }
    throw InputError(place, open_dimension(input.name(), axis, dimension));
  }
  try {
    byte_size(type.shape, *element_type(type.data_type));
  } catch (const InputError& error) {
    throw InputError(place, error.what());
  }
  return type;
}

void NetworkBuilder::add_body_inputs(const std::vector<BodyValue>& given) {
  if (static_cast<std::size_t>(graph_.input_size()) != given.size()) {
    throw InputError("", "its body has " + std::to_string(graph_.input_size()) + " inputs where " +
                             std::to_string(given.size()) + " are given");
  }
  for (std::size_t k = 0; k < given.size(); ++k) {
    const std::string& name = graph_.input(static_cast<int>(k)).name();
    if (is_used(name)) add(name, {.type = given[k].type, .constant = given[k].constant}, ValueKind::input);
  }
}

/// A body's weights are its own; what it reads of those around it are its inputs, like all else.
ValueId NetworkBuilder::find(const std::string& name) {  // NOLINT(misc-no-recursion)
  if (const auto found = values_.find(name); found != values_.end()) return found->second;
  const ValueId outside = outer_ == nullptr ? ValueId() : outer_->find(name);
  if (!outside.valid()) return {};
  return add(name, outer_->facts_[outside], ValueKind::input);
}

std::vector<ValueId> NetworkBuilder::find_inputs(onnx::NodeProto& proto) {
  std::vector<ValueId> inputs;
  const auto find_one = [&](const std::string& name) {
    const ValueId id = find(name);
    if (!id.valid()) throw InputError(node_place(proto), "reads " + quote(name) + ", which has no known shape");
    return id;
  };
  for (const std::string& name : proto.input()) inputs.push_back(name.empty() ? ValueId() : find_one(name));
  if (!has_bodies(proto)) return inputs;
  std::unordered_set<std::string> known(proto.input().begin(), proto.input().end());
  visit_reads(proto, [&](const std::string& name) {
    if (known.insert(name).second) inputs.push_back(find_one(name));
  });
  return inputs;
}

BodyRun NetworkBuilder::read_body(onnx::GraphProto& body, const std::vector<BodyValue>& given) {
  NetworkBuilder inside(body, *this);
  inside.add_initializers(body);
  inside.add_body_inputs(given);
  BodyRun run;
  const Network network = inside.read_nodes();
  for (const auto& output : body.output()) {
    const Fact& fact = inside.facts_[inside.find(output.name())];
    run.outputs.push_back({.type = fact.type, .constant = fact.constant});
  }
  for (const std::string& warning : network.warnings) {
    auto& known = network_.warnings;
    const bool of_opset = warning.starts_with("opset ");
    if (!of_opset && std::find(known.begin(), known.end(), warning) == known.end()) known.push_back(warning);
  }
  run.inner = inner_run(network);
  return run;
}

InferredOutputs NetworkBuilder::infer_control_flow(onnx::NodeProto& proto, const RuleContext& context, Node& node,
                                                   const std::vector<bool>& wanted,
                                                   std::vector<std::optional<Constant>>& constants) {
  ControlFlow flow;
  try {
    flow = read_control_flow(proto, context, [this](auto& body, const auto& given) { return read_body(body, given); });
  } catch (const UnknownSize& error) {
    throw UnknownSize(node_place(proto), error.what());
  } catch (const InputError& error) {
    throw InputError(node_place(proto), error.what());
  }
  node.inner = flow.inner;
  for (const std::string& warning : {flow.unknown, flow.guess}) {
    if (!warning.empty()) network_.warnings.push_back(node_place(proto) + ": " + warning);
  }
  if (guess_.empty() && !flow.guess.empty()) guess_ = node_place(proto) + ": " + flow.guess;
  BodyTypes types{.types = OutputTypes(wanted.size()), .unknown = flow.unknown};
  for (std::size_t k = 0; k < wanted.size(); ++k) {
    if (!flow.outputs[k]) continue;
    types.types[k] = flow.outputs[k]->type;
    constants[k] = flow.outputs[k]->constant;
  }
  return inference_.infer(proto, context, wanted, &types);
}

bool NetworkBuilder::is_exact() const {
  return options_.bounds.empty() && guess_.empty() && (outer_ == nullptr || outer_->is_exact());
}

RuleContext NetworkBuilder::context_of(const Node& node, std::size_t output_count) const {
  RuleContext context{.node = node, .opset = opset_, .output_count = output_count, .is_exact = is_exact()};
  for (const ValueId input : node.inputs) {
    const Fact* const fact = input.valid() ? &facts_[input] : nullptr;
    context.inputs.push_back(fact == nullptr ? nullptr : &fact->type);
    context.constants.push_back(fact == nullptr || !fact->constant ? nullptr : &*fact->constant);
    if (fact != nullptr && context.list_from.empty()) context.list_from = fact->list_from;
  }
  return context;
}

void NetworkBuilder::add_node(onnx::NodeProto& proto, int position) {  // NOLINT(misc-no-recursion)
  const bool live = std::any_of(proto.output().begin(), proto.output().end(),
                                [&](const std::string& output) { return is_used(output); });
  if (!live) {
    // It never becomes part of the network, so its shapes need not be known.
    if (proto.op_type() != "Constant") dead_nodes_.push_back(node_place(proto));
    return;
  }
  Node node{.name = proto.name(),
            .type = proto.op_type(),
            .domain = proto.domain(),
            .attributes = read_attributes(proto),
            .position = position};
  if (node.domain == "ai.onnx") node.domain.clear();
  node.inputs = find_inputs(proto);
  std::vector<bool> wanted;
  for (const std::string& output : proto.output()) wanted.push_back(is_used(output));
  if (options_.training && outer_ == nullptr && is_control_flow(node) && unroll(proto, node)) return;
  std::vector<std::optional<Constant>> constants(wanted.size());
  const InferredOutputs inferred = infer(proto, node, wanted, constants);
  const bool training = options_.training.has_value();
  const bool random = is_random(context_of(node, wanted.size()), training) || (node.inner && node.inner->random);
  node.constant = is_constant(node, random);
  node.never_recompute = random || node.unknown;
  add_outputs(proto, node, inferred, constants);
  if (options_.axes != AxesWanted::none) keep_scales(node);
  if (options_.training && node.inner && !node.constant && node.inner->states > Bytes(0)) {
    const TensorType states{.data_type = onnx::TensorProto::UINT8, .shape = {node.inner->states.count()}};
    const std::string name = (node.name.empty() ? proto.output(0) : node.name) + "/states";
    node.outputs.push_back(add(fresh_name(name), {.type = states}, ValueKind::activation));
  }
  if (!node.unknown && is_view(context_of(node, wanted.size()), inferred.types, training)) {
    node.view = true;
    network_.values[node.outputs[0]].view_of = node.inputs[0];
  }
  network_.add_node(std::move(node));
}

/// Values keep integers only.
void NetworkBuilder::keep_scales(Node& node) const {
  if (node.type != "Resize" && node.type != "Upsample") return;
  const std::size_t position = node.type == "Upsample" || opset_ < 11 ? 1 : 2;
  const RuleContext context = context_of(node, 0);
  if (!context.has_input(position) || context.constants[position] == nullptr) return;
  node.attributes.set("scales", context.constants[position]->reals);
}

std::string NetworkBuilder::fresh_name(const std::string& wanted) {
  if (!names_) {
    names_.emplace();
    for (const auto& [name, id] : values_) names_->make(name);
    for (const std::string& name : used_) {
      if (!values_.contains(name)) names_->make(name);
    }
  }
  return names_->make(wanted);
}

bool NetworkBuilder::unroll(onnx::NodeProto& proto, const Node& node) {  // NOLINT(misc-no-recursion)
  constexpr std::int64_t kMaximum = 40'000;
  RuleContext context = context_of(node, static_cast<std::size_t>(proto.output_size()));
  const auto* const bound = bound_of(proto);
  bool needs_bound = false;
  context.needs_bound = &needs_bound;
  if (bound != nullptr) context.bound = bound->second;
  // To Reshape, which cuts slices, an extent of 0 is another one.
  const auto is_empty = [](const TensorType* type) { return type != nullptr && element_count(type->shape) == 0; };
  if (std::any_of(context.inputs.begin(), context.inputs.end(), is_empty)) return false;
  ControlFlow flow;
  try {
    flow = read_control_flow(proto, context, [this](auto& body, const auto& given) { return read_body(body, given); });
  } catch (const InputError&) {
    return false;  // whoever reads it as one op says why
  }
  if (flow.body == nullptr) return false;
  if (needs_bound) model().used_bounds_.insert(bound->first);
  // Each round has values for its inputs and outputs, too.
  const std::int64_t round = flow.body->node_size() + flow.body->input_size() + flow.body->output_size();
  if (saturating_product(flow.rounds, round) > kMaximum - unrolled_) {
    network_.warnings.push_back(
        node_place(proto) + ": its rounds are too many to be ops of their own (" + std::to_string(flow.rounds) +
        " of " + std::to_string(round) + " nodes, inputs and outputs, where " + std::to_string(kMaximum) +
        " are the limit for all loops): the loop is one op, which saves the state of each round, and its backward "
        "recomputes the rest round by round");
    return false;
  }
  unrolled_ += flow.rounds * round;
  if (!proto.name().empty()) network_.unrolled.push_back(proto.name());
  add_rounds(proto, context, flow);
  return true;
}

void NetworkBuilder::add_rounds(const onnx::NodeProto& proto, const RuleContext& context,  // NOLINT(misc-no-recursion)
                                const ControlFlow& flow) {
  const auto is_parameter = [this](const std::string& name) {
    const auto found = values_.find(name);
    return found != values_.end() && network_.values[found->second].kind == ValueKind::parameter;
  };
  const auto make_name = [this](const std::string& wanted) { return fresh_name(wanted); };
  onnx::GraphProto graph;
  const std::unordered_set<int> windows =
      onnx_frontend::unroll(proto, context, flow, {.make_name = make_name, .is_parameter = is_parameter}, graph);
  for (const std::string& output : proto.output()) {
    if (is_used(output)) graph.add_output()->set_name(output);
  }
  used_.merge(used_names(graph));
  add_initializers(graph);
  for (int k = 0; k < graph.node_size(); ++k) {
    onnx::NodeProto& inner = *graph.mutable_node(k);
    const bool live = std::any_of(inner.output().begin(), inner.output().end(),
                                  [&](const std::string& output) { return is_used(output); });
    if (!live) continue;
    add_node(inner, -1);
    if (windows.contains(k)) view_parts(network_.nodes.back());
  }
}

void NetworkBuilder::view_parts(Node& split) {
  split.view = true;
  for (const ValueId part : split.outputs) {
    if (part.valid()) network_.values[part].view_of = split.inputs[0];
  }
}

InferredOutputs NetworkBuilder::infer(onnx::NodeProto& proto, Node& node, const std::vector<bool>& wanted,
                                      std::vector<std::optional<Constant>>& constants) {
  InferredOutputs inferred{.types = OutputTypes(wanted.size()), .optional = std::vector<bool>(wanted.size())};
  if (auto constant = read_constant_node(proto)) {
    inferred.types[0] = constant->type;
    constants[0] = std::move(constant->elements);
    return inferred;
  }
  const auto* const bound = bound_of(proto);
  node.unknown = std::any_of(node.inputs.begin(), node.inputs.end(),
                             [&](ValueId input) { return input.valid() && network_.values[input].unknown; });
  if (node.unknown) return inference_.infer_from_statements(proto);
  try {
    RuleContext context = context_of(node, wanted.size());
    bool needs_bound = false;
    context.needs_bound = &needs_bound;
    if (bound != nullptr) context.bound = bound->second;
    if (is_control_flow(node)) {
      inferred = infer_control_flow(proto, context, node, wanted, constants);
    } else {
      inferred = inference_.infer(proto, context, wanted);
      constants = fold(context, inferred.types);
    }
    if (needs_bound) model().used_bounds_.insert(bound->first);
  } catch (const UnknownSize& error) {
    // In a body, the op that has it is of unknown size.
    if (outer_ != nullptr || options_.training) throw;
    if (!options_.allow_unknown) {
      const std::string guess = guess_.empty() ? "" : "; sizes before it are a guess: " + guess_;
      throw UnknownSize("", error.what() + guess + "; --allow-unknown plans around it");
    }
    node.unknown = true;
    constants.assign(wanted.size(), std::nullopt);
    if (first_unknown_.empty()) first_unknown_ = one_line(error.what());
  }
  return inferred;
}

bool NetworkBuilder::is_constant(const Node& node, bool random) const {
  if (random) return false;
  if (reads_shape_only(node)) return true;
  return std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
    return !input.valid() || network_.values[input].kind == ValueKind::parameter;
  });
}

/// A constant node's result can be a weight if it is made of one. ConstantOfShape makes weights in models that were
/// stripped of theirs; with a shape taken from an activation it makes masks and zeros.
ParameterOrigin NetworkBuilder::origin_of(const Node& node, const TensorType& type) const {
  if (!node.constant || !element_type(type.data_type)->floating || type.shape.empty()) return ParameterOrigin::none;
  if (node.type == "ConstantOfShape" && !node.inputs.empty())
    return weight_if(!derived_from_shape_.contains(node.inputs[0]));
  return weight_if(std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
    return input.valid() && facts_[input].origin == ParameterOrigin::weight;
  }));
}

void NetworkBuilder::add_outputs(const onnx::NodeProto& proto, Node& node, const InferredOutputs& inferred,
                                 const std::vector<std::optional<Constant>>& constants) {
  const bool from_shape =
      reads_shape_only(node) || std::any_of(node.inputs.begin(), node.inputs.end(),
                                            [&](ValueId input) { return derived_from_shape_.contains(input); });
  const std::string list_from = context_of(node, 0).list_from;
  for (int k = 0; k < proto.output_size(); ++k) {
    const auto position = static_cast<std::size_t>(k);
    const std::string& name = proto.output(k);
    const bool known = inferred.types[position].has_value();
    const bool left_out = name.empty() || (!is_used(name) && (!known || inferred.optional[position]));
    if (left_out) {
      node.outputs.push_back(ValueId());
      continue;
    }
    const TensorType type = inferred.types[position].value_or(type_of_unknown());
    const ValueId output = add(name,
                               {.type = type,
                                .constant = constants[position],
                                .origin = origin_of(node, type),
                                .unknown = !known,
                                .list_from = list_from},
                               node.constant ? ValueKind::parameter : ValueKind::activation);
    if (node.constant && from_shape) derived_from_shape_.insert(output);
    node.outputs.push_back(output);
  }
}

void NetworkBuilder::mark_outputs() {
  for (const auto& output : graph_.output()) {
    const ValueId found = find(output.name());
    if (!found.valid()) throw InputError("output " + printable(output.name()), "nothing in the model makes it");
    network_.values[found].output = true;
  }
  if (graph_.output_size() == 0 && outer_ == nullptr) throw InputError("graph.output", "the model has no outputs");
}

}  // namespace remora::onnx_frontend
