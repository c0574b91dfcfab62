// SPDX-License-Identifier: Apache-2.0
//
// Graphs over several devices and their schedules.
#include <algorithm>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <string_view>

#include "engine/devices/ask.hpp"
#include "frontends/capi/handles.hpp"
#include "frontends/capi/remora_devices.h"
#include "frontends/formats/file.hpp"
#include "frontends/formats/json.hpp"
#include "frontends/text/text.hpp"

struct remora_device_graph {
  std::shared_ptr<const remora::DeviceGraph> value;
};

struct remora_device_schedule {
  /// The one that was solved, whose names the file has.
  std::shared_ptr<const remora::DeviceGraph> graph;
  remora::DeviceSchedule value;
};

namespace remora::capi {
namespace {

remora_device_graph device_graph_from(std::string_view content, const char* source) {
  return read_from(content, source, [](json::Text text) {
    DeviceGraph graph = json::read_device_graph(text);
    check_c_names(graph.devices, "$.devices");
    check_c_names(graph.graph.tensors, "$.tensors");
    check_c_names(graph.graph.ops, "$.ops");
    return remora_device_graph{std::make_shared<const DeviceGraph>(std::move(graph))};
  });
}

remora_device_schedule device_schedule_from(const remora_device_graph& graph, std::string_view content,
                                            const char* source) {
  return read_from(content, source, [&](json::Text text) {
    return remora_device_schedule{graph.value, json::read_device_schedule(text, *graph.value)};
  });
}

template <class Rows>
const char* name_at(const Rows& rows, std::int32_t index) {
  const auto* const row = row_at(rows, index);
  return row == nullptr ? nullptr : row->name.c_str();
}

template <class Rows>
std::int32_t find_name(const Rows& rows, const char* name) {
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const auto& one) { return one.name == name; });
  return row == rows.end() ? -1 : static_cast<std::int32_t>(row - rows.begin());
}

devices::Request request_from(const remora_device_graph& handle, const remora_device_problem& asked) {
  const DeviceGraph& graph = *handle.value;
  devices::Request request{.graph = handle.value};
  if (asked.objective != REMORA_LEAST_DURATION && asked.objective != REMORA_LEAST_ENERGY) {
    throw InputError("problem.objective", std::to_string(asked.objective) + " is not one of remora_objective");
  }
  request.objective = asked.objective == REMORA_LEAST_ENERGY ? Objective::energy : Objective::duration;
  if (asked.order != REMORA_ORDER_INPUT && asked.order != REMORA_ORDER_FREE) {
    throw InputError("problem.order", std::to_string(asked.order) + " is neither input nor free");
  }
  request.order = asked.order == REMORA_ORDER_FREE ? OrderMode::free : OrderMode::input;
  if (asked.copies != REMORA_COPIES_SEQUENTIAL && asked.copies != REMORA_COPIES_OVERLAP) {
    throw InputError("problem.copies", std::to_string(asked.copies) + " is not one of remora_copies");
  }
  if (asked.copies == REMORA_COPIES_OVERLAP) request.copies = CopyMode::overlap;
  if (asked.max_computes < 0) throw InputError("problem.max_computes", "must not be negative");
  if (asked.max_computes > 0) request.max_computes = asked.max_computes;
  request.budget.assign(graph.devices.size(), std::nullopt);
  if (asked.budget_count > graph.devices.size()) {
    throw InputError("problem.budgets", std::to_string(asked.budget_count) + " are too many: the graph has " +
                                            std::to_string(graph.devices.size()) + " devices");
  }
  if (asked.budget_count > 0) given(asked.budgets, "problem.budgets");
  for (std::size_t d = 0; d < asked.budget_count; ++d) {
    if (asked.budgets[d] < -1)
      throw InputError("problem.budgets[" + std::to_string(d) + "]", "must be -1 (no limit) or more");
    if (asked.budgets[d] >= 0) request.budget[DeviceId(d)] = Bytes(asked.budgets[d]);
  }
  if (asked.duration_limit < 0) throw InputError("problem.duration_limit", "must not be negative");
  if (asked.energy_limit < 0) throw InputError("problem.energy_limit", "must not be negative");
  if (asked.duration_limit > 0) request.duration_limit = Duration(asked.duration_limit);
  if (asked.energy_limit > 0) request.energy_limit = Energy(asked.energy_limit);
  return request;
}

const DeviceStep* device_step_at(const remora_device_schedule* schedule, std::size_t step) {
  if (schedule == nullptr || step >= schedule->value.steps.size()) return nullptr;
  return &schedule->value.steps[step];
}

std::string text_of(const remora_device_schedule& schedule) {
  return text::written([&](std::ostream& out) { json::write_device_schedule(out, schedule.value, *schedule.graph); });
}

/// `stopped` outlives them.
devices::Callbacks callbacks_from(const remora_device_graph* graph, const remora_device_callbacks* given,
                                  bool& stopped) {
  devices::Callbacks made;
  if (given == nullptr) return made;
  const auto known = known_part(*given, sizeof(remora_device_callbacks), "callbacks");
  connect(known, Bytes(0), stopped, made);
  if (known.incumbent != nullptr) {
    made.incumbent = [known, graph, &stopped](const DeviceSchedule& schedule) {
      if (stopped) return;
      const remora_device_schedule found{graph->value, schedule};
      known.incumbent(known.context, &found);
    };
  }
  return made;
}

remora_device_schedule solved(const remora_device_graph* graph, const remora_device_problem* problem,
                              const remora_options* options, const devices::Callbacks& callbacks,
                              const remora_device_schedule* warm_start) {
  const remora_device_graph& of = given(graph, "graph");
  devices::Request request =
      request_from(of, known_part(given(problem, "problem"), sizeof(remora_device_problem), "problem"));
  if (options != nullptr) request.options = options->value;
  if (warm_start != nullptr) {
    // Of another graph the names are looked up.
    request.start = warm_start->graph == of.value
                        ? warm_start->value.steps
                        : device_schedule_from(of, text_of(*warm_start), "warm_start").value.steps;
  }
  return {of.value, about("", [&] { return devices::solve(request, callbacks); })};
}

}  // namespace
}  // namespace remora::capi

namespace capi = remora::capi;

remora_status remora_device_graph_read(const char* path, remora_device_graph** made) {
  return capi::made_by(made, [&] {
    const std::string content = remora::json::read_file(capi::text(path, "path"));
    return capi::device_graph_from(content, path);
  });
}

remora_status remora_device_graph_parse(const char* text, std::size_t size, remora_device_graph** made) {
  return capi::made_by(
      made, [&] { return capi::device_graph_from(std::string_view(capi::text(text, "text"), size), "text"); });
}

void remora_device_graph_free(remora_device_graph* graph) {
  delete graph;
}

remora_status remora_device_graph_write(const remora_device_graph* graph, const char* path) {
  return capi::guarded([&] {
    const remora::DeviceGraph& value = *capi::given(graph, "graph").value;
    remora::json::write_file(capi::text(path, "path"),
                             [&](std::ostream& out) { remora::json::write_device_graph(out, value); });
  });
}

std::int32_t remora_device_graph_device_count(const remora_device_graph* graph) {
  return graph == nullptr ? 0 : static_cast<std::int32_t>(graph->value->devices.size());
}

const char* remora_device_graph_device_name(const remora_device_graph* graph, std::int32_t device) {
  return graph == nullptr ? nullptr : capi::name_at(graph->value->devices, device);
}

std::int32_t remora_device_graph_find_device(const remora_device_graph* graph, const char* name) {
  return graph == nullptr || name == nullptr ? -1 : capi::find_name(graph->value->devices, name);
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

remora_status remora_device_solve(const remora_device_graph* graph, const remora_device_problem* problem,
                                  const remora_options* options, const remora_stop* stop,
                                  const remora_device_schedule* warm_start, remora_device_schedule** made) {
  return capi::made_by(made, [&] {
    return capi::solved(graph, problem, options, {.cancel = stop == nullptr ? nullptr : &stop->value}, warm_start);
  });
}

remora_status remora_device_solve_with_callbacks(const remora_device_graph* graph, const remora_device_problem* problem,
                                                 const remora_options* options,
                                                 const remora_device_callbacks* callbacks,
                                                 const remora_device_schedule* warm_start,
                                                 remora_device_schedule** made) {
  return capi::made_by(made, [&] {
    bool stopped = false;
    return capi::solved(graph, problem, options, capi::callbacks_from(graph, callbacks, stopped), warm_start);
  });
}

remora_status remora_device_schedule_read(const remora_device_graph* graph, const char* path,
                                          remora_device_schedule** made) {
  return capi::made_by(made, [&] {
    const remora_device_graph& of = capi::given(graph, "graph");
    const std::string content = remora::json::read_file(capi::text(path, "path"));
    return capi::device_schedule_from(of, content, path);
  });
}

remora_status remora_device_schedule_parse(const remora_device_graph* graph, const char* text, std::size_t size,
                                           remora_device_schedule** made) {
  return capi::made_by(made, [&] {
    const remora_device_graph& of = capi::given(graph, "graph");
    return capi::device_schedule_from(of, std::string_view(capi::text(text, "text"), size), "text");
  });
}

remora_status remora_device_schedule_write(const remora_device_schedule* schedule, const char* path) {
  return capi::guarded([&] {
    const std::string text = capi::text_of(capi::given(schedule, "schedule"));
    remora::json::write_file(capi::text(path, "path"), [&](std::ostream& out) { out << text; });
  });
}

remora_status remora_device_schedule_text(const remora_device_schedule* schedule, char** made) {
  return capi::guarded(
      [&] { capi::given(made, "made") = capi::copied(capi::text_of(capi::given(schedule, "schedule"))); });
}

void remora_device_schedule_free(remora_device_schedule* schedule) {
  delete schedule;
}

remora_status remora_device_schedule_verify(const remora_device_schedule* schedule, const remora_device_graph* graph,
                                            int* valid, char** made) {
  return capi::guarded([&] {
    const remora_device_schedule& given = capi::given(schedule, "schedule");
    const remora_device_graph& of = capi::given(graph, "graph");
    capi::given(valid, "valid");
    const remora::DeviceVerdict verdict =
        given.graph == of.value
            ? remora::verify(*of.value, given.value)
            : remora::verify(*of.value, capi::device_schedule_from(of, capi::text_of(given), "schedule").value);
    capi::give_verdict(verdict, valid, made);
  });
}

remora_status remora_device_schedule_facts(const remora_device_schedule* schedule, remora_device_facts* facts) {
  return capi::guarded([&] {
    const remora::DeviceSchedule& value = capi::given(schedule, "schedule").value;
    remora_device_facts known{};
    known.result = capi::result_of(value.status);
    known.objective = value.objective == remora::Objective::energy ? REMORA_LEAST_ENERGY : REMORA_LEAST_DURATION;
    known.copies = value.copies == remora::CopyMode::overlap ? REMORA_COPIES_OVERLAP : REMORA_COPIES_SEQUENTIAL;
    known.duration = value.duration.count();
    known.energy = value.energy.count();
    known.lower_bound = value.lower_bound;
    known.baseline_duration = value.baseline_duration.count();
    known.step_count = value.steps.size();
    known.seconds = value.solver.seconds;
    known.work = value.solver.work;
    known.optimal_for_max_computes = value.solver.optimal_for_max_computes;
    capi::write_known(known, capi::given(facts, "facts"), "facts");
  });
}

std::int64_t remora_device_schedule_budget(const remora_device_schedule* schedule, std::int32_t device) {
  if (schedule == nullptr || device < 0 || remora::at(device) >= schedule->value.budget.size()) return -1;
  return schedule->value.budget[remora::DeviceId(device)].value_or(remora::Bytes(-1)).count();
}

std::int64_t remora_device_schedule_peak(const remora_device_schedule* schedule, std::int32_t device) {
  if (schedule == nullptr || device < 0 || remora::at(device) >= schedule->value.peak_memory.size()) return -1;
  return schedule->value.peak_memory[remora::DeviceId(device)].count();
}

remora_status remora_device_schedule_step(const remora_device_schedule* schedule, std::size_t step,
                                          remora_device_step* made) {
  return capi::guarded([&] {
    capi::given(schedule, "schedule");
    const remora::DeviceStep* const at = capi::device_step_at(schedule, step);
    if (at == nullptr) {
      throw remora::InputError("step", "there is no step " + std::to_string(step) + "; the schedule has " +
                                           std::to_string(schedule->value.steps.size()));
    }
    remora_device_step known{};
    known.op = at->is_copy() ? -1 : std::int32_t{at->op};
    known.tensor = at->is_copy() ? std::int32_t{at->copied} : -1;
    known.device = std::int32_t{at->device};
    known.to = at->is_copy() ? std::int32_t{at->to} : -1;
    known.release_count = at->free.size();
    capi::write_known(known, capi::given(made, "made"), "made");
  });
}

remora_status remora_device_schedule_release(const remora_device_schedule* schedule, std::size_t step,
                                             std::size_t index, std::int32_t* tensor, std::int32_t* device) {
  return capi::guarded([&] {
    capi::given(schedule, "schedule");
    const remora::DeviceStep* const at = capi::device_step_at(schedule, step);
    if (at == nullptr || index >= at->free.size()) throw remora::InputError("index", "there is no such release");
    capi::given(tensor, "tensor") = std::int32_t{at->free[index].tensor};
    capi::given(device, "device") = std::int32_t{at->free[index].device};
  });
}
