// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/ask/ask.hpp"
#include "engine/base/deadline.hpp"
#include "frontends/capi/handles.hpp"
#include "model/budget.hpp"
#include "model/evaluate.hpp"

namespace remora::capi {
namespace {

static_assert(static_cast<int>(OrderRequest::automatic) == REMORA_ORDER_AUTO &&
              static_cast<int>(OrderRequest::free) == REMORA_ORDER_FREE);
static_assert(static_cast<int>(Event::phase) == REMORA_EVENT_PHASE &&
              static_cast<int>(Event::bound) == REMORA_EVENT_BOUND &&
              static_cast<int>(Event::round) == REMORA_EVENT_ROUND);

OrderRequest order_from(remora_order order) {
  if (order >= REMORA_ORDER_INPUT && order <= REMORA_ORDER_AUTO) return static_cast<OrderRequest>(order);
  throw InputError("order", std::to_string(static_cast<int>(order)) + " is not one of remora_order");
}

remora_instance make_instance(const Graph& graph, const std::string& budget, int max_computes, OrderRequest order) {
  if (max_computes < 0) throw InputError("max_computes", "must not be negative");
  Request request{.graph = std::make_shared<const Graph>(graph), .order = order};
  if (max_computes > 0) request.max_computes = max_computes;
  const Instance instance = about("graph", [&] { return Instance(request.graph, {}); });
  const Bytes peak = baseline_peak(instance);
  request.budget = about("budget", [&] { return parse_budget(budget, graph.fixed_memory, peak); });
  return {.request = std::move(request),
          .baseline_duration = instance.baseline_duration(),
          .baseline_peak = peak,
          .budget_text = budget};
}

const std::vector<OptionRow>& rows() {
  static const std::vector<OptionRow> rows = option_rows();
  return rows;
}

/// Throws InputError unless there is such an option.
void check_option_name(const char* name) {
  const std::string wanted = option_name(text(name, "name"));
  const auto is_it = [&](const OptionRow& row) { return row.name == wanted; };
  if (std::any_of(rows().begin(), rows().end(), is_it)) return;
  throw InputError("name", "there is no option '" + wanted + "'");
}

/// The C functions as the engine's callbacks; `stopped` outlives them.
SolveCallbacks callbacks_from(const remora_callbacks& callbacks, Bytes budget, bool& stopped) {
  SolveCallbacks made;
  connect(callbacks, budget, stopped, made);
  if (callbacks.incumbent != nullptr) {
    made.incumbent = [incumbent = callbacks.incumbent, context = callbacks.context,
                      &stopped](const Schedule& schedule) {
      if (stopped) return;
      const remora_schedule given{schedule};
      incumbent(context, &given);
    };
  }
  return made;
}

}  // namespace

remora_progress progress_of(const Progress& progress, Bytes budget) {
  return {.size = sizeof(remora_progress),
          .seconds = progress.seconds,
          .phase = progress.phase,
          .duration = progress.duration.count(),
          .peak = progress.peak.count(),
          .lower_bound = progress.lower_bound.count(),
          .work = progress.work,
          .source = progress_label(progress),
          .event = static_cast<remora_event>(progress.event),
          .budget = budget.count()};
}

}  // namespace remora::capi

namespace capi = remora::capi;

remora_status remora_instance_new(const remora_graph* graph, const char* budget, std::int32_t max_computes,
                                  remora_order order, remora_instance** made) {
  return capi::made_by(made, [&] {
    return capi::make_instance(capi::given(graph, "graph").value, capi::text(budget, "budget"), max_computes,
                               capi::order_from(order));
  });
}

void remora_instance_free(remora_instance* instance) {
  delete instance;
}

std::int64_t remora_instance_budget(const remora_instance* instance) {
  return instance == nullptr ? 0 : instance->request.budget.count();
}

std::int64_t remora_instance_baseline_duration(const remora_instance* instance) {
  return instance == nullptr ? 0 : instance->baseline_duration.count();
}

std::int64_t remora_instance_baseline_peak(const remora_instance* instance) {
  return instance == nullptr ? 0 : instance->baseline_peak.count();
}

remora_status remora_options_new(remora_options** made) {
  return capi::made_by(made, [] { return remora_options{}; });
}

void remora_options_free(remora_options* options) {
  delete options;
}

remora_status remora_options_set(remora_options* options, const char* name, const char* value) {
  return capi::guarded([&] {
    remora::SolveOptions changed = capi::given(options, "options").value;
    capi::check_option_name(name);
    capi::about("value", [&] {
      remora::set_option(changed, name, capi::text(value, "value"));
      remora::check_options(changed);
    });
    options->value = changed;
  });
}

remora_status remora_options_get(const remora_options* options, const char* name, char** made) {
  return capi::guarded([&] {
    const remora::SolveOptions& value = capi::given(options, "options").value;
    capi::check_option_name(name);
    const std::string wanted = remora::option_name(name);
    for (const auto& [option, text] : remora::describe_options(value)) {
      if (option != wanted) continue;
      capi::given(made, "made") = capi::copied(text);
      return;
    }
  });
}

const char* remora_option_name(std::size_t index) {
  return index < capi::rows().size() ? capi::rows()[index].name : nullptr;
}

const char* remora_option_help(std::size_t index) {
  return index < capi::rows().size() ? capi::rows()[index].help.c_str() : nullptr;
}

remora_status remora_stop_new(remora_stop** made) {
  return capi::guarded([&] { capi::given(made, "made") = std::make_unique<remora_stop>().release(); });
}

void remora_stop_free(remora_stop* stop) {
  delete stop;
}

void remora_stop_request(remora_stop* stop) {
  if (stop != nullptr) stop->value.store(true);
}

void remora_stop_reset(remora_stop* stop) {
  if (stop != nullptr) stop->value.store(false);
}

namespace {

remora_status solved(const remora_instance* instance, const remora_options* options,
                     std::optional<remora::Bytes> alignment, const remora_callbacks* callbacks,
                     const remora_schedule* warm_start, remora_schedule** made) {
  return capi::made_by(made, [&] {
    remora::Request request = capi::request_from(capi::given(instance, "instance"), options);
    request.alignment = alignment;
    if (alignment) {
      capi::about("", [&] { remora::check_alignment(*alignment); });
      request.budget = capi::about("budget", [&] { return remora::budget_of(instance->budget_text, request); });
    }
    if (warm_start != nullptr) {
      capi::check_belongs(warm_start->value, *request.graph, "warm_start");
      request.warm_start = remora::computes_of(warm_start->value);
    }
    bool stopped = false;
    const remora::SolveCallbacks given =
        callbacks != nullptr ? capi::callbacks_from(capi::known_part(*callbacks), request.budget, stopped)
                             : remora::SolveCallbacks{};
    remora::Answer answer = capi::about("", [&] { return remora::solve(request, given); });
    return remora_schedule{std::move(answer.schedule), std::move(answer.refusal)};
  });
}

}  // namespace

remora_status remora_solve(const remora_instance* instance, const remora_options* options,
                           const remora_callbacks* callbacks, const remora_schedule* warm_start,
                           remora_schedule** made) {
  return solved(instance, options, std::nullopt, callbacks, warm_start, made);
}

remora_status remora_solve_with_addresses(const remora_instance* instance, const remora_options* options,
                                          std::int64_t alignment, const remora_callbacks* callbacks,
                                          const remora_schedule* warm_start, remora_schedule** made) {
  return solved(instance, options, remora::Bytes(alignment), callbacks, warm_start, made);
}

namespace remora::capi {
namespace {

Buffer buffer_from(const remora_buffer& given, std::size_t number) {
  Buffer buffer{.id = "buffers[" + std::to_string(number) + "]",
                .lifespan = {given.lower, given.upper},
                .size = Bytes(given.size),
                .alignment = Bytes(given.alignment)};
  if (given.offset < -1) throw InputError(buffer.id + ".offset", "must be -1 or more");
  if (given.offset >= 0) buffer.offset = Bytes(given.offset);
  if (given.gaps == nullptr && given.gap_count > 0) throw InputError(buffer.id + ".gaps", "is NULL");
  for (std::size_t i = 0; i < given.gap_count; ++i) buffer.gaps.push_back({given.gaps[2 * i], given.gaps[2 * i + 1]});
  return buffer;
}

/// Reads the options of placements and reports their progress.
class Placer {
 public:
  Placer(const remora_options* options, const remora_stop* stop, remora_result* result, std::int64_t* arena,
         std::int64_t* lower_bound)
      : options_(options == nullptr ? SolveOptions{} : options->value),
        deadline_(options_.time_limit, stop == nullptr ? nullptr : &stop->value),
        result_(result),
        arena_(arena),
        lower_bound_(lower_bound) {}

  [[nodiscard]] PlaceSettings settings() const { return place_settings(options_); }
  [[nodiscard]] std::function<bool()> interrupted() const {
    return [this] { return deadline_.reached(); };
  }
  void tell(const PlaceResult& found) const {
    if (result_ != nullptr) *result_ = result_of(found.status);
    if (arena_ != nullptr) *arena_ = found.arena.count();
    if (lower_bound_ != nullptr) *lower_bound_ = found.lower_bound.count();
  }

 private:
  SolveOptions options_;
  Deadline deadline_;
  remora_result* result_;
  std::int64_t* arena_;
  std::int64_t* lower_bound_;
};

}  // namespace
}  // namespace remora::capi

remora_status remora_place(const remora_buffer* buffers, std::size_t count, std::int64_t capacity,
                           const remora_options* options, const remora_stop* stop, remora_result* result,
                           std::int64_t* offsets, std::int64_t* arena, std::int64_t* lower_bound) {
  return capi::guarded([&] {
    if (count > 0) capi::given(buffers, "buffers");
    std::vector<remora::Buffer> read;
    for (std::size_t i = 0; i < count; ++i) read.push_back(capi::buffer_from(buffers[i], i));
    const capi::Placer placer(options, stop, result, arena, lower_bound);
    remora::PlaceSettings settings = placer.settings();
    if (capacity >= 0) settings.capacity = remora::Bytes(capacity);
    const remora::PlaceResult found = remora::place(read, settings, placer.interrupted());
    if (offsets != nullptr) {
      std::transform(found.offsets.begin(), found.offsets.end(), offsets, [](auto offset) { return offset.count(); });
    }
    placer.tell(found);
  });
}

remora_status remora_schedule_place(const remora_schedule* schedule, const remora_graph* graph, std::int64_t alignment,
                                    const remora_options* options, const remora_stop* stop, remora_result* result,
                                    std::int64_t* arena, std::int64_t* lower_bound, remora_schedule** made) {
  return capi::made_by(made, [&] {
    const remora::Graph& value = capi::given(graph, "graph").value;
    remora_schedule placed{capi::given(schedule, "schedule").value};
    capi::about("graph", [&] { remora::validate(value); });
    capi::check_belongs(placed.value, value, "schedule");
    const capi::Placer placer(options, stop, result, arena, lower_bound);
    placer.tell(
        remora::place_schedule(value, placed.value, remora::Bytes(alignment), placer.settings(), placer.interrupted()));
    return placed;
  });
}

namespace remora::capi {
namespace {

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
    request.warm_start = schedule_on(of, *warm_start, "warm_start").steps;
  }
  devices::Answer answer = about("", [&] { return devices::solve(request, callbacks); });
  return {of.value, std::move(answer.schedule), std::move(answer.refusal)};
}

}  // namespace
}  // namespace remora::capi

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
