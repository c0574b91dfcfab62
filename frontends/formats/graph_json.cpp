// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <limits>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "frontends/formats/document.hpp"
#include "frontends/formats/json.hpp"
#include "frontends/formats/json_text.hpp"
#include "frontends/formats/keys.hpp"
#include "model/error.hpp"
#include "model/graph.hpp"
#include "model/quote.hpp"

namespace remora::json {

namespace {

constexpr std::int64_t kLatestVersion = 2;

/// What the names of one list in the file stand for. Refuses empty and repeated ones, which `validate` would do as
/// well, but only after the references to them had been taken for the fault.
template <class Identifier>
NameTable<Identifier> read_names(const Node& list, const std::string& kind) {
  list.expect_array();
  NameTable<Identifier> names("there is no " + kind, list.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Node entry = list.element(i);
    entry.expect_object();
    const Node name = entry.at("name");
    if (name.string().empty()) name.fail("a name must not be empty");
    const Identifier first = names.add(name.string(), Identifier(i));
    if (first == Identifier(i)) continue;
    name.fail("the name " + quote(name.string()) + " is taken by " +
              list.element(static_cast<std::size_t>(first)).path());
  }
  return names;
}

/// Whoever reads a graph here has no use for several devices; who has asks names_devices first (device_json.hpp).
void refuse_devices(const Node& node, std::span<const std::string_view> keys, std::int64_t version) {
  if (version == 1) return;
  for (const std::string_view key : keys) {
    if (!node.has(key)) continue;
    const Node found = node.at(key);
    found.fail(
        "the graph is for several devices, which are not supported here; docs/guide/devices.md lists what supports "
        "them");
  }
}

Tensor read_tensor(const Node& node, std::int64_t version) {
  refuse_devices(node, kDeviceTensorKeys, version);
  Tensor tensor{.name = node.at("name").string(), .size = Bytes(node.at("size").integer())};
  if (node.has("keep")) tensor.keep = node.at("keep").boolean();
  tensor.extra = node.unknown_keys(kTensorKeys);
  return tensor;
}

/// `validate` says what else a pair must be.
std::vector<InPlace> read_in_place(const Node& node, const NameTable<TensorId>& tensors) {
  node.expect_array();
  std::vector<InPlace> pairs;
  for (std::size_t i = 0; i < node.size(); ++i) {
    const Node pair = node.element(i);
    pair.expect_array();
    if (pair.size() != 2) pair.fail("must be [output, input]");
    const Node output = pair.element(0);
    const Node input = pair.element(1);
    pairs.push_back({tensors.resolve(output), tensors.resolve(input)});
  }
  return pairs;
}

bool read_recompute(const Node& node) {
  const std::string& word = node.string();
  if (word != "allowed" && word != "never") node.fail("must be \"allowed\" or \"never\", not " + quote(word));
  return word == "allowed";
}

Op read_op(const Node& node, const NameTable<TensorId>& tensors, const NameTable<OpId>& ops, std::int64_t version) {
  refuse_devices(node, kDeviceOpKeys, version);
  Op op{.name = node.at("name").string(), .duration = Duration(node.at("duration").integer())};
  op.inputs = tensors.resolve_all(node.at("inputs"));
  op.outputs = tensors.resolve_all(node.at("outputs"));
  if (node.has("type")) op.type = node.at("type").string();
  if (node.has("workspace")) op.workspace = Bytes(node.at("workspace").integer());
  if (node.has("recompute")) op.recompute = read_recompute(node.at("recompute"));
  if (node.has("max_computes")) {
    op.max_computes = static_cast<int>(node.at("max_computes").integer(1, std::numeric_limits<int>::max()));
  }
  if (node.has("phase")) op.phase = read_word(node.at("phase"), kPhaseWords);
  if (node.has("backward_of")) op.backward_of = ops.resolve(node.at("backward_of"));
  if (node.has("after")) op.after = ops.resolve_all(node.at("after"));
  if (version > 1 && node.has("in_place")) {
    const Node pairs = node.at("in_place");
    op.in_place = read_in_place(pairs, tensors);
  }
  op.extra = node.unknown_keys(op_keys(version));
  return op;
}

Graph read_root(const Node& root) {
  const std::int64_t version = expect_format(root, "remora-graph", kLatestVersion);
  refuse_devices(root, kDeviceGraphKeys, version);
  Graph graph{.name = root.at("name").string()};
  if (root.has("fixed_memory")) graph.fixed_memory = Bytes(root.at("fixed_memory").integer());
  if (root.has("meta")) {
    const Node meta = root.at("meta");
    meta.expect_object();
    graph.meta = meta.value().dump();
  }
  if (version > 1 && root.has("recompute_allocates")) {
    const Node allocation = root.at("recompute_allocates");
    graph.recompute_allocates = read_word(allocation, kAllocationWords);
  }
  graph.extra = root.unknown_keys(graph_keys(version));

  const Node tensors = root.at("tensors");
  const auto tensor_ids = read_names<TensorId>(tensors, "tensor");
  graph.tensors.reserve(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) graph.tensors.push_back(read_tensor(tensors.element(i), version));

  const Node ops = root.at("ops");
  const auto op_ids = read_names<OpId>(ops, "op");
  graph.ops.reserve(ops.size());
  for (std::size_t i = 0; i < ops.size(); ++i) {
    graph.ops.push_back(read_op(ops.element(i), tensor_ids, op_ids, version));
  }
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
  explicit GraphWriter(const Graph& graph) : graph_(graph), version_(version_of(graph)) {}

  std::string text() {
    out_.reserve(expected_size());
    ObjectText object(out_, ",\n  ");
    object.string("format", "remora-graph");
    object.integer("version", version_);
    placed("$.name", [&] { object.string("name", graph_.name); });
    object.integer("fixed_memory", graph_.fixed_memory.count());
    if (graph_.recompute_allocates == Allocation::all) object.string("recompute_allocates", "all");
    object.key("tensors");
    append_lines(out_, 2, graph_.tensors.size(), [&](std::size_t i) { write_tensor(i); });
    object.key("ops");
    append_lines(out_, 2, graph_.ops.size(), [&](std::size_t i) { write_op(i); });
    if (!graph_.meta.empty()) placed("$.meta", [&] { write_meta(object); });
    placed("$", [&] { object.splice(graph_.extra, graph_keys(version_)); });
    object.close();
    out_ += '\n';
    return std::move(out_);
  }

 private:
  /// The least that can say it.
  static std::int64_t version_of(const Graph& graph) {
    const bool in_place =
        std::any_of(graph.ops.begin(), graph.ops.end(), [](const Op& op) { return !op.in_place.empty(); });
    return in_place || graph.recompute_allocates == Allocation::all ? 2 : 1;
  }

  /// Not exactly. A text that grows is copied several times.
  [[nodiscard]] std::size_t expected_size() const {
    constexpr std::size_t kKeys = 100;
    constexpr std::size_t kQuotes = 4;
    std::size_t names = 0;
    for (const Tensor& tensor : graph_.tensors) names += tensor.name.size() + kQuotes;
    std::size_t size = names + kKeys * (1 + graph_.tensors.size() + graph_.ops.size());
    const std::size_t name = graph_.tensors.empty() ? 0 : names / graph_.tensors.size() + 1;
    for (const Op& op : graph_.ops) size += op.name.size() + name * (op.inputs.size() + op.outputs.size());
    return size;
  }

  void write_in_place(ObjectText& object, const Op& op) {
    object.key("in_place");
    out_ += '[';
    for (std::size_t i = 0; i < op.in_place.size(); ++i) {
      out_ += i > 0 ? ", [" : "[";
      append_string(out_, graph_[op.in_place[i].output].name);
      out_ += ", ";
      append_string(out_, graph_[op.in_place[i].input].name);
      out_ += ']';
    }
    out_ += ']';
  }

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
    const auto tensor_name = [&](TensorId tensor) -> const std::string& { return graph_[tensor].name; };
    const auto op_name = [&](OpId other) -> const std::string& { return graph_[other].name; };
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
      if (op.phase != Phase::none) object.string("phase", word_of(op.phase, kPhaseWords));
      if (op.backward_of.valid()) object.string("backward_of", op_name(op.backward_of));
      if (!op.after.empty()) object.names("after", op.after, op_name);
      if (!op.in_place.empty()) write_in_place(object, op);
      object.splice(op.extra, op_keys(version_));
      object.close();
    });
  }

  const Graph& graph_;
  std::int64_t version_;
  std::string out_;
};

}  // namespace

void write_graph(std::ostream& out, const Graph& graph) {
  validate(graph);
  out << GraphWriter(graph).text();
}

}  // namespace remora::json
