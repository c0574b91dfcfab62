// SPDX-License-Identifier: Apache-2.0
#include "engine/devices/program.hpp"

#include <algorithm>

namespace remora::devices {

/// A sum of columns and of what is certain.
class Program::Sum {
 public:
  void add(Presence presence, std::int64_t factor) {
    if (presence.is_always()) constant_ += factor;
    if (presence.is_column()) terms_.push_back({presence.column(), factor});
  }
  void add(std::int64_t constant) { constant_ += constant; }
  [[nodiscard]] const std::vector<ProgramTerm>& terms() const { return terms_; }
  [[nodiscard]] std::int64_t constant() const { return constant_; }

 private:
  std::vector<ProgramTerm> terms_;
  std::int64_t constant_ = 0;
};

Program::Program(const Instance& instance, const Allowed& allowed, const Detail& detail)
    : instance_(instance), graph_(instance.graph()), columns_(instance, allowed, detail, program_) {
  add_first_runs();
  for (const TensorId t : graph_.places.ids()) {
    add_stays(t);
    add_copies(t);
  }
  for (const OpId v : graph_.runs.ids()) add_reruns(v);
  for (const DeviceId d : graph_.devices.ids()) {
    if (!instance_.problem().budget[d]) continue;
    for (int stage = 0; stage < instance_.op_count(); ++stage) add_memory(d, stage);
    for (const auto& [stage, v] : detail.reruns) add_memory(d, stage, v);
  }
  add_limit();
}

void Program::add_arrivals(Sum& sum, TensorId t, DeviceId d, std::size_t period, int sign) const {
  for (const Columns::Copy& copy : columns_.periods(t)[period].copies) {
    if (copy.to == d) sum.add(Presence(copy.column), sign);
  }
  sum.add(columns_.rerun(t, d, period), sign);
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
    for (const DeviceId d : graph_.devices.ids()) anywhere.add(columns_.first_run(v, d), 1);
    add(anywhere, 1);
    for (const TensorId t : instance_.op(v).inputs) {
      const Columns::Period& period = columns_.periods(t)[columns_.period_of(t, v)];
      for (const DeviceId d : graph_.devices.ids()) {
        Sum read;
        read.add(period.present[d.index()], 1);
        read.add(columns_.first_run(v, d), -1);
        add(read, 0);
      }
    }
  }
}

void Program::add_stays(TensorId t) {
  const auto& periods = columns_.periods(t);
  for (std::size_t i = 0; i < periods.size(); ++i) {
    for (const DeviceId d : graph_.devices.ids()) {
      if (instance_.at_home(t, d)) continue;
      const Presence stays = periods[i].stays[d.index()];
      const Presence earlier = columns_.before(t, d, i);
      if (stays != earlier) {
        Sum sum;
        sum.add(earlier, 1);
        sum.add(stays, -1);
        add(sum, 0);
      }
      Sum sum;
      sum.add(stays, 1);
      add_arrivals(sum, t, d, i, 1);
      sum.add(periods[i].present[d.index()], -1);
      add(sum, 0);
    }
  }
  if (!graph_.graph[t].keep || !instance_.producer(t).valid()) return;
  const auto& home = graph_.places[t].home;
  Sum kept;
  for (const DeviceId d : graph_.devices.ids()) {
    if (home.empty() || home.front() == d) kept.add(periods.back().present[d.index()], 1);
  }
  add(kept, 1);
}

void Program::add_copies(TensorId t) {
  const auto& periods = columns_.periods(t);
  for (std::size_t i = 0; i < periods.size(); ++i) {
    for (const Columns::Copy& copy : periods[i].copies) {
      Sum source;
      source.add(columns_.before(t, copy.from, i), 1);
      add_arrivals(source, t, copy.from, i, 1);
      source.add(Presence(copy.column), -1);
      add(source, 0);
      // Not in a circle.
      Sum somewhere;
      for (const DeviceId d : graph_.devices.ids()) {
        somewhere.add(columns_.before(t, d, i), 1);
        somewhere.add(columns_.rerun(t, d, i), 1);
      }
      somewhere.add(Presence(copy.column), -1);
      add(somewhere, 0);
    }
  }
}

void Program::add_reruns(OpId v) {
  Sum all;
  for (const DeviceId d : graph_.devices.ids()) {
    for (const Columns::Rerun& rerun : columns_.reruns(v)) all.add(rerun.runs[d.index()], -1);
    for (const TensorId t : instance_.op(v).inputs) {
      if (!instance_.at_home(t, d)) add_reads(v, d, t);
    }
  }
  add(all, 1 - instance_.most_runs(v));
}

/// An input of a recomputed op comes to the device once. If the op may run again only once, all its recomputations in a
/// stretch of periods need what is resident when it begins or comes within it (for reserved parts the minimum cuts).
void Program::add_reads(OpId v, DeviceId d, TensorId t) {
  const bool once = instance_.most_runs(v) == 2;
  const auto& reruns = columns_.reruns(v);
  for (std::size_t i = 0; i < reruns.size(); ++i) {
    std::size_t next = columns_.period_of(t, reruns[i].first);
    Sum read;
    read.add(columns_.before(t, d, next), 1);
    for (std::size_t j = i; j < (once ? reruns.size() : i + 1); ++j) {
      for (const std::size_t end = columns_.period_of(t, reruns[j].last); next <= end; ++next) {
        add_arrivals(read, t, d, next, 1);
      }
      const Presence runs = reruns[j].runs[d.index()];
      if (runs.is_never()) continue;
      read.add(runs, -1);
      add(read, 0, j > i);
    }
  }
}

/// The memory of a run beyond its inputs, less what it takes over from them.
Bytes Program::own_bytes(OpId v, DeviceId d) const {
  Bytes own = run_cost(graph_, v, d)->workspace;
  for (const TensorId t : instance_.op(v).outputs) own += instance_.size(t);
  for (const InPlace& pair : instance_.op(v).in_place) {
    if (instance_.producer(pair.input).valid())
      own -= std::min(instance_.size(pair.output), instance_.size(pair.input));
  }
  return own;
}

void Program::add_memory(DeviceId d, int stage) {
  const OpId v(stage);
  Sum sum;
  sum.add(-instance_.base(d).count());
  for (const TensorId t : graph_.places.ids()) {
    if (instance_.at_home(t, d) || !columns_.reaches(t, stage)) continue;
    const Columns::Period& period = columns_.periods(t)[columns_.period_of(t, stage)];
    sum.add((period.last == stage ? period.present : period.stays)[d.index()], -instance_.size(t).count());
  }
  const Presence first_run = columns_.first_run(v, d);
  if (!first_run.is_never()) sum.add(first_run, -own_bytes(v, d).count());
  add(sum, -instance_.budget(d).count());
}

void Program::add_memory(DeviceId d, int stage, OpId v) {
  const Columns::Rerun* const rerun = columns_.rerun_at(v, stage);
  const bool is_alone = rerun != nullptr && rerun->first == stage && rerun->last == stage;
  if (!is_alone || rerun->runs[d.index()].is_never()) return;
  const Op& op = instance_.op(v);
  Bytes own = own_bytes(v, d);
  Sum sum;
  sum.add(-instance_.base(d).count());
  for (const TensorId t : graph_.places.ids()) {
    if (instance_.producer(t) == v || instance_.at_home(t, d) || !columns_.reaches(t, stage)) continue;
    const std::int64_t size = instance_.size(t).count();
    if (reads(op, t)) {
      own += instance_.size(t);
      continue;
    }
    const Columns::Period& there = columns_.periods(t)[columns_.period_of(t, stage)];
    const bool made_before = instance_.producer(t).valid() && instance_.producer(t) < v && there.last == stage;
    sum.add((made_before ? there.present : there.stays)[d.index()], -size);
    for (const Columns::Copy& copy : there.copies) {
      if (made_before && copy.to == d) sum.add(Presence(copy.column), size);
    }
  }
  sum.add(rerun->runs[d.index()], -own.count());
  add(sum, -instance_.budget(d).count());
}

void Program::add_limit() {
  const Problem& problem = instance_.problem();
  const bool is_duration = problem.objective == Objective::duration;
  if (is_duration ? !problem.energy_limit.has_value() : !problem.duration_limit.has_value()) return;
  Sum sum;
  const auto& others = columns_.others();
  for (std::size_t j = 0; j < others.size(); ++j) {
    if (others[j] > 0) sum.add(Presence(static_cast<int>(j)), -others[j]);
  }
  add(sum, -(is_duration ? problem.energy_limit->count() : problem.duration_limit->count()));
}

}  // namespace remora::devices
