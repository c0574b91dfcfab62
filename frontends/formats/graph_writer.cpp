// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <ostream>

#include "frontends/formats/document.hpp"
#include "frontends/formats/graph_json.hpp"
#include "frontends/formats/graph_keys.hpp"
#include "frontends/formats/json_text.hpp"
#include "model/error.hpp"

namespace remora::json {
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
