// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <ostream>
#include <string_view>
#include <vector>

#include "frontends/capi/handles.hpp"
#include "frontends/formats/file.hpp"
#include "frontends/formats/graph_json.hpp"

namespace remora::capi {
namespace {

Bytes bytes_from(std::int64_t bytes, const std::string& place) {
  if (bytes < 0) throw InputError(place, std::to_string(bytes) + " bytes are less than none");
  return Bytes(bytes);
}

Phase phase_from(remora_phase phase) {
  switch (phase) {
    case REMORA_PHASE_NONE:
      return Phase::none;
    case REMORA_PHASE_FORWARD:
      return Phase::forward;
    case REMORA_PHASE_LOSS:
      return Phase::loss;
    case REMORA_PHASE_BACKWARD:
      return Phase::backward;
  }
  throw InputError("phase", std::to_string(static_cast<int>(phase)) + " is not one of remora_phase");
}

/// Names leave as C texts, which end at a NUL.
Graph with_c_names(Graph graph) {
  const auto check = [](const auto& table, const char* place) {
    for (std::size_t i = 0; i < table.size(); ++i) {
      if (table[i].name.find('\0') == std::string::npos) continue;
      throw InputError(std::string(place) + "[" + std::to_string(i) + "].name", "holds a NUL");
    }
  };
  check(graph.tensors, "$.tensors");
  check(graph.ops, "$.ops");
  return graph;
}

/// The row, or null for an id that none has.
template <class Row>
const Row* row_at(const std::vector<Row>& table, std::int32_t index) {
  return index < 0 || static_cast<std::size_t>(index) >= table.size() ? nullptr
                                                                      : &table[static_cast<std::size_t>(index)];
}

const Op* op_at(const remora_graph* graph, std::int32_t op) {
  return graph == nullptr ? nullptr : row_at(graph->value.ops, op);
}

const Tensor* tensor_at(const remora_graph* graph, std::int32_t tensor) {
  return graph == nullptr ? nullptr : row_at(graph->value.tensors, tensor);
}

std::int32_t id_at(const std::vector<TensorId>& tensors, std::size_t index) {
  return index < tensors.size() ? std::int32_t{tensors[index]} : -1;
}

/// Changes one op of the graph.
template <class Change>
remora_status change_op(remora_graph* graph, std::int32_t op, const Change& change) {
  return guarded([&] {
    Graph& value = given(graph, "graph").value;
    change(value.ops[static_cast<std::size_t>(op_in(value, op))], value);
  });
}

template <class Table>
std::int32_t index_of(const Table& table, const char* name) {
  const auto at = std::find_if(table.begin(), table.end(), [&](const auto& row) { return row.name == name; });
  return at == table.end() ? -1 : static_cast<std::int32_t>(at - table.begin());
}

/// Ids given to a caller are int32.
void check_room(std::size_t size) {
  constexpr std::size_t kMost = 1U << 30U;
  if (size >= kMost) throw InputError("graph", "is full");
}

void hand_out(std::int32_t* id, std::int32_t value) {
  if (id != nullptr) *id = value;
}

}  // namespace
}  // namespace remora::capi

using remora::Graph;
using remora::Op;
using remora::OpId;
using remora::TensorId;
namespace capi = remora::capi;

remora_status remora_graph_new(const char* name, remora_graph** made) {
  return capi::made_by(made, [&] {
    remora_graph graph;
    graph.value.name = capi::text(name, "name");
    return graph;
  });
}

remora_status remora_graph_read(const char* path, remora_graph** made) {
  return capi::made_by(made, [&] {
    return remora_graph{capi::with_c_names(
        remora::json::read_graph(remora::json::Text(remora::json::read_file(capi::text(path, "path")))))};
  });
}

remora_status remora_graph_parse(const char* text, std::size_t size, remora_graph** made) {
  return capi::made_by(made, [&] {
    return remora_graph{capi::with_c_names(
        remora::json::read_graph(remora::json::Text(std::string_view(capi::text(text, "text"), size))))};
  });
}

void remora_graph_free(remora_graph* graph) {
  delete graph;
}

remora_status remora_graph_write(const remora_graph* graph, const char* path) {
  return capi::guarded([&] {
    const Graph& value = capi::given(graph, "graph").value;
    remora::json::write_file(capi::text(path, "path"),
                             [&](std::ostream& out) { remora::json::write_graph(out, value); });
  });
}

remora_status remora_graph_set_fixed_memory(remora_graph* graph, std::int64_t bytes) {
  return capi::guarded(
      [&] { capi::given(graph, "graph").value.fixed_memory = capi::bytes_from(bytes, "fixed memory"); });
}

remora_status remora_graph_set_recompute_allocates_all(remora_graph* graph, int all) {
  return capi::guarded([&] {
    capi::given(graph, "graph").value.recompute_allocates =
        all != 0 ? remora::Allocation::all : remora::Allocation::missing;
  });
}

remora_status remora_graph_add_tensor(remora_graph* graph, const char* name, std::int64_t bytes, int keep,
                                      std::int32_t* id) {
  return capi::guarded([&] {
    Graph& value = capi::given(graph, "graph").value;
    capi::check_room(value.tensors.size());
    const std::string text = capi::text(name, "name");
    capi::hand_out(id, value.add_tensor(text, capi::bytes_from(bytes, "tensor '" + text + "'"), keep != 0));
  });
}

remora_status remora_graph_add_op(remora_graph* graph, const char* name, std::int64_t duration,
                                  const std::int32_t* inputs, std::size_t input_count, const std::int32_t* outputs,
                                  std::size_t output_count, std::int32_t* id) {
  return capi::guarded([&] {
    Graph& value = capi::given(graph, "graph").value;
    capi::check_room(value.ops.size());
    Op op{.name = capi::text(name, "name"), .duration = remora::Duration(duration)};
    if (duration < 0) throw remora::InputError("op '" + op.name + "'", "its duration is less than 0");
    if (output_count == 0) throw remora::InputError("op '" + op.name + "'", "it has no outputs");
    for (const std::int32_t t : capi::array(inputs, input_count, "inputs")) {
      op.inputs.push_back(capi::tensor_in(value, t));
    }
    for (const std::int32_t t : capi::array(outputs, output_count, "outputs")) {
      op.outputs.push_back(capi::tensor_in(value, t));
    }
    capi::hand_out(id, value.add_op(std::move(op)));
  });
}

remora_status remora_graph_set_op_type(remora_graph* graph, std::int32_t op, const char* type) {
  return capi::change_op(graph, op, [&](Op& changed, const Graph&) { changed.type = capi::text(type, "type"); });
}

remora_status remora_graph_set_workspace(remora_graph* graph, std::int32_t op, std::int64_t bytes) {
  return capi::change_op(graph, op, [&](Op& changed, const Graph&) {
    changed.workspace = capi::bytes_from(bytes, "op '" + changed.name + "'");
  });
}

remora_status remora_graph_set_max_computes(remora_graph* graph, std::int32_t op, std::int32_t computes) {
  return capi::change_op(graph, op, [&](Op& changed, const Graph&) {
    if (computes < 1) throw remora::InputError("op '" + changed.name + "'", "it runs at least once");
    changed.max_computes = computes;
    changed.recompute = computes > 1;
  });
}

remora_status remora_graph_set_phase(remora_graph* graph, std::int32_t op, remora_phase phase,
                                     std::int32_t backward_of) {
  return capi::change_op(graph, op, [&](Op& changed, const Graph& value) {
    const remora::Phase part = capi::phase_from(phase);
    const OpId forward = backward_of == -1 ? OpId::none() : capi::op_in(value, backward_of);
    changed.phase = part;
    changed.backward_of = forward;
  });
}

remora_status remora_graph_add_after(remora_graph* graph, std::int32_t op, std::int32_t before) {
  return capi::change_op(graph, op,
                         [&](Op& changed, const Graph& value) { changed.after.push_back(capi::op_in(value, before)); });
}

remora_status remora_graph_add_in_place(remora_graph* graph, std::int32_t op, std::int32_t output, std::int32_t input) {
  return capi::change_op(graph, op, [&](Op& changed, const Graph& value) {
    const TensorId written = capi::tensor_in(value, output);
    changed.in_place.push_back({written, capi::tensor_in(value, input)});
  });
}

std::int32_t remora_graph_op_count(const remora_graph* graph) {
  return graph == nullptr ? 0 : static_cast<std::int32_t>(graph->value.ops.size());
}

std::int32_t remora_graph_tensor_count(const remora_graph* graph) {
  return graph == nullptr ? 0 : static_cast<std::int32_t>(graph->value.tensors.size());
}

const char* remora_graph_op_name(const remora_graph* graph, std::int32_t op) {
  const Op* const at = capi::op_at(graph, op);
  return at == nullptr ? nullptr : at->name.c_str();
}

const char* remora_graph_tensor_name(const remora_graph* graph, std::int32_t tensor) {
  const remora::Tensor* const at = capi::tensor_at(graph, tensor);
  return at == nullptr ? nullptr : at->name.c_str();
}

std::int64_t remora_graph_tensor_size(const remora_graph* graph, std::int32_t tensor) {
  const remora::Tensor* const at = capi::tensor_at(graph, tensor);
  return at == nullptr ? -1 : at->size.count();
}

int remora_graph_tensor_keep(const remora_graph* graph, std::int32_t tensor) {
  const remora::Tensor* const at = capi::tensor_at(graph, tensor);
  return at != nullptr && at->keep ? 1 : 0;
}

const char* remora_graph_op_type(const remora_graph* graph, std::int32_t op) {
  const Op* const at = capi::op_at(graph, op);
  return at == nullptr ? nullptr : at->type.c_str();
}

std::int64_t remora_graph_op_duration(const remora_graph* graph, std::int32_t op) {
  const Op* const at = capi::op_at(graph, op);
  return at == nullptr ? -1 : at->duration.count();
}

std::int64_t remora_graph_op_workspace(const remora_graph* graph, std::int32_t op) {
  const Op* const at = capi::op_at(graph, op);
  return at == nullptr ? -1 : at->workspace.count();
}

std::size_t remora_graph_op_input_count(const remora_graph* graph, std::int32_t op) {
  const Op* const at = capi::op_at(graph, op);
  return at == nullptr ? 0 : at->inputs.size();
}

std::int32_t remora_graph_op_input(const remora_graph* graph, std::int32_t op, std::size_t index) {
  const Op* const at = capi::op_at(graph, op);
  return at == nullptr ? -1 : capi::id_at(at->inputs, index);
}

std::size_t remora_graph_op_output_count(const remora_graph* graph, std::int32_t op) {
  const Op* const at = capi::op_at(graph, op);
  return at == nullptr ? 0 : at->outputs.size();
}

std::int32_t remora_graph_op_output(const remora_graph* graph, std::int32_t op, std::size_t index) {
  const Op* const at = capi::op_at(graph, op);
  return at == nullptr ? -1 : capi::id_at(at->outputs, index);
}

std::int32_t remora_graph_find_op(const remora_graph* graph, const char* name) {
  return graph == nullptr || name == nullptr ? -1 : capi::index_of(graph->value.ops, name);
}

std::int32_t remora_graph_find_tensor(const remora_graph* graph, const char* name) {
  return graph == nullptr || name == nullptr ? -1 : capi::index_of(graph->value.tensors, name);
}
