// SPDX-License-Identifier: Apache-2.0
//
// Overlapped steps under a clock, for verify: it goes from one end of a step to the next, and starts whatever can start then.
// (The evaluator takes the steps in their order instead, device_evaluate.cpp.) O(steps * (streams + memory that is due back)).
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "model/devices/schedule.hpp"

namespace remora {

/// Steps on streams of their own, under a clock. It knows nothing of ops and tensors: only of steps that wait for others.
class StreamClock {
 public:
  struct Task {
    /// The ends of a link; or the device, twice, and its lane.
    std::tuple<DeviceId, DeviceId, LaneId> stream{};
    Duration lasts{};
    /// Where it takes memory, and how much.
    DeviceId device{};
    Bytes bytes{};
    /// Steps that must have ended before.
    std::set<int> waits{};
  };
  /// Memory that comes back once all these steps have ended, for steps after the one that says so.
  struct Return {
    int step = 0;
    Bytes bytes{};
    std::set<int> waits{};
  };

  explicit StreamClock(Table<DeviceId, Bytes> base) : held_(std::move(base)), returns_(held_.size()) {}

  void add(Task task) {
    const int step = static_cast<int>(tasks_.size());
    streams_[task.stream].push_back(step);
    takers_[task.device].push_back(step);
    tasks_.push_back(std::move(task));
  }
  void give_back(DeviceId device, Return back) { returns_[device].push_back(std::move(back)); }

  /// Until all have ended; the first step that can never start, if one cannot.
  std::optional<int> run(const Table<DeviceId, std::optional<Bytes>>& budget, DeviceVerdict& verdict) {
    ends_.assign(tasks_.size(), std::nullopt);
    found_.resize(tasks_.size());
    while (started_ < tasks_.size()) {
      while (start_one(budget)) {
      }
      const auto next = moments_.upper_bound(now_);
      if (next == moments_.end()) break;
      now_ = *next;
    }
    const auto waits = std::find(ends_.begin(), ends_.end(), std::nullopt);
    if (waits != ends_.end()) return static_cast<int>(waits - ends_.begin());
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      const DeviceId d = tasks_[i].device;
      verdict.duration = std::max(verdict.duration, *ends_[i]);
      if (found_[i] <= verdict.peak[d]) continue;
      verdict.peak[d] = found_[i];
      verdict.peak_step[d] = static_cast<int>(i);
    }
    return std::nullopt;
  }

  [[nodiscard]] const Task& task(int step) const { return tasks_[at(step)]; }

 private:
  struct Line : std::vector<int> {
    std::size_t next = 0;
    [[nodiscard]] bool is_next(int step) const { return next < size() && (*this)[next] == step; }
  };

  [[nodiscard]] bool has_ended(int step) const { return ends_[at(step)] && *ends_[at(step)] <= now_; }
  [[nodiscard]] bool have_ended(const std::set<int>& steps) const {
    return std::all_of(steps.begin(), steps.end(), [&](int step) { return has_ended(step); });
  }

  /// Starts the first step in the order of the schedule that can start now, if one can.
  bool start_one(const Table<DeviceId, std::optional<Bytes>>& budget) {
    Line* first = nullptr;
    for (auto& [name, stream] : streams_) {
      if (stream.next == stream.size() || (stream.next > 0 && !has_ended(stream[stream.next - 1]))) continue;
      const int step = stream[stream.next];
      const bool comes_first = first == nullptr || step < (*first)[first->next];
      if (comes_first && can_start(step, budget)) first = &stream;
    }
    if (first == nullptr) return false;
    const int step = (*first)[first->next];
    const Task& task = tasks_[at(step)];
    found_[at(step)] = held_[task.device] += task.bytes;
    ends_[at(step)] = now_ + task.lasts;
    moments_.insert(now_ + task.lasts);
    ++first->next;
    ++takers_[task.device].next;
    ++started_;
    return true;
  }

  bool can_start(int step, const Table<DeviceId, std::optional<Bytes>>& budget) {
    const Task& task = tasks_[at(step)];
    if (!takers_[task.device].is_next(step) || !have_ended(task.waits)) return false;
    Bytes& held = held_[task.device];
    std::erase_if(returns_[task.device], [&](const Return& back) {
      const bool is_back = back.step < step && have_ended(back.waits);
      if (is_back) held -= back.bytes;
      return is_back;
    });
    const auto& limit = budget[task.device];
    return !limit || held + task.bytes <= *limit;
  }

  std::vector<Task> tasks_;
  std::map<std::tuple<DeviceId, DeviceId, LaneId>, Line> streams_;
  std::map<DeviceId, Line> takers_;
  Table<DeviceId, Bytes> held_;
  Table<DeviceId, std::vector<Return>> returns_;
  /// By step: when it ends, once it has started, and what its device held then.
  std::vector<std::optional<Duration>> ends_;
  std::vector<Bytes> found_;
  std::size_t started_ = 0;
  /// When something ends.
  std::set<Duration> moments_;
  Duration now_{};
};

}  // namespace remora
