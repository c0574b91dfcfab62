// SPDX-License-Identifier: Apache-2.0
//
// The neural network between an ONNX file and a remora::Graph.
//
//     .onnx --read_model--> ModelProto --build_network--> Network --differentiate--> Network --lower--> Graph
//                                        (forward)                  (+ loss, backward)
//
// A Network is an ONNX graph with everything settled: nodes in topological order with unique names, every shape known,
// parameters told apart from activations, views pointing at what they view. Its later stages (training, cost, lowering)
// never see a protobuf message.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

#include "model/graph.hpp"

namespace remora::onnx_frontend {
using ValueId = Id<struct ValueTag>;
using NodeId = Id<struct NodeTag>;

/// Extents, outermost first; an empty shape is a scalar. Every extent is known and not negative.
using Shape = std::vector<std::int64_t>;

/// Elements of a value: their width, and if gradients flow through them.
struct ElementType {
  int bits = 32;
  bool floating = true;

  /// Bytes of an element; 0 if it has not whole bytes.
  [[nodiscard]] std::int64_t bytes() const { return bits % 8 == 0 ? bits / 8 : 0; }
};

enum class ValueKind {
  activation,  ///< computed by a node from an input of the network
  input,       ///< fed to the network: batch data
  parameter,   ///< an initializer, a constant, or computed from those alone: counted in fixed memory
};

struct Value {
  std::string name{};
  Shape shape{};
  ElementType type{};
  ValueKind kind = ValueKind::activation;
  /// Nobody can say its size (OnnxOptions::allow_unknown): `shape` is {0}, and it counts as 0 bytes.
  bool unknown = false;
  /// One of the model's outputs: the schedule must end with it resident.
  bool output = false;
  /// A parameter that training updates: floating point, of rank 1 or more, computed from initializers (or from
  /// ConstantOfShape, which stands for weights in models without them), and read as a weight by an op that is not
  /// constant itself. The flag stands on the value that the op reads, which may be a view of the initializer.
  bool trainable = false;
  /// This value shares the memory of that one (Reshape, Identity, ...); none if it has memory of its own.
  ValueId view_of{};
  /// The value whose gradient this is, or a part of it; none for all else.
  ValueId gradient_of{};
  /// An initializer of the model whose elements are in its file.
  bool stored = false;
  /// The elements of a small integer constant (a target shape, slice bounds), empty if not known.
  std::vector<std::int64_t> constant{};
};

/// The attributes of one ONNX node, by name. A missing one gives the default.
class Attributes {
 public:
  using Attribute = std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>, std::vector<double>>;

  void set(std::string name, Attribute attribute) { table_.insert_or_assign(std::move(name), std::move(attribute)); }

  [[nodiscard]] bool has(std::string_view name) const { return table_.find(name) != table_.end(); }

  /// The attribute `name` if it is there with the type of `otherwise`, else `otherwise`.
  template <class T>
  [[nodiscard]] T get(std::string_view name, T otherwise) const {
    const auto found = table_.find(name);
    if (found == table_.end()) return otherwise;
    const T* value = std::get_if<T>(&found->second);
    return value ? *value : otherwise;
  }

 private:
  std::map<std::string, Attribute, std::less<>> table_;
};

/// The attribute of a backward node that says how many bytes of parameter gradients it writes into buffers that are no
/// values of the network (ParameterGradients::fixed): traffic that its duration pays for.
inline constexpr std::string_view kBytesWrittenInPlace = "bytes_written_in_place";

/// Costs of the bodies of an op of control flow (If, Loop, Scan) in one run of it.
struct InnerRun {
  /// At most, beside the op's inputs and outputs.
  Bytes workspace{};
  /// Weights that stand in the bodies.
  Bytes fixed{};
  std::int64_t flops = 0;
  Bytes moved{};
  /// All that one run of a body makes, which the backward pass of that run has at once.
  Bytes made{};
  /// The states that all rounds begin with, from which the backward pass recomputes what they make.
  Bytes states{};
  /// They draw random numbers.
  bool random = false;
};

struct Node {
  /// Unique; shows the ONNX name.
  std::string name{};
  std::string type{};
  /// Empty for the default ONNX domain.
  std::string domain{};
  Attributes attributes{};
  /// By position as ONNX defines them; none where an optional input is left out.
  std::vector<ValueId> inputs{};
  /// By position; none where an optional output is left out or nobody uses it. (An output that the op always writes
  /// stays even if nobody reads it: a part of a Split takes memory while the op runs.)
  std::vector<ValueId> outputs{};
  /// Ops that must have run once before, in a model that is run as it is, for a shape or a type alone (node_traits.hpp).
  std::vector<NodeId> after{};
  Phase phase = Phase::forward;
  /// For a node of the backward pass: the forward node whose gradient it computes.
  NodeId backward_of{};
  /// For a backward node: the parameters whose gradients it adds into buffers that are no values of the network
  /// (ParameterGradients::fixed).
  std::vector<ValueId> gradients_in_place{};
  /// Costs of an op of control flow. Its bodies' reads of the values around them follow its own inputs.
  std::optional<InnerRun> inner{};
  /// A value that it reads or makes is of unknown size, and so is its work: it counts with no FLOPs and runs exactly once.
  bool unknown = false;
  /// Draws random numbers, has effects or is of unknown work: runs exactly once.
  bool never_recompute = false;
  /// Computed from parameters alone, before the schedule starts: it is no op of the graph.
  bool constant = false;
  /// All its outputs are views of an input: it allocates and computes nothing and is no op of the graph.
  bool view = false;
  /// The node of the model that it stands for: its position among the nodes of prepare_model (model_proto.hpp); -1 for
  /// a node that training added.
  int position = -1;
};

struct Network {
  std::string name{};
  std::vector<Value> values{};
  /// In topological order.
  std::vector<Node> nodes{};
  /// Warnings for the user, one line each: an op without a rule, an opset newer than the library.
  std::vector<std::string> warnings{};
  /// Names of the model's nodes for which those of their rounds stand here (NetworkBuilder::unroll).
  std::vector<std::string> unrolled{};
  /// Memory that is always resident beside the parameters (the parameters' gradients), in bytes.
  Bytes extra_fixed_memory{};
  /// The file that the network was read from, as the user named it; empty if there was none.
  std::string source{};
  /// Who wrote the file, as the file says.
  std::string producer{};
  /// The version of the default ONNX operator set; 0 if unknown.
  std::int64_t opset = 0;

  ValueId add_value(Value value) {
    values.push_back(std::move(value));
    return ValueId(values.size() - 1);
  }
  NodeId add_node(Node node) {
    nodes.push_back(std::move(node));
    return NodeId(nodes.size() - 1);
  }
  /// The value whose memory `id` lives in: itself, or the end of its chain of views.
  [[nodiscard]] ValueId storage(ValueId id) const {
    while (values[id].view_of.valid()) id = values[id].view_of;
    return id;
  }
};

/// The number of elements of a shape (1 for a scalar). Throws InputError on more than 2^62 elements.
std::int64_t element_count(const Shape& shape);

/// The position of an axis that may count from the end (-1 is the last); none outside of a tensor of this rank.
std::optional<std::size_t> axis_of(std::int64_t axis, std::size_t rank);

/// The bytes that a value of this shape and type occupies, rounded up to whole bytes.
Bytes byte_size(const Shape& shape, ElementType type);

/// The sum of two sizes, neither negative. Throws InputError at `place` beyond 2^63 bytes.
Bytes sum_of(Bytes one, Bytes other, const std::string& place);

// Names that are unique and still show where they came from: the first "conv1" stays, the next becomes "conv1#2".

class UniqueNames {
 public:
  /// Keeps `name` for itself: make() never makes it out of another one. Names given by a user are reserved first, so
  /// that a generated name cannot take one of theirs.
  void reserve(const std::string& name) { reserved_.insert(name); }

  /// `wanted`, or `wanted#2`, `wanted#3`, ... if an earlier call returned it already. Amortised constant time.
  std::string make(const std::string& wanted) {
    if (taken_.insert(wanted).second) return wanted;
    int& count = counts_.try_emplace(wanted, 1).first->second;
    for (;;) {
      std::string name = wanted + "#" + std::to_string(++count);
      if (!reserved_.contains(name) && taken_.insert(name).second) return name;
    }
  }

 private:
  std::unordered_set<std::string> reserved_;
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, int> counts_;
};

}  // namespace remora::onnx_frontend
