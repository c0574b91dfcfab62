// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "frontends/capi/handles.hpp"
#include "frontends/formats/file.hpp"
#include "frontends/formats/json.hpp"

namespace remora::capi {
namespace {

Bytes bytes_from(std::int64_t bytes, const std::string& place) {
  if (bytes < 0) throw InputError(place, std::to_string(bytes) + " bytes are less than none");
  return Bytes(bytes);
}

static_assert(static_cast<int>(Phase::forward) == REMORA_PHASE_FORWARD &&
              static_cast<int>(Phase::loss) == REMORA_PHASE_LOSS &&
              static_cast<int>(Phase::backward) == REMORA_PHASE_BACKWARD);

Phase phase_from(remora_phase phase) {
  if (phase >= REMORA_PHASE_NONE && phase <= REMORA_PHASE_BACKWARD) return static_cast<Phase>(phase);
  throw InputError("phase", std::to_string(static_cast<int>(phase)) + " is not one of remora_phase");
}

void check_names(const Graph& graph) {
  check_c_names(graph.tensors, "$.tensors");
  check_c_names(graph.ops, "$.ops");
}

/// A reader of JSON says nothing of use about a model's bytes.
void expect_object(std::string_view content) {
  const auto first = content.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  if (first == std::string_view::npos || content[first] == '{') return;
  throw InputError("", "not a graph in JSON; `remora convert` makes one of an ONNX model");
}

remora_graph graph_from(std::string_view content, const char* source) {
  return read_from(content, source, [&](json::Text text) {
    expect_object(content);
    Graph graph = json::read_graph(text);
    check_names(graph);
    return remora_graph(std::move(graph));
  });
}

remora_device_graph device_graph_from(std::string_view content, const char* source) {
  return read_from(content, source, [&](json::Text text) {
    expect_object(content);
    DeviceGraph graph = json::read_device_graph(text);
    check_c_names(graph.devices, "$.devices");
    check_names(graph.graph);
    return remora_device_graph{std::make_shared<const DeviceGraph>(std::move(graph))};
  });
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
    change(value[op_in(value, op, "op")], value);
  });
}

/// Changes the op's modes; leaves them as they are where those it would have are not right.
template <class Change>
void change_modes(Op& op, const Graph& graph, const Change& change) {
  Op changed = op;
  if (!changed.modes) changed.modes.emplace();
  change(*changed.modes);
  check_modes(graph, changed, "op");
  op.modes = std::move(changed.modes);
}

using NameTable = std::unordered_map<std::string, std::int32_t>;

std::int32_t index_of(const NameTable& names, const char* name) {
  const auto at = names.find(name);
  return at == names.end() ? -1 : at->second;
}

/// Takes the name for the next op or tensor, and gives it back unless that was added.
class TakenName {
 public:
  TakenName(NameTable& names, const char* name, const char* kind) : names_(names) {
    if (*text(name, "name") == '\0') throw InputError("name", "is empty");
    const auto [place, is_new] = names.emplace(name, static_cast<std::int32_t>(names.size()));
    if (!is_new) {
      throw InputError("name",
                       std::string(kind) + " " + std::to_string(place->second) + " is already named '" + name + "'");
    }
    place_ = place;
  }
  TakenName(const TakenName&) = delete;
  TakenName& operator=(const TakenName&) = delete;
  ~TakenName() {
    if (!kept_) names_.erase(place_);
  }

  [[nodiscard]] const std::string& name() const { return place_->first; }
  void keep() { kept_ = true; }

 private:
  NameTable& names_;
  NameTable::iterator place_{};
  bool kept_ = false;
};

std::string numbered(const char* argument, std::size_t index) {
  return std::string(argument) + "[" + std::to_string(index) + "]";
}

/// Throws InputError of the argument for an output that another op writes, or that was read before.
void check_output(const remora_graph& graph, const Op& op, const std::string& argument) {
  const TensorId t = op.outputs.back();
  const OpId writer = graph.writers[t.index()];
  const OpId reader = graph.readers[t.index()];
  const std::string tensor = described(graph.value, t);
  if (writer.valid())
    throw InputError(argument, tensor + " is written by " + described(graph.value, writer) + " already");
  if (reader.valid()) {
    throw InputError(argument, tensor + " is read by " + described(graph.value, reader) +
                                   ", which was added before: ops are added in an order in which they can run");
  }
  if (std::count(op.outputs.begin(), op.outputs.end(), t) > 1) throw InputError(argument, tensor + " is there twice");
  if (std::count(op.inputs.begin(), op.inputs.end(), t) > 0) throw InputError(argument, tensor + " is an input, too");
}

/// The op with its inputs and outputs, all of them right.
Op checked_op(const remora_graph& graph, const std::string& name, std::int64_t duration,
              std::span<const std::int32_t> inputs, std::span<const std::int32_t> outputs) {
  if (duration < 0) throw InputError("duration", std::to_string(duration) + " is less than 0");
  if (outputs.empty()) throw InputError("outputs", "an op has one or more");
  Op op{.name = name, .duration = Duration(duration)};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    op.inputs.push_back(tensor_in(graph.value, inputs[i], numbered("inputs", i)));
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::string argument = numbered("outputs", i);
    op.outputs.push_back(tensor_in(graph.value, outputs[i], argument));
    check_output(graph, op, argument);
  }
  return op;
}

/// Throws InputError unless `tensor` is one of `own`, in no pair yet.
void check_side(const Graph& graph, const Op& op, const std::vector<TensorId>& own, TensorId InPlace::*side,
                TensorId tensor, const char* argument) {
  if (std::find(own.begin(), own.end(), tensor) == own.end()) {
    throw InputError(argument, described(graph, tensor) + " is not one of the op's");
  }
  for (const InPlace& pair : op.in_place) {
    if (pair.*side == tensor) throw InputError(argument, described(graph, tensor) + " is in a pair already");
  }
}

/// Ids given to a caller are int32.
void check_room(std::size_t size) {
  constexpr std::size_t kMaximum = 1U << 30U;
  if (size >= kMaximum) throw InputError("graph", "is full");
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
  return capi::made_of_file(path, made, capi::graph_from);
}

remora_status remora_graph_parse(const char* text, std::size_t size, remora_graph** made) {
  return capi::made_of_text(text, size, made, capi::graph_from);
}

void remora_graph_free(remora_graph* graph) {
  delete graph;
}

remora_status remora_graph_write(const remora_graph* graph, const char* path) {
  return capi::guarded([&] {
    const Graph& value = capi::given(graph, "graph").value;
    remora::json::write_file(capi::output_path(path),
                             [&](std::ostream& out) { remora::json::write_graph(out, value); });
  });
}

remora_status remora_graph_set_fixed_memory(remora_graph* graph, std::int64_t bytes) {
  return capi::guarded([&] { capi::given(graph, "graph").value.fixed_memory = capi::bytes_from(bytes, "bytes"); });
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
    remora_graph& into = capi::given(graph, "graph");
    capi::check_room(into.value.tensors.size());
    capi::TakenName taken(into.tensor_ids, name, "tensor");
    const remora::Bytes size = capi::bytes_from(bytes, "bytes");
    into.writers.resize(into.value.tensors.size() + 1);
    into.readers.resize(into.value.tensors.size() + 1);
    capi::hand_out(id, into.value.add_tensor(taken.name(), size, keep != 0));
    taken.keep();
  });
}

remora_status remora_graph_add_op(remora_graph* graph, const char* name, std::int64_t duration,
                                  const std::int32_t* inputs, std::size_t input_count, const std::int32_t* outputs,
                                  std::size_t output_count, std::int32_t* id) {
  return capi::guarded([&] {
    remora_graph& into = capi::given(graph, "graph");
    capi::check_room(into.value.ops.size());
    capi::TakenName taken(into.op_ids, name, "op");
    Op made = capi::checked_op(into, taken.name(), duration, capi::array(inputs, input_count, "inputs"),
                               capi::array(outputs, output_count, "outputs"));
    const OpId op = into.value.add_op(std::move(made));
    for (const TensorId t : into.value[op].outputs) into.writers[t.index()] = op;
    for (const TensorId t : into.value[op].inputs) {
      if (!into.readers[t.index()].valid()) into.readers[t.index()] = op;
    }
    capi::hand_out(id, op);
    taken.keep();
  });
}

remora_status remora_graph_set_op_type(remora_graph* graph, std::int32_t op, const char* type) {
  return capi::change_op(graph, op, [&](Op& changed, const Graph&) { changed.type = capi::text(type, "type"); });
}

remora_status remora_graph_set_workspace(remora_graph* graph, std::int32_t op, std::int64_t bytes) {
  return capi::change_op(graph, op,
                         [&](Op& changed, const Graph&) { changed.workspace = capi::bytes_from(bytes, "bytes"); });
}

remora_status remora_graph_set_max_computes(remora_graph* graph, std::int32_t op, std::int32_t computes) {
  return capi::change_op(graph, op, [&](Op& changed, const Graph&) {
    if (computes < 1) throw remora::InputError("computes", "an op runs at least once");
    changed.max_computes = computes;
    changed.recompute = computes > 1;
  });
}

remora_status remora_graph_set_phase(remora_graph* graph, std::int32_t op, remora_phase phase,
                                     std::int32_t backward_of) {
  return capi::change_op(graph, op, [&](Op& changed, const Graph& value) {
    const remora::Phase part = capi::phase_from(phase);
    const OpId forward = backward_of == -1 ? OpId::none() : capi::op_in(value, backward_of, "backward_of");
    if (forward == OpId(op)) throw remora::InputError("backward_of", "an op does not compute its own gradient");
    changed.phase = part;
    changed.backward_of = forward;
  });
}

remora_status remora_graph_add_after(remora_graph* graph, std::int32_t op, std::int32_t before) {
  return capi::change_op(graph, op, [&](Op& changed, const Graph& value) {
    const OpId earlier = capi::op_in(value, before, "before");
    if (earlier >= OpId(op)) {
      throw remora::InputError("before",
                               capi::described(value, earlier) + " was not added before op " + std::to_string(op));
    }
    if (std::find(changed.after.begin(), changed.after.end(), earlier) != changed.after.end()) return;
    changed.after.push_back(earlier);
  });
}

remora_status remora_graph_add_in_place(remora_graph* graph, std::int32_t op, std::int32_t output, std::int32_t input) {
  return capi::change_op(graph, op, [&](Op& changed, const Graph& value) {
    const TensorId written = capi::tensor_in(value, output, "output");
    const TensorId read = capi::tensor_in(value, input, "input");
    capi::check_side(value, changed, changed.outputs, &remora::InPlace::output, written, "output");
    capi::check_side(value, changed, changed.inputs, &remora::InPlace::input, read, "input");
    changed.in_place.push_back({written, read});
  });
}

remora_status remora_graph_add_mode(remora_graph* graph, std::int32_t op, std::int64_t duration, std::int64_t workspace,
                                    const std::int64_t* output_sizes, std::size_t output_count, std::int32_t* mode) {
  return capi::change_op(graph, op, [&](Op& changed, const Graph& value) {
    if (duration < 0) throw remora::InputError("duration", std::to_string(duration) + " is less than 0");
    remora::Mode added{.duration = remora::Duration(duration), .workspace = capi::bytes_from(workspace, "workspace")};
    for (const std::int64_t size : capi::array(output_sizes, output_count, "output_sizes")) {
      added.output_sizes.push_back(capi::bytes_from(size, capi::numbered("output_sizes", added.output_sizes.size())));
    }
    capi::change_modes(changed, value, [&](remora::OpModes& modes) { modes.further.emplace_back(std::move(added)); });
    capi::hand_out(mode, static_cast<std::int32_t>(changed.modes->further.size()));
  });
}

remora_status remora_graph_add_unread(remora_graph* graph, std::int32_t op, std::int32_t mode, std::int32_t tensor) {
  return capi::change_op(graph, op, [&](Op& changed, const Graph& value) {
    const TensorId unread = capi::tensor_in(value, tensor, "tensor");
    capi::change_modes(changed, value, [&](remora::OpModes& modes) {
      const bool is_there = mode == 0 || (mode > 0 && static_cast<std::size_t>(mode) <= modes.further.size());
      if (!is_there) throw remora::InputError("mode", "the op has no mode " + std::to_string(mode));
      (mode == 0 ? modes.unread : modes.further[static_cast<std::size_t>(mode) - 1]->unread).push_back(unread);
    });
  });
}

remora_status remora_graph_set_follows(remora_graph* graph, std::int32_t op, std::int32_t leader) {
  return capi::change_op(graph, op, [&](Op& changed, const Graph& value) {
    const OpId followed = capi::op_in(value, leader, "leader");
    capi::change_modes(changed, value, [&](remora::OpModes& modes) { modes.follows = followed; });
  });
}

std::int32_t remora_graph_op_count(const remora_graph* graph) {
  return graph == nullptr ? 0 : static_cast<std::int32_t>(graph->value.ops.size());
}

std::int32_t remora_graph_tensor_count(const remora_graph* graph) {
  return graph == nullptr ? 0 : static_cast<std::int32_t>(graph->value.tensors.size());
}

const char* remora_graph_op_name(const remora_graph* graph, std::int32_t op) {
  return graph == nullptr ? nullptr : capi::name_at(graph->value.ops, op);
}

const char* remora_graph_tensor_name(const remora_graph* graph, std::int32_t tensor) {
  return graph == nullptr ? nullptr : capi::name_at(graph->value.tensors, tensor);
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
  return graph == nullptr || name == nullptr ? -1 : capi::index_of(graph->op_ids, name);
}

std::int32_t remora_graph_find_tensor(const remora_graph* graph, const char* name) {
  return graph == nullptr || name == nullptr ? -1 : capi::index_of(graph->tensor_ids, name);
}

remora_status remora_graph_reordered(const remora_graph* graph, const std::int32_t* ops, std::size_t count,
                                     remora_graph** made) {
  return capi::made_by(made, [&] {
    const Graph& value = capi::given(graph, "graph").value;
    std::vector<bool> listed(value.ops.size());
    remora::Order order;
    for (const std::int32_t number : capi::array(ops, count, "ops")) {
      const std::string argument = capi::numbered("ops", order.size());
      order.push_back(capi::op_in(value, number, argument));
      if (listed[order.back().index()])
        throw remora::InputError(argument, capi::described(value, order.back()) + " is there twice");
      listed[order.back().index()] = true;
    }
    if (order.size() != value.ops.size()) throw remora::InputError("ops", "an order has every op once");
    Graph reordered = remora::reordered(value, order);
    capi::about("ops", [&] { remora::validate(reordered); });
    return remora_graph(std::move(reordered));
  });
}

// Graphs over several devices.

remora_status remora_device_graph_read(const char* path, remora_device_graph** made) {
  return capi::made_of_file(path, made, capi::device_graph_from);
}

remora_status remora_device_graph_parse(const char* text, std::size_t size, remora_device_graph** made) {
  return capi::made_of_text(text, size, made, capi::device_graph_from);
}

void remora_device_graph_free(remora_device_graph* graph) {
  delete graph;
}

remora_status remora_device_graph_write(const remora_device_graph* graph, const char* path) {
  return capi::guarded([&] {
    const remora::DeviceGraph& value = *capi::given(graph, "graph").value;
    remora::json::write_file(capi::output_path(path),
                             [&](std::ostream& out) { remora::json::write_graph(out, value); });
  });
}

std::int32_t remora_device_graph_device_count(const remora_device_graph* graph) {
  return graph == nullptr ? 0 : static_cast<std::int32_t>(graph->value->devices.size());
}

const char* remora_device_graph_device_name(const remora_device_graph* graph, std::int32_t device) {
  return graph == nullptr ? nullptr : capi::name_at(graph->value->devices, device);
}

std::int32_t remora_device_graph_find_device(const remora_device_graph* graph, const char* name) {
  if (graph == nullptr || name == nullptr) return -1;
  for (const remora::DeviceId d : graph->value->devices.ids()) {
    if (graph->value->devices[d].name == name) return std::int32_t{d};
  }
  return -1;
}

std::int32_t remora_device_graph_op_count(const remora_device_graph* graph) {
  return graph == nullptr ? 0 : static_cast<std::int32_t>(graph->value->graph.ops.size());
}

std::int32_t remora_device_graph_tensor_count(const remora_device_graph* graph) {
  return graph == nullptr ? 0 : static_cast<std::int32_t>(graph->value->graph.tensors.size());
}

const char* remora_device_graph_op_name(const remora_device_graph* graph, std::int32_t op) {
  return graph == nullptr ? nullptr : capi::name_at(graph->value->graph.ops, op);
}

const char* remora_device_graph_tensor_name(const remora_device_graph* graph, std::int32_t tensor) {
  return graph == nullptr ? nullptr : capi::name_at(graph->value->graph.tensors, tensor);
}
