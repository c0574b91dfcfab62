// SPDX-License-Identifier: Apache-2.0
#include <ostream>
#include <string>
#include <string_view>

#include "frontends/capi/handles.hpp"
#include "frontends/formats/file.hpp"
#include "frontends/formats/json.hpp"
#include "frontends/text/refusal.hpp"
#include "frontends/text/text.hpp"
#include "model/evaluate.hpp"
#include "model/table.hpp"
#include "model/verify.hpp"

namespace remora::capi {
namespace {

/// The sequence as ops of the instance, in which every op comes after the producers of its inputs.
Sequence sequence_from(const Instance& instance, std::span<const std::int32_t> ops) {
  Sequence sequence;
  sequence.reserve(ops.size());
  Table<OpId, bool> computed(instance.op_count());
  for (const std::int32_t number : ops) {
    const OpId op = op_in(instance.graph(), number, "ops[" + std::to_string(sequence.size()) + "]");
    for (const TensorId t : instance.inputs(op)) {
      if (computed[instance.producer(t)]) continue;
      throw InputError("ops[" + std::to_string(sequence.size()) + "]",
                       "'" + instance.graph().ops[op].name + "' reads '" + instance.graph().tensors[t].name +
                           "', which is not computed before");
    }
    computed[op] = true;
    sequence.push_back(op);
  }
  return sequence;
}

/// The problem that sequences of the caller's are judged by: where the order is left open, any.
Instance problem_of(const Request& request) {
  const bool is_free = order_asked(request) != OrderRequest::input;
  return {request.graph,
          {.budget = request.budget,
           .max_computes = request.max_computes.value_or(Problem{}.max_computes),
           .order = is_free ? OrderMode::free : OrderMode::input}};
}

Schedule schedule_from(const Instance& instance, std::span<const std::int32_t> ops) {
  const Sequence sequence = sequence_from(instance, ops);
  Schedule schedule = schedule_of(instance, sequence);
  // The verdict does not check memory, because the budget is the peak; everything else follows the problem's rules.
  const Verdict verdict = verify(instance.graph(), schedule);
  if (!verdict.valid()) throw InputError("ops", verdict.errors.front());
  schedule.budget = instance.budget();
  if (schedule.peak_memory > instance.budget()) {
    schedule.status = Status::unknown;
    schedule.steps.clear();
    schedule.duration = Duration(0);
    schedule.peak_memory = Bytes(0);
  }
  return schedule;
}

/// For a schedule of the graph, by made_of_file and made_of_text.
auto reader_of(const remora_graph* graph) {
  return [graph](std::string_view content, const char* source) {
    const Graph& value = given(graph, "graph").value;
    return read_from(content, source, [&](json::Text text) {
      if (json::read_slices(text)) throw InputError("$.slices", "C programs read no schedules with slices");
      return remora_schedule{json::read_schedule(text, value)};
    });
  };
}

auto reader_of(const remora_device_graph* graph) {
  return [graph](std::string_view content, const char* source) {
    const auto& value = given(graph, "graph").value;
    return read_from(content, source, [&](json::Text text) {
      return remora_device_schedule{value, json::read_schedule(text, *value)};
    });
  };
}

std::string text_of(const remora_device_schedule& schedule) {
  return text::written([&](std::ostream& out) { json::write_schedule(out, schedule.value, *schedule.graph); });
}

/// Where a solve has just said it, what it said.
Refusal refusal_of(const remora_schedule& schedule, const Graph& graph) {
  check_belongs(schedule.value, graph, "schedule");
  if (const auto& certificate = schedule.value.certificate) {
    op_in(graph, certificate->op, "schedule");
    for (const TensorId t : certificate->tensors) tensor_in(graph, t, "schedule");
  }
  return schedule.refusal.cause == Refusal::Cause::none ? explain(graph, schedule.value) : schedule.refusal;
}

static_assert(static_cast<int>(Refusal::Cause::event) == REMORA_REASON_EVENT &&
              static_cast<int>(Refusal::Cause::packing) == REMORA_REASON_PACKING &&
              static_cast<int>(Refusal::Cause::no_way) == REMORA_REASON_NO_WAY);

std::string refusal_line(const remora_schedule& schedule, const Graph& graph) {
  return text::refusal_line(graph, schedule.value, refusal_of(schedule, graph));
}

/// For a schedule over one device or several: null for a step that it does not have.
template <class AnySchedule>
auto step_at(const AnySchedule* schedule, std::size_t step) -> decltype(&schedule->value.steps.front()) {
  if (schedule == nullptr || step >= schedule->value.steps.size()) return nullptr;
  return &schedule->value.steps[step];
}

}  // namespace

DeviceSchedule schedule_on(const remora_device_graph& graph, const remora_device_schedule& schedule,
                           const char* source) {
  return schedule.graph == graph.value ? schedule.value : reader_of(&graph)(text_of(schedule), source).value;
}

}  // namespace remora::capi

namespace capi = remora::capi;

remora_status remora_schedule_of_sequence(const remora_instance* instance, const std::int32_t* ops, std::size_t count,
                                          remora_schedule** made) {
  return capi::made_by(made, [&] {
    return remora_schedule{capi::schedule_from(capi::problem_of(capi::given(instance, "instance").request),
                                               capi::array(ops, count, "ops"))};
  });
}

remora_status remora_schedule_read(const remora_graph* graph, const char* path, remora_schedule** made) {
  return capi::made_of_file(path, made, capi::reader_of(graph));
}

remora_status remora_schedule_parse(const remora_graph* graph, const char* text, std::size_t size,
                                    remora_schedule** made) {
  return capi::made_of_text(text, size, made, capi::reader_of(graph));
}

remora_status remora_schedule_copy(const remora_schedule* schedule, remora_schedule** made) {
  return capi::made_by(made, [&] { return remora_schedule{capi::given(schedule, "schedule").value}; });
}

remora_status remora_schedule_write(const remora_schedule* schedule, const remora_graph* graph, const char* path) {
  return capi::guarded([&] {
    const remora::Schedule& value = capi::given(schedule, "schedule").value;
    const remora::Graph& of = capi::given(graph, "graph").value;
    capi::check_belongs(value, of, "schedule");
    remora::json::write_file(capi::output_path(path),
                             [&](std::ostream& out) { remora::json::write_schedule(out, value, of); });
  });
}

remora_status remora_schedule_text(const remora_schedule* schedule, const remora_graph* graph, char** made) {
  return capi::guarded([&] {
    const remora::Schedule& value = capi::given(schedule, "schedule").value;
    const remora::Graph& of = capi::given(graph, "graph").value;
    capi::check_belongs(value, of, "schedule");
    const std::string text =
        remora::text::written([&](std::ostream& out) { remora::json::write_schedule(out, value, of); });
    capi::given(made, "made") = capi::copied(text);
  });
}

void remora_schedule_free(remora_schedule* schedule) {
  delete schedule;
}

remora_status remora_schedule_verify(const remora_schedule* schedule, const remora_graph* graph, int* valid,
                                     char** made) {
  return capi::guarded([&] {
    const remora::Schedule& value = capi::given(schedule, "schedule").value;
    const remora::Graph& of = capi::given(graph, "graph").value;
    capi::given(valid, "valid");
    capi::about("graph", [&] { remora::validate(of); });
    capi::check_belongs(value, of, "schedule");
    const remora::Verdict verdict = remora::verify(of, value);
    capi::give_verdict(verdict, valid, made);
  });
}

remora_result remora_schedule_result(const remora_schedule* schedule) {
  return schedule == nullptr ? REMORA_UNKNOWN : capi::result_of(schedule->value.status);
}

std::int64_t remora_schedule_budget(const remora_schedule* schedule) {
  return schedule == nullptr ? 0 : schedule->value.budget.count();
}

std::int64_t remora_schedule_duration(const remora_schedule* schedule) {
  return schedule == nullptr ? 0 : schedule->value.duration.count();
}

std::int64_t remora_schedule_peak(const remora_schedule* schedule) {
  return schedule == nullptr ? 0 : schedule->value.peak_memory.count();
}

std::int64_t remora_schedule_lower_bound(const remora_schedule* schedule) {
  return schedule == nullptr ? 0 : schedule->value.lower_bound.count();
}

int remora_schedule_optimal_for_max_computes(const remora_schedule* schedule) {
  return schedule == nullptr ? 0 : schedule->value.solver.optimal_for_max_computes;
}

double remora_schedule_overhead(const remora_schedule* schedule) {
  return schedule == nullptr ? 0 : schedule->value.overhead();
}

double remora_schedule_gap(const remora_schedule* schedule) {
  return schedule == nullptr ? 1 : schedule->value.gap();
}

double remora_schedule_seconds(const remora_schedule* schedule) {
  return schedule == nullptr ? 0 : schedule->value.solver.seconds;
}

std::int64_t remora_schedule_work(const remora_schedule* schedule) {
  return schedule == nullptr ? 0 : schedule->value.solver.work;
}

std::size_t remora_schedule_step_count(const remora_schedule* schedule) {
  return schedule == nullptr ? 0 : schedule->value.steps.size();
}

std::int32_t remora_schedule_step_op(const remora_schedule* schedule, std::size_t step) {
  const remora::Step* const at = capi::step_at(schedule, step);
  return at == nullptr ? -1 : std::int32_t{at->op};
}

std::int32_t remora_schedule_step_mode(const remora_schedule* schedule, std::size_t step) {
  const remora::Step* const at = capi::step_at(schedule, step);
  return at == nullptr ? -1 : at->mode;
}

std::size_t remora_schedule_step_release_count(const remora_schedule* schedule, std::size_t step) {
  const remora::Step* const at = capi::step_at(schedule, step);
  return at == nullptr ? 0 : at->free.size();
}

std::int32_t remora_schedule_step_release(const remora_schedule* schedule, std::size_t step, std::size_t index) {
  const remora::Step* const at = capi::step_at(schedule, step);
  return at == nullptr || index >= at->free.size() ? -1 : std::int32_t{at->free[index]};
}

namespace {

std::int64_t offset_in(const remora::Arena::Offsets& offsets, std::int32_t tensor) {
  for (const auto& [id, offset] : offsets) {
    if (std::int32_t{id} == tensor) return offset.count();
  }
  return -1;
}

const remora::Arena* arena_in(const remora_schedule* schedule) {
  return schedule != nullptr && schedule->value.arena ? &*schedule->value.arena : nullptr;
}

}  // namespace

std::int64_t remora_schedule_arena(const remora_schedule* schedule) {
  const remora::Arena* const arena = arena_in(schedule);
  return arena == nullptr ? -1 : arena->size.count();
}

std::int64_t remora_schedule_offset(const remora_schedule* schedule, std::size_t step, std::int32_t tensor) {
  const remora::Arena* const arena = arena_in(schedule);
  return arena == nullptr || step >= arena->steps.size() ? -1 : offset_in(arena->steps[step].outputs, tensor);
}

std::int64_t remora_schedule_workspace_offset(const remora_schedule* schedule, std::size_t step) {
  const remora::Arena* const arena = arena_in(schedule);
  if (arena == nullptr || step >= arena->steps.size()) return -1;
  return arena->steps[step].workspace.value_or(remora::Bytes(-1)).count();
}

std::int64_t remora_schedule_input_offset(const remora_schedule* schedule, std::int32_t tensor) {
  const remora::Arena* const arena = arena_in(schedule);
  return arena == nullptr ? -1 : offset_in(arena->inputs, tensor);
}

remora_status remora_schedule_refusal(const remora_schedule* schedule, const remora_graph* graph,
                                      remora_refusal* filled) {
  return capi::guarded([&] {
    const remora::Refusal refusal =
        capi::refusal_of(capi::given(schedule, "schedule"), capi::given(graph, "graph").value);
    const remora_refusal known{.size = sizeof(remora_refusal),
                               .reason = static_cast<remora_reason>(refusal.cause),
                               .op = refusal.op.valid() ? std::int32_t{refusal.op} : -1,
                               .needed = refusal.needed.count(),
                               .lower_bound = refusal.lower_bound.count(),
                               .enough = refusal.enough.count()};
    capi::write_known(known, capi::given(filled, "filled"), "filled");
  });
}

remora_status remora_schedule_refusal_text(const remora_schedule* schedule, const remora_graph* graph, char** made) {
  return capi::guarded([&] {
    const std::string line = capi::refusal_line(capi::given(schedule, "schedule"), capi::given(graph, "graph").value);
    capi::given(made, "made") = capi::copied(line);
  });
}

// Several devices.

remora_status remora_device_schedule_read(const remora_device_graph* graph, const char* path,
                                          remora_device_schedule** made) {
  return capi::made_of_file(path, made, capi::reader_of(graph));
}

remora_status remora_device_schedule_parse(const remora_device_graph* graph, const char* text, std::size_t size,
                                           remora_device_schedule** made) {
  return capi::made_of_text(text, size, made, capi::reader_of(graph));
}

remora_status remora_device_schedule_write(const remora_device_schedule* schedule, const char* path) {
  return capi::guarded([&] {
    const std::string text = capi::text_of(capi::given(schedule, "schedule"));
    remora::json::write_file(capi::output_path(path), [&](std::ostream& out) { out << text; });
  });
}

remora_status remora_device_schedule_text(const remora_device_schedule* schedule, char** made) {
  return capi::guarded(
      [&] { capi::given(made, "made") = capi::copied(capi::text_of(capi::given(schedule, "schedule"))); });
}

remora_status remora_device_schedule_refusal_text(const remora_device_schedule* schedule, char** made) {
  return capi::guarded([&] {
    const remora_device_schedule& given = capi::given(schedule, "schedule");
    capi::given(made, "made") = capi::copied(remora::text::refusal_line(*given.graph, given.value, given.refusal));
  });
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
    capi::give_verdict(remora::verify(*of.value, capi::schedule_on(of, given, "schedule")), valid, made);
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
    const remora::DeviceStep* const at = capi::step_at(schedule, step);
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
    const remora::DeviceStep* const at = capi::step_at(schedule, step);
    if (at == nullptr || index >= at->free.size()) throw remora::InputError("index", "there is no such release");
    capi::given(tensor, "tensor") = std::int32_t{at->free[index].tensor};
    capi::given(device, "device") = std::int32_t{at->free[index].device};
  });
}
