// SPDX-License-Identifier: Apache-2.0
//
// Solutions of the relaxation over several devices: their plans, those of plans, parts of them.
#include <algorithm>
#include <map>
#include <utility>

#include "engine/devices/program.hpp"

namespace remora::devices {
namespace {

struct PlacedRun {
  int stage = 0;
  OpId op{};
  DeviceId device{};

  friend auto operator<=>(const PlacedRun&, const PlacedRun&) = default;
};

struct PlacedCopy {
  int stage = 0;
  /// Right after the first run before.
  bool early = false;
  DeviceStep step{};
};

}  // namespace

/// Runs again are as late as their readers in the period allow; copies too, but those that make room, which are as early as can be.
Plan Program::plan(std::span<const double> solution, double least) const {
  const auto has = [&](Presence presence) {
    return presence == kAlways || (presence >= 0 && solution[at(presence)] >= least);
  };
  std::set<PlacedRun> runs;
  for (int number = instance_.op_count(); number-- > 0;) {
    const OpId v(number);
    int first = v + 1;
    for (std::size_t i = 0; i < reruns_[v].size(); ++i) {
      const int last = op_ends_[v][i];
      for (const DeviceId d : graph_.devices.ids()) {
        if (!has(reruns_[v][i][d.index()])) continue;
        int stage = last;
        for (const PlacedRun& run : runs) {
          if (run.device != d || run.stage < first || run.stage >= stage) continue;
          const auto& inputs = instance_.op(run.op).inputs;
          const bool reads_it =
              std::any_of(inputs.begin(), inputs.end(), [&](TensorId t) { return instance_.producer(t) == v; });
          if (reads_it) stage = run.stage;
        }
        runs.insert({stage, v, d});
      }
      first = last + 1;
    }
  }
  std::map<int, std::vector<PlacedCopy>> copies;
  for (const TensorId t : graph_.places.ids()) {
    int first = birth(t) + 1;
    for (std::size_t i = 0; i < periods_[t].size(); ++i) {
      const int last = ends_of(t)[i];
      const Period& period = periods_[t][i];
      for (const Copy& copy : period.copies) {
        if (!has(copy.column)) continue;
        const bool early = has(before(t, copy.from, static_cast<int>(i))) && !has(period.stays[copy.from.index()]);
        int stage = early ? first : last;
        for (const PlacedRun& run : runs) {
          if (early || run.device != copy.to || run.stage < first || run.stage >= stage) continue;
          if (reads(instance_.op(run.op), t)) stage = run.stage;
        }
        copies[stage].push_back({stage, early, {.copied = t, .device = copy.from, .to = copy.to}});
      }
      first = last + 1;
    }
  }
  Plan plan;
  auto run = runs.begin();
  for (int stage = 0; stage <= instance_.op_count(); ++stage) {
    std::vector<PlacedCopy>& here = copies[stage];
    const auto emit = [&](auto wanted) {
      for (const PlacedCopy& copy : here) {
        if (wanted(copy)) plan.push_back(copy.step);
      }
      std::erase_if(here, wanted);
    };
    emit([](const PlacedCopy& copy) { return copy.early; });
    for (; run != runs.end() && run->stage == stage; ++run) {
      emit([&](const PlacedCopy& copy) {
        return copy.step.to == run->device && reads(instance_.op(run->op), copy.step.copied);
      });
      plan.push_back({.op = run->op, .device = run->device});
    }
    emit([](const PlacedCopy&) { return true; });
    if (stage == instance_.op_count()) break;
    const OpId v(stage);
    DeviceId chosen;
    double most = -1;
    for (const RunCost& cost : graph_.runs[v]) {
      const Presence first = first_run(v, cost.device);
      if (first < 0 || solution[at(first)] <= most) continue;
      most = solution[at(first)];
      chosen = cost.device;
    }
    plan.push_back({.op = v, .device = chosen});
  }
  return plan;
}

std::vector<double> Program::solution(const EvaluatedPlan& plan) const {
  std::vector<double> result(program_.costs.size(), 0.0);
  const auto set = [&](Presence presence) {
    if (presence >= 0) result[at(presence)] = 1;
  };
  // By stage, the step of its first run; the end is one past the last step.
  std::vector<int> steps;
  std::vector<bool> seen(graph_.runs.size(), false);
  for (std::size_t i = 0; i < plan.plan.size(); ++i) {
    const DeviceStep& step = plan.plan[i];
    const auto stage = static_cast<int>(steps.size());
    if (step.is_copy()) {
      const auto& ends = ends_of(step.copied);
      if (ends.empty() || stage > ends.back()) continue;
      for (const Copy& copy : periods_[step.copied][at(period_of(step.copied, stage))].copies) {
        if (copy.from == step.device && copy.to == step.to) set(copy.column);
      }
    } else if (seen[step.op.index()]) {
      const auto& ends = op_ends_[step.op];
      if (ends.empty() || stage > ends.back()) continue;
      const auto period = std::lower_bound(ends.begin(), ends.end(), stage) - ends.begin();
      set(reruns_[step.op][at(period)][step.device.index()]);
    } else {
      seen[step.op.index()] = true;
      set(first_run(step.op, step.device));
      steps.push_back(static_cast<int>(i));
    }
  }
  steps.push_back(static_cast<int>(plan.plan.size()));
  for (const Stay& stay : plan.evaluation.stays) {
    const auto [t, d] = stay.residence;
    const int end = stay.to_the_end ? steps.back() : stay.last_step;
    const auto covers = [&](int stage) { return stay.first_step <= steps[at(stage)] && steps[at(stage)] <= end; };
    int before = birth(t);
    for (std::size_t i = 0; i < periods_[t].size(); ++i) {
      const int last = ends_of(t)[i];
      const Period& period = periods_[t][i];
      if (covers(last) && !instance_.at_home(t, d)) set(period.present[d.index()]);
      const bool stays = before >= 0 && covers(before) && covers(last);
      if (stays && period.stays[d.index()] != this->before(t, d, static_cast<int>(i))) set(period.stays[d.index()]);
      before = last;
    }
  }
  return result;
}

template <class Visit>
void Program::for_each_column(TensorId t, std::size_t number, Visit visit) const {
  const Period& period = periods_[t][number];
  for (const Presence presence : period.present) visit(presence);
  for (const DeviceId d : graph_.devices.ids()) {
    if (period.stays[d.index()] != before(t, d, static_cast<int>(number))) visit(period.stays[d.index()]);
    visit(rerun(t, d, static_cast<int>(number)));
  }
  for (const Copy& copy : period.copies) visit(copy.column);
}

void Program::mark(OpId v, std::vector<bool>& columns) const {
  const auto set = [&](Presence presence) {
    if (presence >= 0) columns[at(presence)] = true;
  };
  for (const Presence run : first_runs_[v]) set(run);
  const auto mark_all = [&](TensorId t) {
    for (std::size_t i = 0; i < periods_[t].size(); ++i) for_each_column(t, i, set);
  };
  for (const TensorId t : instance_.op(v).inputs) mark_all(t);
  for (const TensorId t : instance_.op(v).outputs) mark_all(t);
}

void Program::mark_stages(int first, int last, std::vector<bool>& columns) const {
  const auto set = [&](Presence presence) {
    if (presence >= 0) columns[at(presence)] = true;
  };
  for (const TensorId t : graph_.places.ids()) {
    int begin = birth(t) + 1;
    for (std::size_t i = 0; i < periods_[t].size(); ++i) {
      const int end = ends_of(t)[i];
      if (begin <= last && end >= first) for_each_column(t, i, set);
      begin = end + 1;
    }
  }
}

}  // namespace remora::devices
