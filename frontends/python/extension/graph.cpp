// SPDX-License-Identifier: Apache-2.0
#include "frontends/python/extension/graph.hpp"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "frontends/formats/axes_json.hpp"
#include "frontends/formats/keys.hpp"
#include "model/error.hpp"
#include "model/quote.hpp"

namespace remora::python {
namespace {

std::string path_of(std::string_view list, std::size_t i) {
  return std::string(list) + "[" + std::to_string(i) + "]";
}

std::string element(const std::string& path, std::string_view key, std::size_t i) {
  return path + "." + std::string(key) + "[" + std::to_string(i) + "]";
}

void check_amount(const std::string& path, std::string_view key, std::int64_t amount) {
  if (amount >= 0) return;
  throw InputError(path + "." + std::string(key), "must not be negative, but is " + std::to_string(amount));
}

template <class Names>
void check_name(const Names& names, const char* kind, const std::string& path, const std::string& name) {
  if (name.empty()) throw InputError(path + ".name", "a name must not be empty");
  const auto taken = names.find(name);
  if (taken == names.end()) return;
  throw InputError(path + ".name", "the name " + quote(name) + " is taken by " + kind + " " +
                                       std::to_string(static_cast<std::size_t>(taken->second)));
}

template <class Ids>
void check_ids(const std::string& path, std::string_view key, const Ids& ids, std::size_t count,
               std::string_view kind) {
  for (std::size_t j = 0; j < ids.size(); ++j) {
    if (ids[j].valid() && static_cast<std::size_t>(ids[j]) < count) continue;
    throw InputError(element(path, key, j), "no " + std::string(kind) + " has the number " + std::to_string(ids[j]));
  }
}

/// `id_of(name, place)` is the number of a tensor of the graph.
template <class IdOf>
std::vector<Axis> axes_of(const std::vector<NewAxis>& axes, const Graph& graph, const IdOf& id_of) {
  std::vector<Axis> result;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto& [extent, cuts, sums, workspace] = axes[i];
    const std::string place = ".axes[" + std::to_string(i) + "]";
    Axis axis{.extent = extent, .workspace = workspace};
    for (std::size_t j = 0; j < cuts.size(); ++j) {
      const auto& [name, rows, stride, step, offset, length] = cuts[j];
      const TensorId tensor = id_of(name, element(place, "cut", j) + ".tensor");
      axis.cuts.push_back(
          json::complete_cut(tensor, graph[tensor].size, extent,
                             {.rows = rows, .stride = stride, .step = step, .offset = offset, .length = length}));
    }
    for (std::size_t j = 0; j < sums.size(); ++j) axis.sums.push_back(id_of(sums[j], element(place, "sum", j)));
    result.push_back(std::move(axis));
  }
  return result;
}

template <class Id>
Id checked_id(std::int32_t id, std::size_t count, const char* kind) {
  if (id >= 0 && static_cast<std::size_t>(id) < count) return Id(id);
  throw InputError(kind, "there is none with the number " + std::to_string(id));
}

}  // namespace

GraphHandle::GraphHandle(std::string name) : graph_(std::make_shared<Graph>()) {
  graph_->name = std::move(name);
}

GraphHandle::GraphHandle(Graph graph, std::string sha256)
    : graph_(std::make_shared<Graph>(std::move(graph))), sha256_(std::move(sha256)) {
  const std::size_t tensors = graph_->tensors.size();
  tensor_ids_.reserve(tensors);
  for (std::size_t i = 0; i < tensors; ++i) {
    tensor_ids_.emplace(graph_->tensors[i].name, static_cast<std::int32_t>(i));
  }
  producers_.resize(tensors, -1);
  users_.resize(tensors);
  op_ids_.reserve(graph_->ops.size());
  for (std::size_t i = 0; i < graph_->ops.size(); ++i) index_op(i);
}

Graph& GraphHandle::change() {
  sha256_.clear();
  if (std::exchange(is_shared_, false)) graph_ = std::make_shared<Graph>(*graph_);
  return *graph_;
}

std::shared_ptr<const Graph> GraphHandle::snapshot() const {
  is_shared_ = true;
  return graph_;
}

std::int32_t GraphHandle::add_tensor(std::string name, std::int64_t size, bool keep) {
  const std::string path = path_of("tensors", graph_->tensors.size());
  check_name(tensor_ids_, "tensor", path, name);
  check_amount(path, "size", size);
  const std::int32_t id = change().add_tensor(name, Bytes(size), keep);
  tensor_ids_.emplace(std::move(name), id);
  producers_.push_back(-1);
  users_.emplace_back();
  return id;
}

std::int32_t GraphHandle::add_op(Op op, const std::vector<NewTensor>& made, const NamedParts& parts) {
  check_op(op, made);
  check_taken(op, made, parts.in_place);
  if (!parts.axes.empty()) check_new_axes(op, made, parts.axes);
  if (op.modes) {
    Op alone = op;
    alone.outputs.resize(op.outputs.size() + made.size());
    check_modes(*graph_, alone, path_of("ops", graph_->ops.size()));
  }
  for (const auto& [name, size, keep] : made) op.outputs.emplace_back(add_tensor(name, size, keep));
  for (const auto& [output, input] : parts.in_place) op.in_place.push_back({TensorId(find_tensor(output)), input});
  op.axes = axes_of(parts.axes, *graph_,
                    [&](const std::string& name, const std::string&) { return TensorId(find_tensor(name)); });
  const OpId id = change().add_op(std::move(op));
  index_op(static_cast<std::size_t>(id));
  return id;
}

void GraphHandle::set_modes(std::int32_t op, std::optional<OpModes> modes) {
  const OpId id = op_id(op);
  const std::string path = path_of("ops", id.index());
  Op changed = (*graph_)[id];
  changed.modes = std::move(modes);
  check_modes(*graph_, changed, path);
  const std::size_t further = changed.modes ? changed.modes->further.size() : 0;
  for (const TensorId output : changed.outputs) {
    for (const std::int32_t user : users(output)) {
      const auto& own = (*graph_)[OpId(user)].modes;
      if (!own || own->follows != id || own->further.size() == further) continue;
      throw InputError(path + ".modes",
                       "another number than those of its follower " + quote((*graph_)[OpId(user)].name));
    }
  }
  change()[id].modes = std::move(changed.modes);
}

void GraphHandle::check_op(const Op& op, const std::vector<NewTensor>& made) const {
  const std::string path = path_of("ops", graph_->ops.size());
  check_name(op_ids_, "op", path, op.name);
  check_amount(path, "duration", op.duration.count());
  check_amount(path, "workspace", op.workspace.count());
  if (op.max_computes.value_or(1) < 1) {
    throw InputError(path + ".max_computes", "must be at least 1, but is " + std::to_string(*op.max_computes));
  }
  check_references(op, path);
  check_outputs(op, made, path);
}

void GraphHandle::check_references(const Op& op, const std::string& path) const {
  check_ids(path, "inputs", op.inputs, graph_->tensors.size(), "tensor");
  check_ids(path, "outputs", op.outputs, graph_->tensors.size(), "tensor");
  check_ids(path, "after", op.after, graph_->ops.size(), "op");
  if (op.backward_of.valid() && static_cast<std::size_t>(op.backward_of) >= graph_->ops.size()) {
    throw InputError(path + ".backward_of", "no op has the number " + std::to_string(op.backward_of));
  }
}

void GraphHandle::check_outputs(const Op& op, const std::vector<NewTensor>& made, const std::string& path) const {
  if (op.outputs.empty() && made.empty()) {
    throw InputError(path + ".outputs", "the op " + quote(op.name) + " has no outputs");
  }
  std::unordered_set<std::int32_t> listed;
  for (std::size_t j = 0; j < op.outputs.size(); ++j) {
    const TensorId output = op.outputs[j];
    const auto fail = [&](std::string what, const std::string& after) {
      what += quote(graph_->tensors[static_cast<std::size_t>(output)].name);
      what += after;
      throw InputError(element(path, "outputs", j), what);
    };
    if (!listed.insert(output).second) fail("the op " + quote(op.name) + " lists the tensor ", " twice");
    if (const std::int32_t first = producer(output); first >= 0) {
      const auto other = static_cast<std::size_t>(first);
      fail("the tensor ", " has two producers, " + quote(graph_->ops[other].name) + " (op " + std::to_string(other) +
                              ") and " + quote(op.name));
    }
    if (!users(output).empty() || std::find(op.inputs.begin(), op.inputs.end(), output) != op.inputs.end()) {
      fail("the op " + quote(op.name) + " would write ", ", which is read before");
    }
  }
  check_made(made);
}

void GraphHandle::check_made(const std::vector<NewTensor>& made) const {
  std::unordered_set<std::string_view> names;
  for (std::size_t j = 0; j < made.size(); ++j) {
    const auto& [name, size, keep] = made[j];
    const std::string path = path_of("tensors", graph_->tensors.size() + j);
    check_name(tensor_ids_, "tensor", path, name);
    check_amount(path, "size", size);
    if (!names.insert(name).second) throw InputError(path + ".name", "the name " + quote(name) + " is taken");
  }
}

void GraphHandle::check_taken(const Op& op, const std::vector<NewTensor>& made,
                              const std::vector<TakenStorage>& taken) const {
  const std::string path = path_of("ops", graph_->ops.size());
  std::unordered_set<std::string_view> outputs;
  for (const TensorId output : op.outputs) outputs.insert((*graph_)[output].name);
  for (const auto& [name, size, keep] : made) outputs.insert(name);
  std::unordered_set<std::int32_t> inputs(op.inputs.begin(), op.inputs.end());
  for (std::size_t j = 0; j < taken.size(); ++j) {
    const auto& [output, input] = taken[j];
    if (outputs.erase(output) == 0) {
      throw InputError(element(path, "in_place", j), "no output " + quote(output) + ", or it is there twice");
    }
    if (inputs.erase(input) == 0) {
      throw InputError(element(path, "in_place", j),
                       "what " + quote(output) + " takes over is no input, or is taken twice");
    }
  }
}

/// On a graph of the op and its tensors alone.
void GraphHandle::check_new_axes(const Op& op, const std::vector<NewTensor>& made,
                                 const std::vector<NewAxis>& axes) const {
  const std::string path = path_of("ops", graph_->ops.size());
  Graph own;
  std::unordered_map<std::string, TensorId> ids;
  const auto id_of = [&](const std::string& name, Bytes size) {
    const auto [entry, is_new] = ids.emplace(name, TensorId(own.tensors.size()));
    if (is_new) own.add_tensor(name, size);
    return entry->second;
  };
  Op alone{.name = op.name, .workspace = op.workspace};
  for (const TensorId t : op.inputs) alone.inputs.push_back(id_of((*graph_)[t].name, (*graph_)[t].size));
  for (const TensorId t : op.outputs) alone.outputs.push_back(id_of((*graph_)[t].name, (*graph_)[t].size));
  for (const auto& [name, size, keep] : made) alone.outputs.push_back(id_of(name, Bytes(size)));
  alone.axes = axes_of(axes, own, [&](const std::string& name, const std::string& place) {
    const auto found = ids.find(name);
    if (found != ids.end()) return found->second;
    throw InputError(path + place, quote(name) + " is no tensor of the op " + quote(op.name));
  });
  check_axes(own, alone, path);
}

void GraphHandle::index_op(std::size_t i) {
  const auto id = static_cast<std::int32_t>(i);
  const Op& op = graph_->ops[i];
  op_ids_.emplace(op.name, id);
  for (const TensorId output : op.outputs) producers_[static_cast<std::size_t>(output)] = id;
  for (const TensorId input : op.inputs) {
    auto& readers = users_[static_cast<std::size_t>(input)];
    if (readers.empty() || readers.back() != id) readers.push_back(id);
  }
}

std::int32_t GraphHandle::find_tensor(const std::string& name) const {
  const auto found = tensor_ids_.find(name);
  return found == tensor_ids_.end() ? -1 : found->second;
}

std::int32_t GraphHandle::find_op(const std::string& name) const {
  const auto found = op_ids_.find(name);
  return found == op_ids_.end() ? -1 : found->second;
}

std::int32_t GraphHandle::producer(std::int32_t tensor) const {
  return producers_[static_cast<std::size_t>(tensor_id(tensor))];
}

const std::vector<std::int32_t>& GraphHandle::users(std::int32_t tensor) const {
  return users_[static_cast<std::size_t>(tensor_id(tensor))];
}

OpId GraphHandle::op_id(std::int32_t op) const {
  return checked_id<OpId>(op, graph_->ops.size(), "op");
}

TensorId GraphHandle::tensor_id(std::int32_t tensor) const {
  return checked_id<TensorId>(tensor, graph_->tensors.size(), "tensor");
}

Phase phase_from(std::string_view name, const std::string& place) {
  if (name.empty()) return Phase::none;
  for (const json::Word<Phase>& row : json::kPhaseWords) {
    if (row.text == name) return row.value;
  }
  const auto known = list_text(json::kPhaseWords, [](const json::Word<Phase>& row) { return quote(row.text); });
  throw InputError(place, "must be one of " + known + ", not " + quote(name));
}

std::string_view phase_name(Phase phase) {
  return phase == Phase::none ? "" : json::word_of(phase, json::kPhaseWords);
}

}  // namespace remora::python
