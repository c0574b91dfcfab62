// SPDX-License-Identifier: Apache-2.0
#include "frontends/formats/graph_json.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <ostream>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "frontends/formats/document.hpp"
#include "frontends/formats/graph_keys.hpp"
#include "frontends/formats/json_text.hpp"
#include "model/error.hpp"
#include "model/graph.hpp"
#include "model/quote.hpp"

namespace remora::json {

namespace {

/// What the names of one list in the file stand for. Refuses empty and repeated ones, which `validate` would do as
/// well, but only after the references to them had been taken for the fault.
template <class Identifier>
class NameTable {
 public:
  NameTable(const Node& list, std::string_view kind) : kind_(kind) {
    list.expect_array();
    ids_.reserve(list.size());
    for (std::size_t i = 0; i < list.size(); ++i) {
      const Node entry = list.element(i);
      entry.expect_object();
      const Node name = entry.at("name");
      if (name.string().empty()) name.fail("a name must not be empty");
      const auto [first, inserted] = ids_.emplace(name.string(), Identifier(i));
      if (inserted) continue;
      name.fail("the name " + quote(name.string()) + " is taken by " +
                list.element(static_cast<std::size_t>(first->second)).path());
    }
  }

  [[nodiscard]] Identifier resolve(const Node& name) const {
    const auto found = ids_.find(name.string());
    if (found == ids_.end()) name.fail("there is no " + std::string(kind_) + " " + quote(name.string()));
    return found->second;
  }

  [[nodiscard]] std::vector<Identifier> resolve_all(const Node& names) const {
    names.expect_array();
    std::vector<Identifier> ids;
    ids.reserve(names.size());
    for (std::size_t i = 0; i < names.size(); ++i) ids.push_back(resolve(names.element(i)));
    return ids;
  }

 private:
  std::string_view kind_;
  std::unordered_map<std::string_view, Identifier> ids_;  // the names stay in the document
};

Tensor read_tensor(const Node& node) {
  Tensor tensor{.name = node.at("name").string(), .size = Bytes(node.at("size").integer())};
  if (node.has("keep")) tensor.keep = node.at("keep").boolean();
  tensor.extra = node.unknown_keys(kTensorKeys);
  return tensor;
}

bool read_recompute(const Node& node) {
  const std::string& word = node.string();
  if (word != "allowed" && word != "never") node.fail("must be \"allowed\" or \"never\", not " + quote(word));
  return word == "allowed";
}

Phase read_phase(const Node& node) {
  const std::string& word = node.string();
  const auto found = std::find_if(kPhaseNames.begin(), kPhaseNames.end(),
                                  [&](const PhaseName& candidate) { return candidate.name == word; });
  if (found == kPhaseNames.end()) {
    node.fail("must be \"forward\", \"loss\" or \"backward\", not " + quote(word));
  }
  return found->phase;
}

Op read_op(const Node& node, const NameTable<TensorId>& tensors, const NameTable<OpId>& ops) {
  Op op{.name = node.at("name").string(), .duration = Duration(node.at("duration").integer())};
  op.inputs = tensors.resolve_all(node.at("inputs"));
  op.outputs = tensors.resolve_all(node.at("outputs"));
  if (node.has("type")) op.type = node.at("type").string();
  if (node.has("workspace")) op.workspace = Bytes(node.at("workspace").integer());
  if (node.has("recompute")) op.recompute = read_recompute(node.at("recompute"));
  if (node.has("max_computes")) {
    op.max_computes = static_cast<int>(node.at("max_computes").integer(1, std::numeric_limits<int>::max()));
  }
  if (node.has("phase")) op.phase = read_phase(node.at("phase"));
  if (node.has("backward_of")) op.backward_of = ops.resolve(node.at("backward_of"));
  if (node.has("after")) op.after = ops.resolve_all(node.at("after"));
  op.extra = node.unknown_keys(kOpKeys);
  return op;
}

Graph read_root(const Node& root) {
  expect_format(root, "remora-graph");
  Graph graph{.name = root.at("name").string()};
  if (root.has("fixed_memory")) graph.fixed_memory = Bytes(root.at("fixed_memory").integer());
  if (root.has("meta")) {
    const Node meta = root.at("meta");
    meta.expect_object();
    graph.meta = meta.value().dump();
  }
  graph.extra = root.unknown_keys(kGraphKeys);

  const Node tensors = root.at("tensors");
  const NameTable<TensorId> tensor_ids(tensors, "tensor");
  graph.tensors.reserve(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) graph.tensors.push_back(read_tensor(tensors.element(i)));

  const Node ops = root.at("ops");
  const NameTable<OpId> op_ids(ops, "op");
  graph.ops.reserve(ops.size());
  for (std::size_t i = 0; i < ops.size(); ++i) graph.ops.push_back(read_op(ops.element(i), tensor_ids, op_ids));
  return graph;
}

}  // namespace

Graph read_graph(Text text) {
  const Document document = parse(text.view());
  Graph graph = read_root(Node(document));
  validate(graph);
  return graph;
}

namespace {

/// The methods write one entry each; a failure inside gets its place in the file.
class GraphWriter {
 public:
  explicit GraphWriter(const Graph& graph) : graph_(graph) {}

  std::string text() {
    ObjectText object(out_, ",\n  ");
    object.string("format", "remora-graph");
    object.integer("version", 1);
    placed("$.name", [&] { object.string("name", graph_.name); });
    object.integer("fixed_memory", graph_.fixed_memory.count());
    object.key("tensors");
    append_lines(out_, 2, graph_.tensors.size(), [&](std::size_t i) { write_tensor(i); });
    object.key("ops");
    append_lines(out_, 2, graph_.ops.size(), [&](std::size_t i) { write_op(i); });
    if (!graph_.meta.empty()) placed("$.meta", [&] { write_meta(object); });
    placed("$", [&] { object.splice(graph_.extra, kGraphKeys); });
    object.close();
    out_ += '\n';
    return std::move(out_);
  }

 private:
  template <class Body>
  static void placed(const std::string& path, const Body& body) {
    try {
      body();
    } catch (const InputError& error) {
      throw InputError(path, error.what());
    }
  }

  void write_meta(ObjectText& object) {
    const Document meta = parse(graph_.meta);
    Node(meta).expect_object();
    object.key("meta");
    out_ += meta.dump();
  }

  void write_tensor(std::size_t i) {
    const Tensor& tensor = graph_.tensors[i];
    placed("$.tensors" + path_step(i), [&] {
      ObjectText object(out_);
      object.string("name", tensor.name);
      object.integer("size", tensor.size.count());
      if (tensor.keep) object.boolean("keep", true);
      object.splice(tensor.extra, kTensorKeys);
      object.close();
    });
  }

  void write_op(std::size_t i) {
    const Op& op = graph_.ops[i];
    const auto tensor_name = [&](TensorId tensor) -> const std::string& {
      return graph_.tensors[static_cast<std::size_t>(tensor)].name;
    };
    const auto op_name = [&](OpId other) -> const std::string& {
      return graph_.ops[static_cast<std::size_t>(other)].name;
    };
    placed("$.ops" + path_step(i), [&] {
      ObjectText object(out_);
      object.string("name", op.name);
      if (!op.type.empty()) object.string("type", op.type);
      object.integer("duration", op.duration.count());
      if (op.workspace != Bytes()) object.integer("workspace", op.workspace.count());
      object.names("inputs", op.inputs, tensor_name);
      object.names("outputs", op.outputs, tensor_name);
      if (!op.recompute) object.string("recompute", "never");
      if (op.max_computes) object.integer("max_computes", *op.max_computes);
      if (op.phase != Phase::none) object.string("phase", phase_name(op.phase));
      if (op.backward_of.valid()) object.string("backward_of", op_name(op.backward_of));
      if (!op.after.empty()) object.names("after", op.after, op_name);
      object.splice(op.extra, kOpKeys);
      object.close();
    });
  }

  static std::string_view phase_name(Phase phase) {
    return std::find_if(kPhaseNames.begin(), kPhaseNames.end(),
                        [&](const PhaseName& candidate) { return candidate.phase == phase; })
        ->name;
  }

  const Graph& graph_;
  std::string out_;
};

}  // namespace

void write_graph(std::ostream& out, const Graph& graph) {
  validate(graph);
  out << GraphWriter(graph).text();
}

}  // namespace remora::json
