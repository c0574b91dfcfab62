// SPDX-License-Identifier: Apache-2.0
//
// Contents of the C interface's handles, and the border that no exception crosses.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/ask/ask.hpp"
#include "engine/base/options.hpp"
#include "engine/devices/ask.hpp"
#include "frontends/capi/remora_devices.h"
#include "frontends/formats/file.hpp"
#include "model/error.hpp"
#include "model/graph.hpp"
#include "model/instance.hpp"
#include "model/schedule.hpp"

/// A graph, and what tells at once that a name is taken or a tensor written already.
struct remora_graph {
  remora_graph() = default;
  explicit remora_graph(remora::Graph graph);

  remora::Graph value{};
  std::unordered_map<std::string, std::int32_t> op_ids{};
  std::unordered_map<std::string, std::int32_t> tensor_ids{};
  /// For each tensor the op that writes it, and the first one that reads it, or none.
  std::vector<remora::OpId> writers{};
  std::vector<remora::OpId> readers{};
};

/// The question without the options, which come with the call, and its baseline.
struct remora_instance {
  remora::Request request;
  remora::Duration baseline_duration;
  remora::Bytes baseline_peak;
  /// The budget as it was given: a percentage is of something else with addresses.
  std::string budget_text;
};

struct remora_options {
  remora::SolveOptions value;
};

struct remora_schedule {
  remora::Schedule value;
  /// Why it has no steps, where a solve has said so.
  remora::Refusal refusal{};
};

struct remora_device_graph {
  std::shared_ptr<const remora::DeviceGraph> value;
};

struct remora_device_schedule {
  /// The one that was solved, whose names the file has.
  std::shared_ptr<const remora::DeviceGraph> graph;
  remora::DeviceSchedule value;
  remora::Refusal refusal{};
};

struct remora_curve {
  remora::Curve value;
  /// By point.
  std::vector<remora_schedule> schedules;
};

struct remora_ordering {
  std::vector<std::int32_t> ops;
  remora::Bytes peak;
  remora::Bytes lower_bound;
};

struct remora_stop {
  std::atomic<bool> value{false};
};

// A signal handler may set it.
static_assert(std::atomic<bool>::is_always_lock_free);

namespace remora::capi {

/// Keeps the text for remora_last_error of this thread, and gives the status back.
remora_status failed(remora_status status, const char* what) noexcept;

/// Runs `body` and turns what it throws into a status and the thread's last error.
template <class Body>
remora_status guarded(const Body& body) noexcept {
  try {
    body();
    return REMORA_OK;
  } catch (const InputError& error) {
    return failed(REMORA_BAD_INPUT, error.what());
  } catch (const std::bad_alloc&) {
    return failed(REMORA_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& error) {
    return failed(REMORA_INTERNAL, error.what());
  } catch (...) {
    return failed(REMORA_INTERNAL, "an unknown exception");
  }
}

/// Throws InputError that names the argument, if it is NULL.
template <class T>
T& given(T* pointer, const char* name) {
  if (pointer == nullptr) throw InputError(name, "is NULL");
  return *pointer;
}

inline const char* text(const char* pointer, const char* name) {
  return &given(pointer, name);
}

/// Where a graph, schedule or curve is written: not under the name of a model.
inline const char* output_path(const char* path) {
  if (json::is_model_name(text(path, "path"))) throw InputError(path, "would be no ONNX model; name another file");
  return path;
}

/// An error of the model or the engine in this interface's words: ids in place of a path.
std::string in_c_words(const InputError& error);

/// Runs `body`; an InputError comes out as one of the argument.
template <class Body>
auto about(const std::string& argument, const Body& body) {
  try {
    return body();
  } catch (const InputError& error) {
    throw InputError(argument, in_c_words(error));
  }
}

/// Makes a handle by `make`, and hands it out.
template <class Handle, class Make>
remora_status made_by(Handle** made, const Make& make) noexcept {
  return guarded([&] {
    given(made, "made");
    auto handle = std::make_unique<Handle>(make());
    *made = handle.release();
  });
}

remora_progress progress_of(const Progress& progress, Bytes budget);

/// Connects the C functions for progress, heartbeat and stop to the engine's callbacks; `stopped`, which becomes true
/// once one of them wants to end, outlives these.
template <class Given, class Callbacks>
void connect(const Given& callbacks, Bytes budget, bool& stopped, Callbacks& made) {
  if (callbacks.stop != nullptr) made.cancel = &callbacks.stop->value;
  const auto reporter = [&, context = callbacks.context](auto* tell) -> std::function<void(const Progress&)> {
    if (tell == nullptr) return {};
    return [tell, context, budget, &stopped](const Progress& update) {
      if (stopped) return;
      const remora_progress given = progress_of(update, budget);
      if (tell(context, &given) != 0) stopped = true;
    };
  };
  made.progress = reporter(callbacks.progress);
  made.heartbeat = reporter(callbacks.heartbeat);
  if (made.progress || made.heartbeat) made.enough = [&stopped](const Progress&) { return stopped; };
}

/// `options` may be NULL.
Request request_from(const remora_instance& instance, const remora_options* options);

/// Throws InputError for a NULL with a count.
template <class Integer>
std::span<const Integer> array(const Integer* values, std::size_t count, const char* name) {
  if (count == 0) return {};
  constexpr std::size_t kMaximum = std::size_t{1} << 30U;
  if (count > kMaximum) throw InputError(name, std::to_string(count) + " are too many");
  return {&given(values, name), count};
}

/// Throws InputError of the argument unless the graph has such an op or tensor.
OpId op_in(const Graph& graph, std::int32_t op, const std::string& argument);
TensorId tensor_in(const Graph& graph, std::int32_t tensor, const std::string& argument);

/// Throws InputError of the argument unless all ops and tensors of the schedule's steps are the graph's.
void check_belongs(const Schedule& schedule, const Graph& graph, const std::string& argument);

/// "tensor 3 ('t3')".
std::string described(const Graph& graph, TensorId tensor);
std::string described(const Graph& graph, OpId op);

/// The part of the caller's struct that this library supports. Throws InputError for a size that none has, and for one
/// that sets
/// what only a later library knows.
remora_callbacks known_part(const remora_callbacks& callbacks);

/// The same of a struct that begins with its size and may stay zero otherwise; `own`: sizeof of this library's, `argument`: its name.
std::vector<unsigned char> known_bytes(const void* asked, std::size_t size, std::size_t own, const char* argument);

template <class Struct>
Struct known_part(const Struct& asked, std::size_t own, const char* argument) {
  const std::vector<unsigned char> bytes = known_bytes(&asked, asked.size, own, argument);
  Struct part{};
  std::memcpy(&part, bytes.data(), bytes.size());
  return part;
}

/// Fills as much of the caller's struct as both know; its size stays.
template <class Struct>
void write_known(const Struct& known, Struct& asked, const char* argument) {
  const std::size_t size = asked.size;
  // A caller's smaller struct is of an earlier header; what is beyond a larger one's known part is left alone.
  if (size < sizeof(std::size_t)) throw InputError(argument, "its size is not said: size = sizeof of the struct");
  std::memcpy(&asked, &known, std::min(size, sizeof(Struct)));
  asked.size = size;
}

/// A copy for remora_text_free.
char* copied(const std::string& text);

/// Result of `read` for a text; a fault comes out with its JSON path, behind the name of what the text came from.
template <class Read>
auto read_from(std::string_view content, const char* source, const Read& read) {
  try {
    return read(json::Text(content));
  } catch (const InputError& error) {
    throw InputError(source, error.what());
  }
}

/// A handle of the file's, or the text's, content: `from(content, source)`.
template <class Handle, class From>
remora_status made_of_file(const char* path, Handle** made, const From& from) noexcept {
  return made_by(made, [&] { return from(json::read_file(text(path, "path")), path); });
}
template <class Handle, class From>
remora_status made_of_text(const char* content, std::size_t size, Handle** made, const From& from) noexcept {
  return made_by(made, [&] { return from(std::string_view(text(content, "text"), size), "text"); });
}

/// Names leave as C texts, which end at a NUL.
template <class Rows>
void check_c_names(const Rows& rows, const char* place) {
  std::size_t i = 0;
  for (const auto& row : rows) {
    if (row.name.find('\0') != std::string::npos) {
      throw InputError(std::string(place) + "[" + std::to_string(i) + "].name", "holds a NUL");
    }
    ++i;
  }
}

/// The row, or null for an id that none has.
template <class Rows>
auto row_at(const Rows& rows, std::int32_t index) -> decltype(&*rows.begin()) {
  return index < 0 || static_cast<std::size_t>(index) >= rows.size() ? nullptr : &*(rows.begin() + index);
}

/// Its name, or NULL.
template <class Rows>
const char* name_at(const Rows& rows, std::int32_t index) {
  const auto* const row = row_at(rows, index);
  return row == nullptr ? nullptr : row->name.c_str();
}

/// Also for a schedule of another graph, in which the names are looked up.
DeviceSchedule schedule_on(const remora_device_graph& graph, const remora_device_schedule& schedule,
                           const char* source);

// The enumerations of remora.h number what they name as the engine does.
static_assert(static_cast<int>(Status::optimal) == REMORA_OPTIMAL &&
              static_cast<int>(Status::feasible) == REMORA_FEASIBLE &&
              static_cast<int>(Status::infeasible) == REMORA_INFEASIBLE &&
              static_cast<int>(Status::unknown) == REMORA_UNKNOWN);

inline remora_result result_of(Status status) {
  return static_cast<remora_result>(status);
}

/// A line for each error, for the caller to free.
template <class AnyVerdict>
void give_verdict(const AnyVerdict& verdict, int* valid, char** made) {
  std::string lines;
  for (const std::string& error : verdict.errors) lines.append(error).append("\n");
  char* const errors = verdict.valid() || made == nullptr ? nullptr : copied(lines);
  if (made != nullptr) *made = errors;
  *valid = verdict.valid() ? 1 : 0;
}

}  // namespace remora::capi
