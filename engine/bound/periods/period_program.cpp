// SPDX-License-Identifier: Apache-2.0
#include "engine/bound/periods/period_program.hpp"

#include <algorithm>
#include <utility>

namespace remora {

namespace {

/// Up to so many periods for an op's recomputation, rows for all windows are smaller than columns for reserved flow.
constexpr std::size_t kFewWindows = 5;

}  // namespace

Periods::Periods(int stages, const std::set<Stage>& ends) {
  int period = 0;
  for (Stage k{0}; k < stages; ++k) {
    period_.push_back(period);
    if (k + 1 == stages || ends.contains(k)) {
      last_.push_back(k);
      ++period;
    }
  }
}

/// A sum of columns and of what is certain.
class PeriodProgram::Sum {
 public:
  Sum& add(Presence presence, std::int64_t factor) {
    if (presence == kAlways) constant_ += factor;
    if (presence >= 0) terms_.push_back({presence, factor});
    return *this;
  }
  Sum& add(std::int64_t constant) {
    constant_ += constant;
    return *this;
  }
  /// Each column once.
  Sum& merge() {
    std::sort(terms_.begin(), terms_.end(), [](auto& a, auto& b) { return a.column < b.column; });
    std::size_t kept = 0;
    for (const ProgramTerm& term : terms_) {
      if (kept > 0 && terms_[kept - 1].column == term.column) {
        terms_[kept - 1].factor += term.factor;
      } else {
        terms_[kept++] = term;
      }
    }
    terms_.resize(kept);
    return *this;
  }
  [[nodiscard]] const std::vector<ProgramTerm>& terms() const { return terms_; }
  [[nodiscard]] std::int64_t constant() const { return constant_; }

 private:
  std::vector<ProgramTerm> terms_;
  std::int64_t constant_ = 0;
};

PeriodProgram::PeriodProgram(const Instance& instance, Periods periods, const std::set<RecomputeEvent>& events,
                             const RuledOut& out, const std::function<bool()>& interrupted)
    : instance_(instance), periods_(std::move(periods)) {
  find_out(out);
  find_horizons();
  number_columns();
  constexpr int kOpsBetweenQuestions = 64;
  for (const OpId op : instance.ops()) {
    if (op % kOpsBetweenQuestions == 0 && interrupted && interrupted()) return;
    add_supply(op);
    add_uses(op);
  }
  for (int i = 0; i < periods_.count(); ++i) add_memory(i);
  for (const RecomputeEvent& event : events) add_event(event);
  // Where all that could be recomputed is out, nothing may be left: solvers want a column and a row.
  if (program_.costs.empty()) program_.add_column(0);
  if (program_.rows.empty()) program_.rows.push_back({{{0, 1}}, 0});
}

/// A period in which every stage is out.
void PeriodProgram::find_out(const RuledOut& out) {
  out_.assign(instance_.op_count(), {});
  for (const OpId op : out.ids()) {
    const std::vector<bool>& stages = out[op];
    for (int i = 0; i < (stages.empty() ? 0 : periods_.count()); ++i) {
      const auto end = stages.begin() + periods_.last(i) + 1;
      out_[op].push_back(std::find(stages.begin() + periods_.first(i), end, false) == end);
    }
  }
}

/// The first period in which the op may be recomputed, or the number of periods.
int PeriodProgram::first_open(OpId op) const {
  int period = instance_.max_computes(op) < 2 ? periods_.count() : period_of(op) + 1;
  while (period < periods_.count() && is_out(op, period)) ++period;
  return period;
}

/// Users come after their producers: going down, the last periods of all that might read an op are known.
void PeriodProgram::find_horizons() {
  first_.assign(instance_.op_count(), 0);
  last_.assign(instance_.op_count(), 0);
  first_presence_.assign(instance_.tensor_count(), 0);
  last_presence_.assign(instance_.tensor_count(), -1);
  certain_.assign(instance_.tensor_count(), -1);
  for (int v = instance_.op_count(); v-- > 0;) {
    const OpId op(v);
    last_[op] = period_of(op);
    const int open = first_open(op);
    for (const TensorId t : instance_.outputs(op)) {
      int latest = period_of(op);
      const auto is_used = [&](int period) {
        latest = std::max(latest, period);
        if (period < open) certain_[t] = std::max(certain_[t], period);
      };
      for (const OpId user : instance_.users(t)) {
        is_used(period_of(user));
        latest = std::max(latest, last_[user]);
      }
      if (instance_.keep(t)) is_used(periods_.count() - 1);
      const bool weightless = instance_.size(t) == Bytes(0);
      if (weightless) certain_[t] = latest;
      last_presence_[t] = latest;
      if (instance_.max_computes(op) > 1 && !weightless) last_[op] = std::max(last_[op], latest);
    }
    while (last_[op] > period_of(op) && is_out(op, last_[op])) --last_[op];
  }
}

void PeriodProgram::number_columns() {
  for (const OpId op : instance_.ops()) {
    first_[op] = program_.columns();
    for (int i = period_of(op) + 1; i <= last_[op]; ++i) {
      program_.out[at(program_.add_column(instance_.duration(op).count()))] = is_out(op, i);
    }
  }
  for (const OpId op : instance_.ops()) {
    for (const TensorId t : instance_.outputs(op)) {
      first_presence_[t] = program_.columns();
      for (int i = period_of(op) + 1; i <= last_presence_[t]; ++i) {
        if (i > certain_[t]) program_.add_column(0);
      }
    }
  }
}

PeriodProgram::Presence PeriodProgram::recomputed(OpId op, int period) const {
  if (period <= period_of(op) || period > last_[op] || is_out(op, period)) return kNever;
  return column(op, period);
}

PeriodProgram::Presence PeriodProgram::resident(TensorId tensor, int period) const {
  const int first = std::max(period_of(instance_.producer(tensor)), certain_[tensor]) + 1;
  if (period <= certain_[tensor]) return kAlways;
  return period <= last_presence_[tensor] ? first_presence_[tensor] + period - first : kNever;
}

bool PeriodProgram::reads(OpId op, TensorId tensor) const {
  const auto inputs = instance_.inputs(op);
  return std::find(inputs.begin(), inputs.end(), tensor) != inputs.end();
}

void PeriodProgram::add(const Sum& sum, std::int64_t least) {
  std::int64_t fewest = sum.constant();
  for (const ProgramTerm& term : sum.terms()) fewest += std::min<std::int64_t>(0, term.factor);
  if (fewest >= least) return;
  program_.rows.push_back({sum.terms(), least - sum.constant()});
}

void PeriodProgram::add_supply(OpId op) {
  const int own = period_of(op);
  for (const TensorId t : instance_.outputs(op)) {
    const bool alone = instance_.outputs(op).size() == 1;
    for (int i = own + 1; i <= last_presence_[t]; ++i) {
      const Presence here = resident(t, i);
      // Its first compute supplies its own period.
      if (i > own + 1) add(Sum().add(resident(t, i - 1), 1).add(recomputed(op, i - 1), 1).add(here, -1), 0);
      if (alone) add(Sum().add(here, -1).add(recomputed(op, i), -1), -1);
    }
    if (instance_.keep(t) && own < periods_.count() - 1) {
      add(Sum().add(resident(t, periods_.count() - 1), 1).add(recomputed(op, periods_.count() - 1), 1), 1);
    }
  }
  Sum all;
  for (int i = own + 1; i <= last_[op]; ++i) all.add(recomputed(op, i), -1);
  add(all, 1 - instance_.max_computes(op));
}

void PeriodProgram::add_uses(OpId op) {
  std::vector<int> open;
  for (int i = period_of(op) + 1; i <= last_[op]; ++i) {
    if (!is_out(op, i)) open.push_back(i);
  }
  const int own = period_of(op);
  for (const TensorId t : instance_.inputs(op)) {
    const OpId producer = instance_.producer(t);
    if (period_of(producer) < own) add(Sum().add(resident(t, own), 1).add(recomputed(producer, own), 1), 1);
    const bool is_reserved = instance_.max_computes(op) == 2 && open.size() > 1 && certain_[t] < open.back();
    if (is_reserved && open.size() > kFewWindows) {
      add_flow(op, t, open);
      continue;
    }
    for (std::size_t first = 0; first < open.size(); ++first) {
      const std::size_t most = is_reserved ? open.size() - first : 1;
      for (std::size_t count = 1; count <= most; ++count) add_window(op, t, std::span(open).subspan(first, count));
    }
  }
}

/// The op's recomputes in these of its periods are served by what is there before them and what comes meanwhile.
void PeriodProgram::add_window(OpId op, TensorId input, std::span<const int> open) {
  Sum sum;
  sum.add(resident(input, open.front()), 1);
  for (int i = open.front(); i <= open.back(); ++i) sum.add(recomputed(instance_.producer(input), i), 1);
  for (const int i : open) sum.add(recomputed(op, i), -1);
  add(sum, 0);
}

/// Only the periods in which the op may be recomputed matter: over those in between, supply says as much.
void PeriodProgram::add_flow(OpId op, TensorId input, std::span<const int> open) {
  const OpId producer = instance_.producer(input);
  Presence here = program_.add_column(0);
  add(Sum().add(resident(input, open.front()), 1).add(here, -1), 0);
  for (std::size_t n = 0; n < open.size(); ++n) {
    const bool is_last = n + 1 == open.size();
    const int after = is_last ? open[n] + 1 : open[n + 1];
    const Presence next = is_last ? kNever : program_.add_column(0);
    Sum left;
    left.add(here, 1).add(recomputed(op, open[n]), -1).add(next, -1);
    for (int i = open[n]; i < after; ++i) left.add(recomputed(producer, i), 1);
    add(left, 0);
    if (!is_last) add(Sum().add(resident(input, after), 1).add(next, -1), 0);
    // A later supply of the producer comes too late for the op.
    if (after > open[n] + 1) add_window(op, input, open.subspan(n, 1));
    here = next;
  }
}

template <class Visit>
void PeriodProgram::for_each_taken_over(OpId op, Visit visit) const {
  if (!instance_.has_in_place()) return;
  for (const InnerPeak& peak : instance_.inner(op, 0)) {
    for (const FreedInput& freed : peak.freed) visit(freed.tensor, std::min(freed.most, instance_.size(freed.tensor)));
  }
}

void PeriodProgram::add_memory(int period) {
  const Stage last = periods_.last(period);
  if (period + 1 == periods_.count() || last >= instance_.op_count()) return;
  const OpId k(last);
  Sum sum;
  sum.add(-(instance_.base_memory() + instance_.workspace(k)).count());
  for (const TensorId t : instance_.outputs(k)) sum.add(-instance_.size(t).count());
  for (const TensorId t : instance_.inputs(k)) sum.add(-instance_.size(t).count());
  for_each_taken_over(k, [&](TensorId t, Bytes saved) { sum.add(resident(t, period + 1), -saved.count()); });
  for (int v = 0; v < last; ++v) {
    for (const TensorId t : instance_.outputs(OpId(v))) {
      if (instance_.size(t) > Bytes(0) && !reads(k, t)) sum.add(resident(t, period + 1), -instance_.size(t).count());
    }
  }
  add(sum, -instance_.budget().count());
}

/// True if the tensor is resident right after the stage's recomputations up to that of `after`, its own included.
PeriodProgram::Presence PeriodProgram::present_up_to(TensorId tensor, OpId after, Stage stage) {
  if (stage < instance_.op_count() && reads(OpId(stage), tensor)) return kAlways;
  if (stage == instance_.op_count() && instance_.keep(tensor)) return kAlways;
  const auto users = instance_.users(tensor);
  const auto next = std::upper_bound(users.begin(), users.end(), after);
  const int period = periods_.of(stage);
  if (next == users.end() || Stage{*next} >= stage) {
    return period + 1 < periods_.count() ? resident(tensor, period + 1) : kNever;
  }
  const auto [known, is_new] = chains_.try_emplace({tensor, *next, stage}, kNever);
  if (!is_new) return known->second;
  const Presence later = present_up_to(tensor, *next, stage);
  const Presence reader = recomputed(*next, period);
  Presence result = later;
  if (reader != kNever && later != kAlways) {
    result = later == kNever ? reader : program_.add_column(0);
    if (later != kNever) {
      add(Sum().add(result, 1).add(reader, -1), 0);
      add(Sum().add(result, 1).add(later, -1), 0);
    }
  }
  chains_[{tensor, *next, stage}] = result;
  return result;
}

void PeriodProgram::add_event(const RecomputeEvent& event) {
  const int period = periods_.of(event.stage);
  const Presence runs = recomputed(event.op, period);
  if (periods_.first(period) != event.stage || periods_.last(period) != event.stage || runs == kNever) return;
  Sum sum;
  sum.add(-(instance_.base_memory() + instance_.workspace(event.op)).count());
  for (const TensorId t : instance_.outputs(event.op)) sum.add(-instance_.size(t).count());
  for_each_taken_over(
      event.op, [&](TensorId t, Bytes saved) { sum.add(present_up_to(t, event.op, event.stage), -saved.count()); });
  for (int v = 0; v < event.stage; ++v) {
    const OpId op(v);
    if (op == event.op) continue;
    for (const TensorId t : instance_.outputs(op)) {
      const std::int64_t size = instance_.size(t).count();
      if (size == 0) continue;
      if (reads(event.op, t)) {
        sum.add(-size);
      } else {
        sum.add(op > event.op ? resident(t, period) : present_up_to(t, event.op, event.stage), -size);
      }
    }
  }
  // Only where it runs: as much more as all could take together.
  std::int64_t most = -sum.constant();
  for (const ProgramTerm& term : sum.terms()) most -= term.factor;
  const std::int64_t above = most - instance_.budget().count();
  if (above > 0) add(sum.add(runs, -above).merge(), -instance_.budget().count() - above);
}

RecomputePlan PeriodProgram::plan(std::span<const double> solution, double least) const {
  const auto chosen = [&](Presence presence) {
    return presence >= 0 && solution[static_cast<std::size_t>(presence)] >= least;
  };
  RecomputePlan plan;
  // By op and period, of those recomputed; readers come first.
  std::map<std::pair<OpId, int>, Stage> placed;
  for (int v = instance_.op_count(); v-- > 0;) {
    const OpId op(v);
    for (int i = period_of(op) + 1; i <= last_[op]; ++i) {
      if (!chosen(recomputed(op, i))) continue;
      Stage stage = periods_.last(i);
      for (const TensorId t : instance_.outputs(op)) {
        for (const OpId user : instance_.users(t)) {
          if (period_of(user) == i) stage = std::min(stage, Stage{user});
          if (const auto reader = placed.find({user, i}); reader != placed.end()) {
            stage = std::min(stage, reader->second);
          }
        }
      }
      placed[{op, i}] = stage;
      plan.push_back({stage, op});
    }
  }
  std::sort(plan.begin(), plan.end());
  return plan;
}

std::vector<OpId> PeriodProgram::undecided(std::span<const double> solution) const {
  constexpr double kNearlyWhole = 1e-3;
  std::vector<OpId> ops;
  for_each_recompute([&](OpId op, int, int column) {
    const double part = solution[at(column)];
    const bool is_open = part > kNearlyWhole && part < 1 - kNearlyWhole;
    if (is_open && (ops.empty() || ops.back() != op)) ops.push_back(op);
  });
  return ops;
}

}  // namespace remora
