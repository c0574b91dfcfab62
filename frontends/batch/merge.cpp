// SPDX-License-Identifier: Apache-2.0
#include "frontends/batch/merge.hpp"

#include <algorithm>
#include <cmath>
#include <exception>
#include <set>
#include <utility>

#include "frontends/batch/asking.hpp"
#include "model/error.hpp"

namespace remora::batch {
namespace {

class Merger {
 public:
  Merger(const Store& store, Solver& solver, const RecordCheck& check)
      : store_(store), asking_(solver), check_(check) {}

  MergedTask look_up(const Task& task) {
    MergedTask merged{.task = task, .status = "missing"};
    std::string unreadable;
    try {
      merged.key = key_of(asking_.question_of(task));
    } catch (const std::exception& error) {
      unreadable = error.what();
    }
    if (!merged.key.empty() && take_record(merged)) return merged;
    if (take_error(merged)) return merged;
    if (!merged.key.empty() && store_.is_begun(merged.key)) {
      merged.message = "in work now, or a run was killed at it";
    } else {
      merged.message = unreadable;
    }
    return merged;
  }

 private:
  /// Whether there is a record, be it damaged.
  bool take_record(MergedTask& merged) const {
    try {
      merged.record = store_.result(merged.key);
      if (!merged.record) merged.record = store_.partial(merged.key);
      if (!merged.record) return false;
      merged.status = merged.record->status;
      if (merged.has_schedule()) merged.figures = read_figures(merged.record->schedule);
      if (check_) merged.message = check_(merged.task, *merged.record);
    } catch (const std::exception& error) {
      merged.message = error.what();
    }
    if (!merged.message.empty()) {
      merged.status = "damaged";
      merged.figures.reset();
    }
    return true;
  }

  /// Whether there is an error, be it damaged itself.
  bool take_error(MergedTask& merged) const {
    try {
      const std::optional<TaskError> error = store_.error(merged.task);
      if (!error) return false;
      merged.message = error->message;
    } catch (const std::exception& error) {
      merged.message = error.what();
    }
    merged.status = "error";
    return true;
  }

  const Store& store_;
  Asking asking_;
  const RecordCheck& check_;
};

template <class Value>
std::vector<double> values_of(const std::vector<MergedTask>& tasks, const Value& value) {
  std::vector<double> values;
  for (const MergedTask& task : tasks) {
    if (task.figures) values.push_back(value(*task.figures));
  }
  return values;
}

}  // namespace

std::optional<Spread> spread_of(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  const auto quantile = [&](double part) {
    const double place = part * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::size_t>(std::floor(place));
    const std::size_t above = std::min(below + 1, values.size() - 1);
    return std::lerp(values[below], values[above], place - static_cast<double>(below));
  };
  return Spread{quantile(0), quantile(0.25), quantile(0.5), quantile(0.75), quantile(1)};
}

std::size_t Merged::missing() const {
  return static_cast<std::size_t>(
      std::count_if(tasks.begin(), tasks.end(), [](const MergedTask& task) { return task.is_missing(); }));
}

std::size_t Merged::failed() const {
  return static_cast<std::size_t>(
      std::count_if(tasks.begin(), tasks.end(), [](const MergedTask& task) { return task.has_failed(); }));
}

Merged merge(const std::vector<Task>& tasks, const Store& store, Solver& solver, const RecordCheck& check) {
  Merger merger(store, solver, check);
  Merged merged;
  std::set<std::string> keys;
  merged.tasks.reserve(tasks.size());
  for (const Task& task : tasks) {
    const MergedTask& last = merged.tasks.emplace_back(merger.look_up(task));
    ++merged.counts[last.status];
    const bool is_new = !last.key.empty() && keys.insert(last.key).second;
    if (last.record && is_new) merged.seconds += last.record->seconds;
  }
  for (const std::string& key : store.result_keys()) ++(keys.count(key) > 0 ? merged.results : merged.other_results);
  merged.overhead = spread_of(values_of(merged.tasks, [](const Figures& figures) { return figures.overhead; }));
  merged.gap = spread_of(values_of(merged.tasks, [](const Figures& figures) { return figures.gap; }));
  return merged;
}

}  // namespace remora::batch
