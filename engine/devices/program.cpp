// SPDX-License-Identifier: Apache-2.0
#include "engine/devices/program.hpp"

#include <algorithm>
#include <utility>

namespace remora::devices {

/// A sum of columns and of what is certain.
class Program::Sum {
 public:
  void add(Presence presence, std::int64_t factor) {
    if (presence == kAlways) constant_ += factor;
    if (presence >= 0) terms_.push_back({presence, factor});
  }
  void add(std::int64_t constant) { constant_ += constant; }
  [[nodiscard]] const std::vector<ProgramTerm>& terms() const { return terms_; }
  [[nodiscard]] std::int64_t constant() const { return constant_; }

 private:
  std::vector<ProgramTerm> terms_;
  std::int64_t constant_ = 0;
};

Program::Program(const Instance& instance, const State::Allowed& allowed, const Detail& detail)
    : instance_(instance), graph_(instance.graph()), allowed_(allowed), detail_(detail) {
  find_periods();
  add_columns();
  add_first_runs();
  for (const TensorId t : graph_.places.ids()) {
    add_stays(t);
    add_copies(t);
  }
  for (const OpId v : graph_.runs.ids()) add_reruns(v);
  add_memory();
  add_limit();
}

/// Readers come after producers: going down, the last stages in which somebody may read what they write are known.
void Program::find_periods() {
  const int end = instance_.op_count();
  Table<OpId, int> horizons(end, -1);
  Table<OpId, std::set<int>> own(end);
  Table<TensorId, std::set<int>> of_inputs(graph_.places.size());
  const auto uses = [&](TensorId t, std::set<int>& result) {
    for (const OpId u : instance_.readers(t)) result.insert({static_cast<int>(u), u - 1});
    if (graph_.graph[t].keep && instance_.producer(t).valid()) result.insert({end, end - 1});
  };
  const auto horizon = [&](TensorId t) {
    int latest = graph_.graph[t].keep && instance_.producer(t).valid() ? end : -1;
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
    stages.insert(detail_.ends.begin(), detail_.ends.end());
    stages.insert(last);
    std::vector<int> result;
    for (const int stage : stages) {
      if (stage >= first && stage <= last) result.push_back(stage);
    }
    return result;
  };
  op_ends_.assign(at(end), {});
  for (int number = end; number-- > 0;) {
    const OpId v(number);
    std::set<int> all;
    for (const TensorId t : instance_.op(v).outputs) {
      uses(t, own[v]);
      with_readers(t, all);
      horizons[v] = std::max(horizons[v], horizon(t));
    }
    if (horizons[v] > v) op_ends_[v] = cut(std::move(all), v + 1, horizons[v]);
  }
  input_ends_.assign(graph_.places.size(), {});
  for (const TensorId t : graph_.places.ids()) {
    if (instance_.producer(t).valid()) continue;
    std::set<int> all;
    with_readers(t, all);
    const int last = horizon(t);
    if (last >= 0) input_ends_[t] = cut(std::move(all), 0, last);
  }
}

const std::vector<int>& Program::ends_of(TensorId t) const {
  const OpId producer = instance_.producer(t);
  return producer.valid() ? op_ends_[producer] : input_ends_[t];
}

int Program::period_of(TensorId t, int stage) const {
  const auto& ends = ends_of(t);
  return static_cast<int>(std::lower_bound(ends.begin(), ends.end(), stage) - ends.begin());
}

bool Program::is_limited(TensorId t, DeviceId d) const {
  return instance_.problem().budget[d].has_value() && instance_.size(t) > Bytes(0);
}

int Program::add_decision(std::size_t kind, Duration duration, Energy energy) {
  const bool is_duration = instance_.problem().objective == Objective::duration;
  others_.push_back(is_duration ? energy.count() : duration.count());
  const int column = program_.add_column(price(instance_.problem(), duration, energy));
  decisions_[kind].push_back(column);
  return column;
}

void Program::add_columns() {
  first_runs_.assign(at(instance_.op_count()), std::vector<Presence>(graph_.devices.size(), kNever));
  reruns_.assign(at(instance_.op_count()), {});
  for (const OpId v : graph_.runs.ids()) {
    for (const RunCost& run : graph_.runs[v]) {
      if (allowed_(v, run.device)) first_runs_[v][run.device.index()] = add_decision(0, run.duration, run.energy);
    }
    if (instance_.most_runs(v) < 2) continue;
    for (std::size_t i = 0; i < op_ends_[v].size(); ++i) {
      reruns_[v].emplace_back(graph_.devices.size(), kNever);
      for (const RunCost& run : graph_.runs[v]) {
        if (instance_.has_room(v, run))
          reruns_[v].back()[run.device.index()] = add_decision(1, run.duration, run.energy);
      }
    }
  }
  periods_.assign(graph_.places.size(), {});
  for (const TensorId t : graph_.places.ids()) add_columns(t);
}

void Program::add_columns(TensorId t) {
  const auto has_reruns = [&](int stage) {
    const auto found = detail_.reruns.lower_bound({stage, OpId(0)});
    return found != detail_.reruns.end() && found->first == stage;
  };
  int first = birth(t) + 1;
  for (const int last : ends_of(t)) {
    const auto i = static_cast<int>(periods_[t].size());
    Period period{.present = std::vector<Presence>(graph_.devices.size(), kNever)};
    period.stays = period.present;
    for (const DeviceId d : graph_.devices.ids()) {
      if (instance_.at_home(t, d)) {
        period.present[d.index()] = period.stays[d.index()] = kAlways;
        continue;
      }
      others_.push_back(0);
      period.present[d.index()] = program_.add_column(0);
      const Presence earlier = before(t, d, i);
      period.stays[d.index()] = earlier;
      if (earlier == kNever || !is_limited(t, d) || (first == last && !has_reruns(last))) continue;
      others_.push_back(0);
      period.stays[d.index()] = program_.add_column(0);
    }
    for (const Link& link : graph_.links) {
      if (instance_.at_home(t, link.to)) continue;
      const CopyCost copy = *copy_cost(graph_, t, link.from, link.to);
      period.copies.push_back({link.from, link.to, add_decision(2, copy.duration, copy.energy)});
    }
    periods_[t].push_back(std::move(period));
    first = last + 1;
  }
}

/// On the device when the period begins.
Program::Presence Program::before(TensorId t, DeviceId d, int period) const {
  if (instance_.at_home(t, d)) return kAlways;
  if (period > 0) return periods_[t][at(period - 1)].present[d.index()];
  const OpId producer = instance_.producer(t);
  return producer.valid() ? first_runs_[producer][d.index()] : kNever;
}

Program::Presence Program::rerun(TensorId t, DeviceId d, int period) const {
  const OpId producer = instance_.producer(t);
  if (!producer.valid() || reruns_[producer].empty()) return kNever;
  return reruns_[producer][at(period)][d.index()];
}

void Program::add_arrivals(Sum& sum, TensorId t, DeviceId d, int period, int sign) const {
  for (const Copy& copy : periods_[t][at(period)].copies) {
    if (copy.to == d) sum.add(copy.column, sign);
  }
  sum.add(rerun(t, d, period), sign);
}

/// Columns are 0 or 1: what always holds is left out.
void Program::add(const Sum& sum, std::int64_t least, bool follows) {
  std::int64_t fewest = sum.constant();
  for (const ProgramTerm& term : sum.terms()) fewest += std::min<std::int64_t>(0, term.factor);
  if (fewest >= least) return;
  (follows ? program_.more : program_.rows).push_back({sum.terms(), least - sum.constant()});
}

void Program::add_first_runs() {
  for (const OpId v : graph_.runs.ids()) {
    Sum anywhere;
    for (const Presence run : first_runs_[v]) anywhere.add(run, 1);
    add(anywhere, 1);
    for (const TensorId t : instance_.op(v).inputs) {
      const Period& period = periods_[t][at(period_of(t, v))];
      for (const DeviceId d : graph_.devices.ids()) {
        Sum read;
        read.add(period.present[d.index()], 1);
        read.add(first_run(v, d), -1);
        add(read, 0);
      }
    }
  }
}

void Program::add_stays(TensorId t) {
  for (std::size_t i = 0; i < periods_[t].size(); ++i) {
    const Period& period = periods_[t][i];
    for (const DeviceId d : graph_.devices.ids()) {
      if (instance_.at_home(t, d)) continue;
      const Presence stays = period.stays[d.index()];
      const Presence earlier = before(t, d, static_cast<int>(i));
      if (stays != earlier) {
        Sum sum;
        sum.add(earlier, 1);
        sum.add(stays, -1);
        add(sum, 0);
      }
      Sum sum;
      sum.add(stays, 1);
      add_arrivals(sum, t, d, static_cast<int>(i), 1);
      sum.add(period.present[d.index()], -1);
      add(sum, 0);
    }
  }
  if (!graph_.graph[t].keep || !instance_.producer(t).valid()) return;
  const auto& home = graph_.places[t].home;
  Sum kept;
  for (const DeviceId d : graph_.devices.ids()) {
    if (home.empty() || home.front() == d) kept.add(periods_[t].back().present[d.index()], 1);
  }
  add(kept, 1);
}

void Program::add_copies(TensorId t) {
  for (std::size_t number = 0; number < periods_[t].size(); ++number) {
    const auto i = static_cast<int>(number);
    for (const Copy& copy : periods_[t][number].copies) {
      Sum source;
      source.add(before(t, copy.from, i), 1);
      add_arrivals(source, t, copy.from, i, 1);
      source.add(copy.column, -1);
      add(source, 0);
      // Not in a circle.
      Sum somewhere;
      for (const DeviceId d : graph_.devices.ids()) {
        somewhere.add(before(t, d, i), 1);
        somewhere.add(rerun(t, d, i), 1);
      }
      somewhere.add(copy.column, -1);
      add(somewhere, 0);
    }
  }
}

void Program::add_reruns(OpId v) {
  Sum all;
  for (const DeviceId d : graph_.devices.ids()) {
    for (const auto& runs : reruns_[v]) all.add(runs[d.index()], -1);
    for (const TensorId t : instance_.op(v).inputs) {
      if (!instance_.at_home(t, d)) add_reads(v, d, t);
    }
  }
  add(all, 1 - instance_.most_runs(v));
}

/// What one run again reads comes to the device once: where there is no other, all those in any stretch of periods need together what
/// is there when it begins or comes there in it (of reserved parts the minimum cuts, docs/bounds.md).
void Program::add_reads(OpId v, DeviceId d, TensorId t) {
  const bool once = instance_.most_runs(v) == 2;
  const auto periods = reruns_[v].size();
  for (std::size_t i = 0; i < periods; ++i) {
    const int begin = period_of(t, i == 0 ? v + 1 : op_ends_[v][i - 1] + 1);
    Sum read;
    read.add(before(t, d, begin), 1);
    int next = begin;
    for (std::size_t j = i; j < (once ? periods : i + 1); ++j) {
      for (const int end = period_of(t, op_ends_[v][j]); next <= end; ++next) add_arrivals(read, t, d, next, 1);
      if (reruns_[v][j][d.index()] == kNever) continue;
      read.add(reruns_[v][j][d.index()], -1);
      add(read, 0, j > i);
    }
  }
}

void Program::add_memory() {
  for (const DeviceId d : graph_.devices.ids()) {
    if (!instance_.problem().budget[d]) continue;
    for (int stage = 0; stage < instance_.op_count(); ++stage) add_memory(d, stage);
    for (const auto& [stage, v] : detail_.reruns) add_memory(d, stage, v);
  }
}

/// What a run takes beside its inputs, and less what is taken over of them.
Bytes Program::own_bytes(OpId v, DeviceId d) const {
  Bytes own = run_cost(graph_, v, d)->workspace;
  for (const TensorId t : instance_.op(v).outputs) own += instance_.size(t);
  for (const InPlace& pair : instance_.op(v).in_place) {
    if (instance_.producer(pair.input).valid())
      own -= std::min(instance_.size(pair.output), instance_.size(pair.input));
  }
  return own;
}

/// Whether the tensor may take memory there in the stage, up to its first run.
bool Program::counts(TensorId t, DeviceId d, int stage) const {
  const auto& ends = ends_of(t);
  return !ends.empty() && birth(t) < stage && ends.back() >= stage && !instance_.at_home(t, d);
}

void Program::add_memory(DeviceId d, int stage) {
  const OpId v(stage);
  Sum sum;
  sum.add(-instance_.base(d).count());
  for (const TensorId t : graph_.places.ids()) {
    if (!counts(t, d, stage)) continue;
    const int i = period_of(t, stage);
    const Period& period = periods_[t][at(i)];
    const bool is_end = ends_of(t)[at(i)] == stage;
    sum.add((is_end ? period.present : period.stays)[d.index()], -instance_.size(t).count());
  }
  if (first_run(v, d) != kNever) sum.add(first_run(v, d), -own_bytes(v, d).count());
  add(sum, -instance_.budget(d).count());
}

void Program::add_memory(DeviceId d, int stage, OpId v) {
  if (stage <= v || op_ends_[v].empty() || op_ends_[v].back() < stage || reruns_[v].empty()) return;
  const auto period = std::lower_bound(op_ends_[v].begin(), op_ends_[v].end(), stage) - op_ends_[v].begin();
  const bool is_alone =
      op_ends_[v][at(period)] == stage && (period == 0 ? v + 1 : op_ends_[v][at(period - 1)] + 1) == stage;
  const Presence runs = reruns_[v][at(period)][d.index()];
  if (!is_alone || runs == kNever) return;
  const Op& op = instance_.op(v);
  Bytes own = own_bytes(v, d);
  Sum sum;
  sum.add(-instance_.base(d).count());
  for (const TensorId t : graph_.places.ids()) {
    if (!counts(t, d, stage) || instance_.producer(t) == v) continue;
    const std::int64_t size = instance_.size(t).count();
    if (reads(op, t)) {
      own += instance_.size(t);
      continue;
    }
    const int i = period_of(t, stage);
    const Period& there = periods_[t][at(i)];
    const bool made_before = instance_.producer(t).valid() && instance_.producer(t) < v && ends_of(t)[at(i)] == stage;
    sum.add((made_before ? there.present : there.stays)[d.index()], -size);
    for (const Copy& copy : there.copies) {
      if (made_before && copy.to == d) sum.add(copy.column, size);
    }
  }
  sum.add(runs, -own.count());
  add(sum, -instance_.budget(d).count());
}

void Program::add_limit() {
  const Problem& problem = instance_.problem();
  const bool is_duration = problem.objective == Objective::duration;
  if (is_duration ? !problem.energy_limit.has_value() : !problem.duration_limit.has_value()) return;
  Sum sum;
  for (std::size_t j = 0; j < others_.size(); ++j) {
    if (others_[j] > 0) sum.add(static_cast<int>(j), -others_[j]);
  }
  add(sum, -(is_duration ? problem.energy_limit->count() : problem.duration_limit->count()));
}

}  // namespace remora::devices
