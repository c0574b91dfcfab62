// SPDX-License-Identifier: Apache-2.0
#include "engine/devices/columns.hpp"

namespace remora::devices {

/// The last stages of periods, ascending: of what ops write, and of inputs of the graph.
struct Columns::Ends {
  Table<OpId, std::vector<int>> of_ops;
  Table<TensorId, std::vector<int>> of_inputs;
};

Columns::Columns(const Instance& instance, const Allowed& allowed, const Detail& detail, remora::Program& program)
    : instance_(instance), graph_(instance.graph()) {
  const Ends ends = find_ends(detail);
  add_runs(allowed, ends, program);
  periods_.assign(graph_.places.size(), {});
  for (const TensorId t : graph_.places.ids()) {
    const OpId producer = instance_.producer(t);
    add_periods(t, producer.valid() ? ends.of_ops[producer] : ends.of_inputs[t], detail, program);
  }
}

/// Readers come after producers: going down, the last stages in which somebody may read what they write are known.
Columns::Ends Columns::find_ends(const Detail& detail) const {
  const int end = instance_.op_count();
  Table<OpId, int> horizons(end, -1);
  Table<OpId, std::set<int>> own(end);
  const auto is_kept = [&](TensorId t) { return graph_.graph[t].keep && instance_.producer(t).valid(); };
  const auto uses = [&](TensorId t, std::set<int>& result) {
    for (const OpId u : instance_.readers(t)) result.insert({static_cast<int>(u), u - 1});
    if (is_kept(t)) result.insert({end, end - 1});
  };
  const auto horizon = [&](TensorId t) {
    int latest = is_kept(t) ? end : -1;
    for (const OpId u : instance_.readers(t)) {
      latest = std::max(latest, static_cast<int>(u));
      if (instance_.most_runs(u) > 1) latest = std::max(latest, horizons[u]);
    }
    return latest;
  };
  const auto with_readers = [&](TensorId t, std::set<int>& result) {
    uses(t, result);
    for (const OpId u : instance_.readers(t)) {
      if (instance_.most_runs(u) > 1) result.insert(own[u].begin(), own[u].end());
    }
  };
  const auto cut = [&](std::set<int> stages, int first, int last) {
    stages.insert(detail.ends.begin(), detail.ends.end());
    stages.insert(last);
    return std::vector<int>(stages.lower_bound(first), stages.upper_bound(last));
  };
  Ends ends{Table<OpId, std::vector<int>>(end), Table<TensorId, std::vector<int>>(graph_.places.size())};
  for (int number = end; number-- > 0;) {
    const OpId v(number);
    std::set<int> all;
    for (const TensorId t : instance_.op(v).outputs) {
      uses(t, own[v]);
      with_readers(t, all);
      horizons[v] = std::max(horizons[v], horizon(t));
    }
    if (horizons[v] > v) ends.of_ops[v] = cut(std::move(all), v + 1, horizons[v]);
  }
  for (const TensorId t : graph_.places.ids()) {
    if (instance_.producer(t).valid()) continue;
    std::set<int> all;
    with_readers(t, all);
    const int last = horizon(t);
    if (last >= 0) ends.of_inputs[t] = cut(std::move(all), 0, last);
  }
  return ends;
}

Presence Columns::add(remora::Program& program) {
  others_.push_back(0);
  return Presence(program.add_column(0));
}

int Columns::add_decision(remora::Program& program, std::size_t kind, Duration duration, Energy energy) {
  const bool is_duration = instance_.problem().objective == Objective::duration;
  others_.push_back(is_duration ? energy.count() : duration.count());
  const int column = program.add_column(price(instance_.problem(), duration, energy));
  decisions_[kind].push_back(column);
  return column;
}

void Columns::add_runs(const Allowed& allowed, const Ends& ends, remora::Program& program) {
  const std::vector<Presence> nowhere(graph_.devices.size());
  first_runs_.assign(at(instance_.op_count()), nowhere);
  reruns_.assign(at(instance_.op_count()), {});
  for (const OpId v : graph_.runs.ids()) {
    for (const RunCost& run : graph_.runs[v]) {
      if (!allowed(v, run.device)) continue;
      first_runs_[v][run.device.index()] = Presence(add_decision(program, 0, run.duration, run.energy));
    }
    if (instance_.most_runs(v) < 2) continue;
    int first = v + 1;
    for (const int last : ends.of_ops[v]) {
      Rerun& rerun = reruns_[v].emplace_back(Rerun{first, last, nowhere});
      for (const RunCost& run : graph_.runs[v]) {
        if (!instance_.has_room(v, run)) continue;
        rerun.runs[run.device.index()] = Presence(add_decision(program, 1, run.duration, run.energy));
      }
      first = last + 1;
    }
  }
}

void Columns::add_periods(TensorId t, const std::vector<int>& ends, const Detail& detail, remora::Program& program) {
  const auto has_reruns = [&](int stage) {
    const auto found = detail.reruns.lower_bound({stage, OpId(0)});
    return found != detail.reruns.end() && found->first == stage;
  };
  int first = birth(t) + 1;
  for (const int last : ends) {
    const std::size_t number = periods_[t].size();
    const std::vector<Presence> nowhere(graph_.devices.size());
    Period period{.first = first, .last = last, .present = nowhere, .stays = nowhere};
    for (const DeviceId d : graph_.devices.ids()) {
      if (instance_.at_home(t, d)) {
        period.present[d.index()] = period.stays[d.index()] = Presence::always();
        continue;
      }
      period.present[d.index()] = add(program);
      const Presence earlier = before(t, d, number);
      period.stays[d.index()] = earlier;
      const bool is_limited = instance_.problem().budget[d].has_value() && instance_.size(t) > Bytes(0);
      if (earlier.is_never() || !is_limited || (first == last && !has_reruns(last))) continue;
      period.stays[d.index()] = add(program);
    }
    for (const Link& link : graph_.links) {
      if (instance_.at_home(t, link.to)) continue;
      const CopyCost copy = *copy_cost(graph_, t, link.from, link.to);
      period.copies.push_back({link.from, link.to, add_decision(program, 2, copy.duration, copy.energy)});
    }
    periods_[t].push_back(std::move(period));
    first = last + 1;
  }
}

namespace {

/// The stretch with the stage, of stretches in order; their number if it is behind all.
template <class Stretches>
std::size_t stretch_of(const Stretches& stretches, int stage) {
  const auto found = std::partition_point(stretches.begin(), stretches.end(),
                                          [&](const auto& stretch) { return stretch.last < stage; });
  return static_cast<std::size_t>(found - stretches.begin());
}

}  // namespace

const Columns::Rerun* Columns::rerun_at(OpId v, int stage) const {
  const std::size_t number = stage <= v ? reruns_[v].size() : stretch_of(reruns_[v], stage);
  return number < reruns_[v].size() ? &reruns_[v][number] : nullptr;
}

std::size_t Columns::period_of(TensorId t, int stage) const {
  return stretch_of(periods_[t], stage);
}

bool Columns::reaches(TensorId t, int stage) const {
  return !periods_[t].empty() && periods_[t].front().first <= stage && stage <= periods_[t].back().last;
}

Presence Columns::before(TensorId t, DeviceId d, std::size_t period) const {
  if (instance_.at_home(t, d)) return Presence::always();
  if (period > 0) return periods_[t][period - 1].present[d.index()];
  const OpId producer = instance_.producer(t);
  return producer.valid() ? first_run(producer, d) : Presence::never();
}

Presence Columns::rerun(TensorId t, DeviceId d, std::size_t period) const {
  const OpId producer = instance_.producer(t);
  if (!producer.valid() || reruns_[producer].empty()) return Presence::never();
  return reruns_[producer][period].runs[d.index()];
}

namespace {

bool holds(Presence presence, std::span<const double> solution, double least) {
  return presence.is_always() || (presence.is_column() && solution[at(presence.column())] >= least);
}

}  // namespace

struct Columns::PlacedRun {
  int stage = 0;
  OpId op{};
  DeviceId device{};

  friend auto operator<=>(const PlacedRun&, const PlacedRun&) = default;
};

struct Columns::PlacedCopy {
  /// Right after the first run before.
  bool early = false;
  DeviceStep step{};
};

/// Runs again, as late as their readers in the period allow.
std::set<Columns::PlacedRun> Columns::placed_runs(std::span<const double> solution, double least) const {
  std::set<PlacedRun> runs;
  for (int number = instance_.op_count(); number-- > 0;) {
    const OpId v(number);
    for (const auto& [first, last, presences] : reruns_[v]) {
      for (const DeviceId d : graph_.devices.ids()) {
        if (!holds(presences[d.index()], solution, least)) continue;
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
    }
  }
  return runs;
}

/// By stage: copies, as late as their readers allow, but those that make room, which are as early as can be.
std::vector<std::vector<Columns::PlacedCopy>> Columns::placed_copies(std::span<const double> solution, double least,
                                                                     const std::set<PlacedRun>& runs) const {
  std::vector<std::vector<PlacedCopy>> copies(at(instance_.op_count() + 1));
  for (const TensorId t : graph_.places.ids()) {
    for (std::size_t i = 0; i < periods_[t].size(); ++i) {
      const Period& period = periods_[t][i];
      for (const Copy& copy : period.copies) {
        if (!holds(Presence(copy.column), solution, least)) continue;
        const bool early =
            holds(before(t, copy.from, i), solution, least) && !holds(period.stays[copy.from.index()], solution, least);
        int stage = early ? period.first : period.last;
        for (const PlacedRun& run : runs) {
          if (early || run.device != copy.to || run.stage < period.first || run.stage >= stage) continue;
          if (reads(instance_.op(run.op), t)) stage = run.stage;
        }
        copies[at(stage)].push_back({early, {.copied = t, .device = copy.from, .to = copy.to}});
      }
    }
  }
  return copies;
}

DeviceId Columns::first_device(OpId v, std::span<const double> solution) const {
  DeviceId chosen;
  double most = -1;
  for (const RunCost& run : graph_.runs[v]) {
    const Presence first = first_run(v, run.device);
    if (!first.is_column() || solution[at(first.column())] <= most) continue;
    most = solution[at(first.column())];
    chosen = run.device;
  }
  return chosen;
}

Plan Columns::plan(std::span<const double> solution, double least) const {
  const std::set<PlacedRun> runs = placed_runs(solution, least);
  std::vector<std::vector<PlacedCopy>> copies = placed_copies(solution, least, runs);
  Plan plan;
  auto run = runs.begin();
  for (int stage = 0; stage <= instance_.op_count(); ++stage) {
    std::vector<PlacedCopy>& here = copies[at(stage)];
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
    plan.push_back({.op = OpId(stage), .device = first_device(OpId(stage), solution)});
  }
  return plan;
}

namespace {

void set(Presence presence, std::vector<double>& solution) {
  if (presence.is_column()) solution[at(presence.column())] = 1;
}

}  // namespace

/// A copy or another run in the stage.
void Columns::set_step(const DeviceStep& step, int stage, std::vector<double>& solution) const {
  if (!step.is_copy()) {
    const Rerun* const rerun = rerun_at(step.op, stage);
    if (rerun != nullptr) set(rerun->runs[step.device.index()], solution);
    return;
  }
  const std::size_t period = period_of(step.copied, stage);
  if (period == periods_[step.copied].size()) return;
  for (const Copy& copy : periods_[step.copied][period].copies) {
    if (copy.from == step.device && copy.to == step.to) set(Presence(copy.column), solution);
  }
}

std::vector<double> Columns::solution(const EvaluatedPlan& plan) const {
  std::vector<double> result(others_.size(), 0.0);
  // By stage, the step of its first run; the end is one past the last step.
  std::vector<int> steps;
  std::vector<bool> seen(graph_.runs.size(), false);
  for (std::size_t i = 0; i < plan.plan.size(); ++i) {
    const DeviceStep& step = plan.plan[i];
    if (step.is_copy() || seen[step.op.index()]) {
      set_step(step, static_cast<int>(steps.size()), result);
      continue;
    }
    seen[step.op.index()] = true;
    set(first_run(step.op, step.device), result);
    steps.push_back(static_cast<int>(i));
  }
  steps.push_back(static_cast<int>(plan.plan.size()));
  for (const Stay& stay : plan.evaluation.stays) {
    const auto [t, d] = stay.residence;
    const int end = stay.to_the_end ? steps.back() : stay.last_step;
    const auto covers = [&](int stage) { return stay.first_step <= steps[at(stage)] && steps[at(stage)] <= end; };
    for (std::size_t i = 0; i < periods_[t].size(); ++i) {
      const Period& period = periods_[t][i];
      if (covers(period.last) && !instance_.at_home(t, d)) set(period.present[d.index()], result);
      const bool stays = period.first > 0 && covers(period.first - 1) && covers(period.last);
      if (stays && period.stays[d.index()] != before(t, d, i)) set(period.stays[d.index()], result);
    }
  }
  return result;
}

template <class Visit>
void Columns::for_each_column(TensorId t, std::size_t number, Visit visit) const {
  const Period& period = periods_[t][number];
  for (const Presence presence : period.present) visit(presence);
  for (const DeviceId d : graph_.devices.ids()) {
    if (period.stays[d.index()] != before(t, d, number)) visit(period.stays[d.index()]);
    visit(rerun(t, d, number));
  }
  for (const Copy& copy : period.copies) visit(Presence(copy.column));
}

void Columns::mark(OpId v, std::vector<bool>& columns) const {
  const auto set = [&](Presence presence) {
    if (presence.is_column()) columns[at(presence.column())] = true;
  };
  for (const Presence run : first_runs_[v]) set(run);
  const auto mark_all = [&](TensorId t) {
    for (std::size_t i = 0; i < periods_[t].size(); ++i) for_each_column(t, i, set);
  };
  for (const TensorId t : instance_.op(v).inputs) mark_all(t);
  for (const TensorId t : instance_.op(v).outputs) mark_all(t);
}

void Columns::mark_stages(int first, int last, std::vector<bool>& columns) const {
  const auto set = [&](Presence presence) {
    if (presence.is_column()) columns[at(presence.column())] = true;
  };
  for (const TensorId t : graph_.places.ids()) {
    for (std::size_t i = 0; i < periods_[t].size(); ++i) {
      if (periods_[t][i].first <= last && periods_[t][i].last >= first) for_each_column(t, i, set);
    }
  }
}

}  // namespace remora::devices
