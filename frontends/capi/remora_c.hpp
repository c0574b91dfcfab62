// SPDX-License-Identifier: Apache-2.0
//
// The C interface as C++ classes, for programs that are built without exceptions: C++17, -fno-exceptions -fno-rtti.
//
//     remora::c::Graph graph("step");
//     const int32_t a = graph.add_tensor("a", 4096);
//     graph.add_op("f", 120, {}, {a});
//     ...
//     remora::c::Instance instance(graph, "80%");
//     remora::c::Schedule schedule(instance);
//     if (!schedule.ok()) return fail(schedule.error());
//
// Every object says by ok() whether all calls on it succeeded, and by error() why the first one that failed did; calls on an
// object that is not ok do nothing and give -1. What is made of an object that is not ok has its error. Handles free
// themselves, are moved and not copied; get() is the handle for the functions of remora.h, which says what each call does.
// Nothing is thrown, but an allocation of the standard library may end the program, as it does without exceptions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <remora_devices.h>

namespace remora::c {

/// Message of the first failure.
class Checked {
 public:
  [[nodiscard]] bool ok() const { return status_ == REMORA_OK; }
  [[nodiscard]] remora_status status() const { return status_; }
  /// One line; empty where ok() holds.
  [[nodiscard]] const std::string& error() const { return error_; }

 protected:
  /// Keeps what a call said; whether it succeeded.
  bool take(remora_status status) {
    if (status != REMORA_OK) fail(status, remora_last_error());
    return status == REMORA_OK;
  }
  void fail(remora_status status, const std::string& error) {
    status_ = status;
    error_ = error;
  }
  void fail_as(const Checked& other) { fail(other.status_, other.error_); }

 private:
  remora_status status_ = REMORA_OK;
  std::string error_{};
};

template <class T, void (*free)(T*)>
class Handle : public Checked {
 public:
  [[nodiscard]] T* get() const { return handle_.get(); }

 protected:
  struct Free {
    void operator()(T* handle) const { free(handle); }
  };
  std::unique_ptr<T, Free> handle_{};
};

class Graph : public Handle<remora_graph, remora_graph_free> {
 public:
  explicit Graph(const char* name) {
    remora_graph* made = nullptr;
    take(remora_graph_new(name, &made));
    handle_.reset(made);
  }

  /// Ids, or -1.
  std::int32_t add_tensor(const char* name, std::int64_t bytes, bool keep = false) {
    std::int32_t id = -1;
    return ok() && take(remora_graph_add_tensor(get(), name, bytes, keep ? 1 : 0, &id)) ? id : -1;
  }
  std::int32_t add_op(const char* name, std::int64_t duration, const std::vector<std::int32_t>& inputs,
                      const std::vector<std::int32_t>& outputs) {
    std::int32_t id = -1;
    return ok() && take(remora_graph_add_op(get(), name, duration, inputs.data(), inputs.size(), outputs.data(),
                                            outputs.size(), &id))
               ? id
               : -1;
  }
  /// For the functions that change a graph: graph.set(remora_graph_set_fixed_memory, 1 << 30).
  template <class... Given, class... Values>
  bool set(remora_status (*change)(remora_graph*, Given...), Values... values) {
    return ok() && take(change(get(), values...));
  }
};

class Options : public Handle<remora_options, remora_options_free> {
 public:
  Options() {
    remora_options* made = nullptr;
    take(remora_options_new(&made));
    handle_.reset(made);
  }
  bool set(const char* name, const char* value) { return ok() && take(remora_options_set(get(), name, value)); }
};

class Instance : public Handle<remora_instance, remora_instance_free> {
 public:
  Instance(const Graph& graph, const char* budget, std::int32_t max_computes = 0,
           remora_order order = REMORA_ORDER_INPUT) {
    remora_instance* made = nullptr;
    if (graph.ok()) take(remora_instance_new(graph.get(), budget, max_computes, order, &made));
    if (!graph.ok()) fail_as(graph);
    handle_.reset(made);
  }
};

class Schedule : public Handle<remora_schedule, remora_schedule_free> {
 public:
  /// Solves. The pointers may be null.
  explicit Schedule(const Instance& instance, const Options* options = nullptr,
                    const remora_callbacks* callbacks = nullptr, const Schedule* warm_start = nullptr) {
    remora_schedule* made = nullptr;
    if (!instance.ok()) {
      fail_as(instance);
    } else if (options != nullptr && !options->ok()) {
      fail_as(*options);
    } else {
      take(remora_solve(instance.get(), options == nullptr ? nullptr : options->get(), callbacks,
                        warm_start == nullptr ? nullptr : warm_start->get(), &made));
    }
    handle_.reset(made);
  }

  /// True if there are steps. Without, result() says why: infeasible or unknown.
  [[nodiscard]] bool found() const { return step_count() > 0; }
  [[nodiscard]] remora_result result() const { return remora_schedule_result(get()); }
  /// Why there are no steps, and which budget would be enough, in one line; empty where there are some.
  [[nodiscard]] std::string refusal(const Graph& graph) const {
    char* text = nullptr;
    if (remora_schedule_refusal_text(get(), graph.get(), &text) != REMORA_OK) return remora_last_error();
    std::string line = text;
    remora_text_free(text);
    return line;
  }
  [[nodiscard]] double overhead() const { return remora_schedule_overhead(get()); }
  [[nodiscard]] std::int64_t duration() const { return remora_schedule_duration(get()); }
  [[nodiscard]] std::int64_t peak() const { return remora_schedule_peak(get()); }
  [[nodiscard]] std::size_t step_count() const { return remora_schedule_step_count(get()); }
  [[nodiscard]] std::int32_t op(std::size_t step) const { return remora_schedule_step_op(get(), step); }
  [[nodiscard]] std::int32_t mode(std::size_t step) const { return remora_schedule_step_mode(get(), step); }
  [[nodiscard]] std::size_t release_count(std::size_t step) const {
    return remora_schedule_step_release_count(get(), step);
  }
  [[nodiscard]] std::int32_t release(std::size_t step, std::size_t index) const {
    return remora_schedule_step_release(get(), step, index);
  }
};

// Several devices (docs/guide/devices.md):
//
//     remora::c::DeviceGraph graph = remora::c::DeviceGraph::read("two-devices.json");
//     remora::c::DeviceSchedule schedule(graph, {6, -1});
//     for (std::size_t i = 0; i < schedule.step_count(); ++i) run(schedule.step(i));

class DeviceGraph : public Handle<remora_device_graph, remora_device_graph_free> {
 public:
  static DeviceGraph read(const char* path) {
    DeviceGraph graph;
    remora_device_graph* made = nullptr;
    graph.take(remora_device_graph_read(path, &made));
    graph.handle_.reset(made);
    return graph;
  }
  static DeviceGraph parse(const std::string& text) {
    DeviceGraph graph;
    remora_device_graph* made = nullptr;
    graph.take(remora_device_graph_parse(text.data(), text.size(), &made));
    graph.handle_.reset(made);
    return graph;
  }

  /// Ids, or -1.
  [[nodiscard]] std::int32_t device(const char* name) const { return remora_device_graph_find_device(get(), name); }
  [[nodiscard]] std::int32_t device_count() const { return remora_device_graph_device_count(get()); }

 private:
  DeviceGraph() = default;
};

class DeviceSchedule : public Handle<remora_device_schedule, remora_device_schedule_free> {
 public:
  /// Solves under these budgets, by device, -1 for no limit. `problem`: all else of it; its size and budgets are not looked at.
  DeviceSchedule(const DeviceGraph& graph, const std::vector<std::int64_t>& budgets, remora_device_problem problem = {},
                 const Options* options = nullptr, const remora_stop* stop = nullptr,
                 const DeviceSchedule* warm_start = nullptr) {
    remora_device_schedule* made = nullptr;
    problem.size = sizeof problem;
    problem.budgets = budgets.data();
    problem.budget_count = budgets.size();
    if (!graph.ok()) {
      fail_as(graph);
    } else if (options != nullptr && !options->ok()) {
      fail_as(*options);
    } else {
      take(remora_device_solve(graph.get(), &problem, options == nullptr ? nullptr : options->get(), stop,
                               warm_start == nullptr ? nullptr : warm_start->get(), &made));
    }
    handle_.reset(made);
    facts_.size = sizeof facts_;
    if (ok()) take(remora_device_schedule_facts(get(), &facts_));
  }

  [[nodiscard]] bool found() const { return step_count() > 0; }
  [[nodiscard]] const remora_device_facts& facts() const { return facts_; }
  [[nodiscard]] std::size_t step_count() const { return facts_.step_count; }
  [[nodiscard]] std::int64_t peak(std::int32_t device) const { return remora_device_schedule_peak(get(), device); }
  /// Values of a step; all are -1 if there is none.
  [[nodiscard]] remora_device_step step(std::size_t number) const {
    remora_device_step step{};
    step.size = sizeof step;
    step.op = step.tensor = step.device = step.to = -1;
    static_cast<void>(remora_device_schedule_step(get(), number, &step));
    return step;
  }

 private:
  remora_device_facts facts_{};
};

}  // namespace remora::c
