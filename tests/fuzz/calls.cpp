// SPDX-License-Identifier: Apache-2.0
//
// Each byte chooses a call and its arguments, of what was made so far or of nothing. Whatever the arguments, a call ends
// with a status, and a schedule that a solve gives is valid.
#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "frontends/capi/remora.h"
#include "tests/fuzz/target.hpp"

namespace remora::fuzz {
namespace {

constexpr std::size_t kMaxCalls = 60;
constexpr std::int32_t kMaxOps = 12;

/// Things of one kind that were made, to be freed in the end.
template <class Thing>
class Made {
 public:
  explicit Made(void (*free)(Thing*)) : free_(free) {}
  ~Made() {
    for (Thing* thing : things_) free_(thing);
  }
  Made(const Made&) = delete;
  Made& operator=(const Made&) = delete;

  void add(remora_status status, Thing* thing) {
    expect((status == REMORA_OK) == (thing != nullptr), "a call gives something or says why not");
    if (status != REMORA_OK) expect(std::strlen(remora_last_error()) > 0, "an error says something");
    if (thing != nullptr) things_.push_back(thing);
  }
  /// One of them, or null.
  Thing* any(Draw& draw) const {
    const std::uint32_t k = draw.below(static_cast<std::uint32_t>(things_.size()) + 1);
    return k < things_.size() ? things_[k] : nullptr;
  }

 private:
  void (*free_)(Thing*);
  std::vector<Thing*> things_;
};

class Calls {
 public:
  explicit Calls(Input bytes) : draw_(bytes) {}

  void run() {
    begin();
    for (std::size_t i = 0; i < kMaxCalls && !draw_.empty(); ++i) call();
  }

 private:
  /// A graph and options under which a solve is short.
  void begin() {
    remora_graph* graph = nullptr;
    const remora_status status = remora_graph_new("fuzz", &graph);
    graphs_.add(status, graph);
    usual_options();
  }

  remora_options* usual_options() {
    remora_options* options = nullptr;
    options_.add(remora_options_new(&options), options);
    shorten(options);
    return options;
  }

  static void shorten(remora_options* options) {
    for (const auto& [name, value] : {std::pair{"time_limit", "0.2"}, {"work_limit", "100"}, {"threads", "1"}}) {
      expect(remora_options_set(options, name, value) == REMORA_OK, "usual options");
    }
  }

  std::string name() {
    static constexpr std::array kNames{"a", "b", "c", "d", "", "\xff", "seed", "strategy", "threads"};
    const std::uint8_t kind = draw_.byte();
    if (kind < 160) return kNames[kind % 4];
    if (kind < 230) return kNames[kind % kNames.size()];
    return std::string(draw_.text(40));
  }
  std::int32_t id() { return static_cast<std::int32_t>(draw_.below(18)) - 2; }
  std::vector<std::int32_t> ids() {
    std::vector<std::int32_t> result(draw_.below(4));
    for (std::int32_t& one : result) one = id();
    return result;
  }
  std::string budget() {
    static constexpr std::array kBudgets{"80%", "50%", "100%", "0", "1GiB", "-1", "12", "nonsense"};
    const std::uint8_t kind = draw_.byte();
    return kind < 200 ? kBudgets[kind % kBudgets.size()] : std::to_string(draw_.amount());
  }

  void call() {
    switch (draw_.below(12)) {
      case 0:
      case 1:
        return add_tensor();
      case 2:
      case 3:
        return add_op();
      case 4:
        return change_op();
      case 5:
        return ask_graph();
      case 6:
        return make_instance();
      case 7:
        return set_option();
      case 8:
        return solve();
      case 9:
        return use_schedule();
      case 10:
        return order();
      default:
        return place();
    }
  }

  void add_tensor() {
    std::int32_t made = 0;
    static_cast<void>(remora_graph_add_tensor(graphs_.any(draw_), name().c_str(), draw_.amount(),
                                              static_cast<int>(draw_.below(2)), draw_.below(2) == 0 ? nullptr : &made));
  }

  void add_op() {
    remora_graph* graph = graphs_.any(draw_);
    if (graph != nullptr && remora_graph_op_count(graph) >= kMaxOps) return;
    const auto inputs = ids();
    const auto outputs = ids();
    static_cast<void>(remora_graph_add_op(graph, name().c_str(), draw_.amount(), inputs.data(), inputs.size(),
                                          outputs.data(), outputs.size(), nullptr));
  }

  void change_op() {
    remora_graph* graph = graphs_.any(draw_);
    switch (draw_.below(7)) {
      case 0:
        static_cast<void>(remora_graph_set_op_type(graph, id(), name().c_str()));
        break;
      case 1:
        static_cast<void>(remora_graph_set_workspace(graph, id(), draw_.amount()));
        break;
      case 2:
        static_cast<void>(remora_graph_set_max_computes(graph, id(), id()));
        break;
      case 3:
        static_cast<void>(remora_graph_set_phase(graph, id(), static_cast<remora_phase>(draw_.below(4)), id()));
        break;
      case 4:
        static_cast<void>(remora_graph_add_after(graph, id(), id()));
        break;
      case 5:
        static_cast<void>(remora_graph_add_in_place(graph, id(), id(), id()));
        break;
      default:
        static_cast<void>(remora_graph_set_fixed_memory(graph, draw_.amount()));
    }
  }

  void ask_graph() {
    const remora_graph* graph = graphs_.any(draw_);
    const std::int32_t one = id();
    static_cast<void>(remora_graph_op_name(graph, one));
    static_cast<void>(remora_graph_tensor_name(graph, one));
    static_cast<void>(remora_graph_tensor_size(graph, one));
    static_cast<void>(remora_graph_tensor_keep(graph, one));
    static_cast<void>(remora_graph_op_type(graph, one));
    static_cast<void>(remora_graph_op_duration(graph, one));
    static_cast<void>(remora_graph_op_workspace(graph, one));
    static_cast<void>(remora_graph_op_input(graph, one, draw_.below(4)));
    static_cast<void>(remora_graph_op_output(graph, one, draw_.below(4)));
    static_cast<void>(remora_graph_op_input_count(graph, one));
    static_cast<void>(remora_graph_op_output_count(graph, one));
    static_cast<void>(remora_graph_find_op(graph, name().c_str()));
    static_cast<void>(remora_graph_find_tensor(graph, name().c_str()));
  }

  void make_instance() {
    remora_instance* instance = nullptr;
    const remora_graph* graph = graphs_.any(draw_);
    const auto order = static_cast<remora_order>(draw_.below(2));
    const remora_status status = remora_instance_new(graph, budget().c_str(), id(), order, &instance);
    instances_.add(status, instance);
    if (status == REMORA_OK) expect(remora_instance_budget(instance) >= 0, "a budget is not negative");
  }

  void set_option() {
    remora_options* options = options_.any(draw_);
    const char* option = draw_.below(3) == 0 ? nullptr : remora_option_name(draw_.below(40));
    const std::string name = option == nullptr ? this->name() : option;
    static constexpr std::array kValues{"on", "off", "1", "0", "0.5", "cp", "local", "greedy", "rotor", "sqrt", "-3"};
    static_cast<void>(remora_options_set(options, name.c_str(), kValues[draw_.below(kValues.size())]));
    char* value = nullptr;
    if (remora_options_get(options, name.c_str(), &value) == REMORA_OK) remora_text_free(value);
    if (options != nullptr) shorten(options);
  }

  void solve() {
    const remora_instance* instance = instances_.any(draw_);
    remora_schedule* made = nullptr;
    remora_callbacks callbacks{};
    callbacks.size = sizeof callbacks;
    callbacks.context = this;
    callbacks.progress = [](void* context, const remora_progress*) {
      return ++static_cast<Calls*>(context)->calls_ % 5 == 0 ? 1 : 0;
    };
    // Without options of ours the limit would be a minute.
    remora_options* options = options_.any(draw_);
    if (options == nullptr) options = usual_options();
    const remora_callbacks* given = draw_.below(3) == 0 ? &callbacks : nullptr;
    const remora_schedule* warm = draw_.below(2) == 0 ? schedules_.any(draw_) : nullptr;
    const remora_status status =
        draw_.below(3) == 0 ? remora_solve_with_addresses(instance, options, draw_.amount(), given, warm, &made)
                            : remora_solve(instance, options, given, warm, &made);
    schedules_.add(status, made);
    if (status == REMORA_OK) expect_within(instance, made);
  }

  static void expect_within(const remora_instance* instance, const remora_schedule* schedule) {
    const remora_result result = remora_schedule_result(schedule);
    if (result != REMORA_OPTIMAL && result != REMORA_FEASIBLE) return;
    expect(remora_schedule_peak(schedule) <= remora_instance_budget(instance), "a schedule is within its budget");
    expect(remora_schedule_lower_bound(schedule) <= remora_schedule_duration(schedule), "a bound is no more");
    expect(remora_schedule_duration(schedule) >= remora_instance_baseline_duration(instance), "each op is computed");
    expect(remora_schedule_gap(schedule) >= 0 && remora_schedule_overhead(schedule) >= 0, "a gap is not negative");
  }

  void sweep() {
    const remora_instance* instance = instances_.any(draw_);
    const remora_options* usual = usual_options();
    std::vector<std::string> texts(draw_.below(4));
    for (std::string& text : texts) text = budget();
    std::vector<const char*> budgets;
    for (const std::string& text : texts) budgets.push_back(text.c_str());
    remora_curve* curve = nullptr;
    const std::int32_t points = static_cast<std::int32_t>(draw_.below(5)) - 1;
    if (remora_sweep(instance, usual, budgets.data(), budgets.size(), points, nullptr, &curve) != REMORA_OK) return;
    const std::size_t count = remora_curve_point_count(curve);
    expect(remora_curve_schedule(curve, count) == nullptr, "a point beyond the last is none");
    expect(remora_curve_knee(curve) < static_cast<std::int64_t>(count), "the knee is a point");
    for (std::size_t i = 0; i < count; ++i) {
      const remora_schedule* schedule = remora_curve_schedule(curve, i);
      expect(schedule != nullptr, "a point has an answer");
      if (remora_schedule_step_count(schedule) > 0) {
        expect(remora_schedule_peak(schedule) <= remora_schedule_budget(schedule), "a point is within its budget");
      }
      remora_schedule* copy = nullptr;
      const remora_status status = remora_schedule_copy(schedule, &copy);
      if (i == 0) {
        schedules_.add(status, copy);
      } else {
        remora_schedule_free(copy);
      }
    }
    expect(remora_curve_write(curve, "/dev/null") == REMORA_OK, "a curve is written");
    remora_curve_free(curve);
  }

  /// A schedule gets addresses, or a word why not.
  void place_schedule(const remora_schedule* schedule, const remora_graph* graph) {
    const remora_options* usual = usual_options();
    remora_result result{};
    std::int64_t arena = 0;
    std::int64_t bound = 0;
    remora_schedule* made = nullptr;
    const remora_status status =
        remora_schedule_place(schedule, graph, draw_.amount(), usual, nullptr, &result, &arena, &bound, &made);
    if (made != nullptr) expect(status == REMORA_OK && bound <= arena, "a bound is no more than the arena");
    remora_schedule_free(made);
  }

  void use_schedule() {
    const remora_schedule* schedule = schedules_.any(draw_);
    const remora_graph* graph = graphs_.any(draw_);
    int valid = 0;
    char* text = nullptr;
    if (remora_schedule_verify(schedule, graph, &valid, &text) == REMORA_OK) remora_text_free(text);
    text = nullptr;
    if (remora_schedule_text(schedule, graph, &text) == REMORA_OK) {
      remora_schedule* again = nullptr;
      const remora_status status = remora_schedule_parse(graph, text, std::strlen(text), &again);
      schedules_.add(status, again);
      remora_text_free(text);
    }
    for (const std::size_t step : {std::size_t{0}, remora_schedule_step_count(schedule), SIZE_MAX}) {
      static_cast<void>(remora_schedule_step_op(schedule, step));
      static_cast<void>(remora_schedule_step_release(schedule, step, draw_.below(3)));
      static_cast<void>(remora_schedule_offset(schedule, step, id()));
      static_cast<void>(remora_schedule_workspace_offset(schedule, step));
    }
    static_cast<void>(remora_schedule_arena(schedule));
    static_cast<void>(remora_schedule_input_offset(schedule, id()));
    static_cast<void>(remora_schedule_write(schedule, graph, "/dev/null"));
    static_cast<void>(remora_graph_write(graph, "/dev/null"));
    place_schedule(schedule, graph);
    const remora_instance* instance = instances_.any(draw_);
    std::vector<std::int32_t> sequence(draw_.below(16));
    for (std::int32_t& op : sequence) op = id();
    remora_schedule* made = nullptr;
    const remora_status status = remora_schedule_of_sequence(instance, sequence.data(), sequence.size(), &made);
    schedules_.add(status, made);
  }

  void order() {
    const remora_instance* instance = instances_.any(draw_);
    const remora_options* usual = usual_options();
    remora_ordering* made = nullptr;
    if (remora_order_ops(instance, usual, nullptr, nullptr, &made) != REMORA_OK) return;
    expect(remora_ordering_lower_bound(made) <= remora_ordering_peak(made), "a bound is no more than the peak");
    std::vector<std::int32_t> ops;
    for (std::size_t i = 0; i < remora_ordering_op_count(made); ++i) ops.push_back(remora_ordering_op(made, i));
    remora_ordering_free(made);
    remora_graph* reordered = nullptr;
    const remora_graph* graph = graphs_.any(draw_);
    const remora_status status = remora_graph_reordered(graph, ops.data(), ops.size(), &reordered);
    graphs_.add(status, reordered);
    sweep();
  }

  void place() {
    std::vector<remora_buffer> buffers(draw_.below(6));
    for (remora_buffer& buffer : buffers) {
      buffer = {.lower = draw_.amount(),
                .upper = draw_.amount(),
                .size = draw_.amount(),
                .alignment = draw_.below(4) == 0 ? draw_.amount() : 1,
                .offset = draw_.below(4) == 0 ? draw_.amount() : -1,
                .gaps = nullptr,
                .gap_count = 0};
    }
    std::vector<std::int64_t> offsets(buffers.size());
    remora_result result{};
    std::int64_t arena = 0;
    std::int64_t bound = 0;
    const remora_options* usual = usual_options();
    const std::int64_t capacity = draw_.below(2) == 0 ? -1 : draw_.amount();
    const remora_status status =
        remora_place(buffers.data(), buffers.size(), capacity, usual, nullptr, &result, offsets.data(), &arena, &bound);
    if (status == REMORA_OK && result == REMORA_OPTIMAL && capacity < 0) expect(arena == bound, "an optimum is proved");
  }

  Draw draw_;
  int calls_ = 0;
  Made<remora_graph> graphs_{remora_graph_free};
  Made<remora_instance> instances_{remora_instance_free};
  Made<remora_options> options_{remora_options_free};
  Made<remora_schedule> schedules_{remora_schedule_free};
};

}  // namespace

void fuzz_calls(Input bytes) {
  Calls(bytes).run();
}

}  // namespace remora::fuzz
