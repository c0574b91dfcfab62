// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "frontends/formats/document.hpp"
#include "frontends/formats/graph_json.hpp"
#include "frontends/formats/graph_keys.hpp"
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

}  // namespace remora::json
