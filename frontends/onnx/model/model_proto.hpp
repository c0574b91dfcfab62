// SPDX-License-Identifier: Apache-2.0
//
// ONNX files as protobuf messages: where the bytes are damaged, the messages in the form that is read, and where their data lies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace onnx {
class ModelProto;
}  // namespace onnx

namespace remora::onnx_frontend {

/// Where a model that protobuf refuses is damaged: "graph.node[12], byte 3021 of 15618". O(size).
std::string damage_place(std::string_view content);

}  // namespace remora::onnx_frontend

namespace onnx {

// The protobuf side of reading a model: bytes to ModelProto, nodes into topological order, symbolic dimensions set.
// Private to frontends/onnx: nothing behind build_network sees a protobuf message.
class GraphProto;
class ModelProto;
class NodeProto;
}  // namespace onnx

namespace remora::onnx_frontend {

/// Parses the bytes of a .onnx file. External data is never opened: dims are all that is needed of a weight.
/// Throws InputError, with the byte where reading stopped, for truncated, empty and garbage files and for models
/// without nodes.
onnx::ModelProto parse_model(std::string_view content);

/// The version of the default operator set ("" or "ai.onnx"); 1 for the oldest files, which do not state it.
/// Throws InputError if a newer file lacks it (it stands last in a file, so the file was cut).
std::int64_t default_opset(const onnx::ModelProto& model);

/// "node conv1 (Conv)"; a node without a name is told by what it makes: "node that makes "x" (Conv)".
std::string node_place(const onnx::NodeProto& node);

/// Orders the nodes so that every node stands behind the makers of its inputs; a sorted graph stays as it is.
/// Throws InputError for a cycle, a value that nothing makes, and a value that two nodes make. O((V + E) log V).
void sort_nodes(onnx::GraphProto& graph);

/// Parses a model, writes its functions inline and sorts its nodes: the form whose nodes Node::position counts. Appends
/// to `warnings` as inline_functions does. Throws InputError.
onnx::ModelProto prepare_model(std::string_view content, std::vector<std::string>& warnings);

/// Sets dimensions of the graph's inputs: NAME for every dimension of that symbolic name, INPUT[AXIS] for one dimension
/// of one input, which may have a number already. If any is set, shapes that the file states for other values are
/// cleared, because they may rest on the old ones.
/// Throws InputError for a name that no input has, and lists those that exist.
void set_dimensions(onnx::GraphProto& graph, const std::map<std::string, std::int64_t>& dimensions);

/// `text` with control characters and runs of blanks as one blank: library messages, and names from damaged files, made
/// fit for a one-line error.
std::string one_line(std::string_view text);

// Local functions of a model (ModelProto.functions), as newer exporters write them for every module, are replaced by
// their bodies. Names inside a body get the call's name as prefix:
//
//     encoder = MyBlock(x)   with  MyBlock(a) = { t = Relu(a); y = Exp(t) }
//     becomes  encoder/t = Relu(x);  encoder = Exp(encoder/t)
//
// A name that the model has already, wherever, gets a number: encoder/t#2.

/// Replaces every call of a local function, nested calls and those in bodies too. Throws InputError for a function that calls itself,
/// for calls nested deeper than 200, and for models that would grow by more than a million nodes and calls, counted
/// before anything is written, or beyond twice the file and 256 MiB. Appends a line to `warnings` where a function states another version
/// of the default operator set than the model (the model's is used).
void inline_functions(onnx::ModelProto& model, std::vector<std::string>& warnings);

}  // namespace remora::onnx_frontend

// Names in a model, those inside the bodies of If, Loop and Scan included: which a node reads, which are taken.

namespace google::protobuf {
template <class Element>
class RepeatedPtrField;
}  // namespace google::protobuf

namespace onnx {
class GraphProto;
class ModelProto;
class NodeProto;
}  // namespace onnx

namespace remora::onnx_frontend {

/// True if any attribute of the node is a graph.
bool has_bodies(const onnx::NodeProto& node);

/// Calls `visit` with every node of a graph, those in bodies behind the one that has them.
void visit_nodes(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes,
                 const std::function<void(const onnx::NodeProto&)>& visit);

/// Calls `visit` with the name of every value that the node reads: its inputs, and what its bodies read from around
/// them, which is not what they define themselves. `visit` may change the name in place. Names left out (empty) are not
/// visited.
void visit_reads(onnx::NodeProto& node, const std::function<void(std::string&)>& visit);

/// Names that no part of a model has: not its graph, the bodies in it, its functions or its training information, be
/// they of values or of nodes.
class FreshNames {
 public:
  explicit FreshNames(const onnx::ModelProto& model);

  /// `wanted` or, if that is taken, `wanted#2` or the next number that is free.
  std::string make(const std::string& wanted);
  /// `wanted#number` or, if that is taken, with the next number that is free.
  std::string make(const std::string& wanted, int number);

 private:
  void take(const onnx::GraphProto& graph);
  template <class Nodes>
  void take_nodes(const Nodes& nodes);
  void take(const std::string& name) { taken_.insert(name); }

  std::unordered_set<std::string> taken_;
};

// Weights outside the model's file: their places are relative to the folder that the file is in. Nothing here opens them.

/// Throws InputError with the first tensor whose data lies outside the model's folder: an absolute place, one that leaves
/// it by `..`, or a link that leads out of it. Links are looked at where `folder`, the model's, is given.
void check_external_data(onnx::ModelProto& model, const std::optional<std::filesystem::path>& folder);

/// The files that the model's data is in, read from the folder `from`; one that several tensors share may be there more
/// than once. They need not exist.
std::vector<std::filesystem::path> external_files(onnx::ModelProto& model, const std::filesystem::path& from);

/// Makes the places right for a model that is read from the folder `from` and written to the folder `to` (none: not to
/// a file). A place is only changed if it has to be. Throws InputError with the tensor for data that no place relative
/// to `to` reaches without leaving it.
void move_external_data(onnx::ModelProto& model, const std::filesystem::path& from,
                        const std::optional<std::filesystem::path>& to);

}  // namespace remora::onnx_frontend
