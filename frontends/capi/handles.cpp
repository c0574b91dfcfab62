// SPDX-License-Identifier: Apache-2.0
#include "frontends/capi/handles.hpp"

#include <cstdlib>
#include <cstring>

#include "engine/base/version.hpp"

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

std::span<const std::int32_t> array(const std::int32_t* values, std::size_t count, const char* name) {
  if (count == 0) return {};
  constexpr std::size_t kMost = std::size_t{1} << 30U;
  if (count > kMost) throw InputError(name, std::to_string(count) + " are too many");
  return {&given(values, name), count};
}

OpId op_in(const Graph& graph, std::int32_t op) {
  if (op < 0 || static_cast<std::size_t>(op) >= graph.ops.size()) {
    throw InputError("op " + std::to_string(op), "the graph has " + std::to_string(graph.ops.size()) + " ops");
  }
  return OpId(op);
}

TensorId tensor_in(const Graph& graph, std::int32_t tensor) {
  if (tensor < 0 || static_cast<std::size_t>(tensor) >= graph.tensors.size()) {
    throw InputError("tensor " + std::to_string(tensor),
                     "the graph has " + std::to_string(graph.tensors.size()) + " tensors");
  }
  return TensorId(tensor);
}

void check_belongs(const Schedule& schedule, const Graph& graph) {
  for (const Step& step : schedule.steps) {
    op_in(graph, step.op);
    for (const TensorId t : step.free) tensor_in(graph, t);
  }
}

char* copied(const std::string& text) {
  auto* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) throw std::bad_alloc();
  std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

}  // namespace remora::capi

const char* remora_version(void) {
  return remora::version();
}

const char* remora_last_error(void) {
  return remora::capi::last_error().c_str();
}

void remora_text_free(char* text) {
  std::free(text);
}
