// SPDX-License-Identifier: Apache-2.0
#include "frontends/capi/handles.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "engine/base/options.hpp"

namespace remora::capi {
namespace {

std::string& last_error() {
  thread_local std::string text;
  return text;
}

}  // namespace

remora_status failed(remora_status status, const char* what) noexcept {
  try {
    last_error() = what;
  } catch (...) {
    // Not even memory for the text: it is cut to what the string has.
    last_error().clear();
  }
  return status;
}

namespace {

template <class Row>
std::size_t index_in(const std::vector<Row>& table, std::int32_t number, const std::string& argument,
                     const char* kind) {
  if (number >= 0 && static_cast<std::size_t>(number) < table.size()) return static_cast<std::size_t>(number);
  throw InputError(argument, std::string("there is no ") + kind + " " + std::to_string(number) + "; the graph has " +
                                 std::to_string(table.size()));
}

/// "ops[3].inputs[0]" as "op 3, inputs[0]".
std::string place_in_words(std::string_view path) {
  for (const auto& [list, kind] : {std::pair{"ops[", "op "}, std::pair{"tensors[", "tensor "}}) {
    const std::size_t end = path.find(']');
    if (!path.starts_with(list) || end == std::string_view::npos) continue;
    const std::size_t begin = std::string_view(list).size();
    const std::string_view rest = path.substr(end + 1);
    return kind + std::string(path.substr(begin, end - begin)) +
           (rest.starts_with('.') ? ", " + std::string(rest.substr(1)) : "");
  }
  return std::string(path);
}

}  // namespace

std::string in_c_words(const InputError& error) {
  if (error.place().empty()) return error.what();
  return place_in_words(error.place()) + ": " + error.fault();
}

Request request_from(const remora_instance& instance, const remora_options* options) {
  Request request = instance.request;
  if (options != nullptr) request.options = options->value;
  return request;
}

OpId op_in(const Graph& graph, std::int32_t op, const std::string& argument) {
  return OpId(index_in(graph.ops, op, argument, "op"));
}

TensorId tensor_in(const Graph& graph, std::int32_t tensor, const std::string& argument) {
  return TensorId(index_in(graph.tensors, tensor, argument, "tensor"));
}

void check_belongs(const Schedule& schedule, const Graph& graph, const std::string& argument) {
  for (const Step& step : schedule.steps) {
    op_in(graph, step.op, argument);
    for (const TensorId t : step.free) tensor_in(graph, t, argument);
  }
}

std::string described(const Graph& graph, TensorId tensor) {
  return "tensor " + std::to_string(tensor) + " ('" + graph[tensor].name + "')";
}

std::string described(const Graph& graph, OpId op) {
  return "op " + std::to_string(op) + " ('" + graph[op].name + "')";
}

remora_callbacks known_part(const remora_callbacks& callbacks) {
  // The first version with a size ended here.
  constexpr std::size_t kMinimum = offsetof(remora_callbacks, heartbeat);
  const std::size_t size = callbacks.size;
  constexpr std::size_t kMaximum = 4096;
  if (size < kMinimum || size > kMaximum) {
    throw InputError("callbacks", "its size is " + std::to_string(size) + ": say callbacks.size = sizeof callbacks");
  }
  return known_part(callbacks, sizeof(remora_callbacks), "callbacks");
}

std::vector<unsigned char> known_bytes(const void* asked, std::size_t size, std::size_t own, const char* argument) {
  constexpr std::size_t kMaximum = 4096;
  if (size < sizeof(std::size_t) || size > kMaximum) {
    throw InputError(argument,
                     "its size is " + std::to_string(size) + ": say " + argument + ".size = sizeof " + argument);
  }
  const auto* const bytes = static_cast<const unsigned char*>(asked);
  const std::size_t known = std::min(size, own);
  if (std::any_of(bytes + known, bytes + size, [](unsigned char byte) { return byte != 0; })) {
    throw InputError(argument, "sets what only a later Remora than " + std::string(version()) + " knows");
  }
  return {bytes, bytes + known};
}

char* copied(const std::string& text) {
  auto* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) throw std::bad_alloc();
  std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

}  // namespace remora::capi

remora_graph::remora_graph(remora::Graph graph)
    : value(std::move(graph)), writers(value.tensors.size()), readers(value.tensors.size()) {
  for (std::size_t t = 0; t < value.tensors.size(); ++t) {
    tensor_ids.emplace(value.tensors[t].name, static_cast<std::int32_t>(t));
  }
  for (std::size_t v = 0; v < value.ops.size(); ++v) {
    const remora::Op& op = value.ops[v];
    op_ids.emplace(op.name, static_cast<std::int32_t>(v));
    for (const remora::TensorId t : op.outputs) writers[t.index()] = remora::OpId(v);
    for (const remora::TensorId t : op.inputs) {
      if (!readers[t.index()].valid()) readers[t.index()] = remora::OpId(v);
    }
  }
}

const char* remora_version(void) {
  return remora::version();
}

const char* remora_last_error(void) {
  return remora::capi::last_error().c_str();
}

void remora_text_free(char* text) {
  std::free(text);
}
