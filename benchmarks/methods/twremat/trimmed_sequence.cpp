// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/methods/twremat/trimmed_sequence.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "model/evaluate.hpp"
#include "model/table.hpp"

namespace remora {
namespace {

void erase_sorted(std::vector<int>& list, int value) {
  list.erase(std::lower_bound(list.begin(), list.end(), value));
}

}  // namespace

TrimmedSequence::TrimmedSequence(const Instance& instance, std::span<const OpId> sequence)
    : instance_(instance),
      ops_(sequence.begin(), sequence.end()),
      alive_(sequence.size(), true),
      computes_(index(instance.op_count())),
      uses_(index(instance.tensor_count())),
      memory_(evaluate(instance, sequence).memory) {
  for (int step = 0; step < steps(); ++step) {
    computes_[index(op(step))].push_back(step);
    for (const TensorId t : instance.inputs(op(step))) uses_[index(t)].push_back(step);
    duration_ += instance.duration(op(step));
  }
  for (int t = 0; t < instance.tensor_count(); ++t) {
    if (instance.keep(TensorId(t))) uses_[index(t)].push_back(steps());
  }
  for (int step = 0; step < steps(); ++step) doubtful_.push_back(step);
  remove_useless();
}

Sequence TrimmedSequence::sequence() const {
  Sequence left;
  for (int step = 0; step < steps(); ++step) {
    if (alive_[index(step)]) left.push_back(op(step));
  }
  return left;
}

Bytes TrimmedSequence::peak() const {
  return std::max(memory_.largest(), instance_.base_memory());
}

Wide TrimmedSequence::added_area(int step) {
  find_changes(step);
  Wide area = 0;
  for (const Change& change : changes_) area += Wide{change.last - change.first + 1} * change.amount.count();
  return area;
}

void TrimmedSequence::remove(int step) {
  find_changes(step);
  apply_changes();
  forget(step);
  remove_useless();
}

bool TrimmedSequence::remove_within(int step, Bytes budget) {
  find_changes(step);
  apply_changes();
  if (memory_.largest() > budget) {
    undo_changes();
    return false;
  }
  forget(step);
  remove_useless();
  return true;
}

int TrimmedSequence::next_compute(OpId op, int step) const {
  const auto& list = computes_[index(op)];
  const auto next = std::upper_bound(list.begin(), list.end(), step);
  return next == list.end() ? steps() + 1 : *next;
}

int TrimmedSequence::compute_before(OpId op, int step) const {
  const auto& list = computes_[index(op)];
  return *std::prev(std::lower_bound(list.begin(), list.end(), step));
}

int TrimmedSequence::last_use_between(TensorId tensor, int after, int before) const {
  const auto& list = uses_[index(tensor)];
  const auto beyond = std::lower_bound(list.begin(), list.end(), before);
  return beyond == list.begin() ? after : std::max(after, *std::prev(beyond));
}

bool TrimmedSequence::useful(int step) const {
  const auto outputs = instance_.outputs(op(step));
  const int next = next_compute(op(step), step);
  return std::any_of(outputs.begin(), outputs.end(),
                     [&](TensorId t) { return last_use_between(t, step, next) > step; });
}

void TrimmedSequence::find_changes(int step) {
  changes_.clear();
  const auto change = [&](int first, int last, Bytes amount) {
    last = std::min(last, steps() - 1);
    if (first <= last && amount != Bytes(0)) changes_.push_back({first, last, amount});
  };
  const OpId v = op(step);
  const int earlier = compute_before(v, step);
  const int next = next_compute(v, step);
  change(step, step, Bytes(0) - instance_.workspace(v));
  for (const TensorId t : instance_.outputs(v)) {
    if (last_use_between(t, step, next) > step) {
      change(last_use_between(t, earlier, step) + 1, step - 1, instance_.size(t));
    } else {
      change(step, step, Bytes(0) - instance_.size(t));
    }
  }
  for (const TensorId t : instance_.inputs(v)) {
    const OpId producer = instance_.producer(t);
    const int since = compute_before(producer, step);
    if (last_use_between(t, since, next_compute(producer, since)) > step) continue;
    change(last_use_between(t, since, step) + 1, step, Bytes(0) - instance_.size(t));
  }
}

void TrimmedSequence::apply_changes() {
  for (const Change& change : changes_) memory_.add(change.first, change.last, change.amount);
}

void TrimmedSequence::undo_changes() {
  for (const Change& change : changes_) memory_.add(change.first, change.last, Bytes(0) - change.amount);
}

void TrimmedSequence::forget(int step) {
  const OpId v = op(step);
  alive_[index(step)] = false;
  duration_ -= instance_.duration(v);
  erase_sorted(computes_[index(v)], step);
  for (const TensorId t : instance_.inputs(v)) {
    erase_sorted(uses_[index(t)], step);
    doubtful_.push_back(compute_before(instance_.producer(t), step));
  }
}

void TrimmedSequence::remove_useless() {
  while (!doubtful_.empty()) {
    const int step = doubtful_.back();
    doubtful_.pop_back();
    if (!removable(step) || useful(step)) continue;
    find_changes(step);
    apply_changes();
    forget(step);
  }
}

namespace {

/// A second time finds what the first one's removals made room for; later ones hardly anything.
constexpr int kMaxPasses = 4;

/// The deadline is asked once in so many removals.
constexpr int kRemovalsBetweenLooks = 256;

/// One of the excess at least, half of it at most: what is removed changes what the others add.
void remove_cheapest(TrimmedSequence& sequence, OpId op, int excess) {
  std::vector<std::pair<Wide, int>> costs;
  for (const int step : sequence.computes(op).subspan(1)) costs.emplace_back(sequence.added_area(step), step);
  std::sort(costs.begin(), costs.end());
  costs.resize(at(std::max(1, excess / 2)));
  for (const auto& [area, step] : costs) {
    // One removal may have made another one useless, which is then gone.
    if (sequence.removable(step)) sequence.remove(step);
  }
}

}  // namespace

void remove_beyond_limits(TrimmedSequence& sequence) {
  const Instance& instance = sequence.instance();
  for (int v = instance.op_count() - 1; v >= 0; --v) {
    const OpId op(v);
    const auto excess = [&] { return static_cast<int>(sequence.computes(op).size()) - instance.max_computes(op); };
    while (excess() > 0) remove_cheapest(sequence, op, excess());
  }
}

void remove_unneeded(TrimmedSequence& sequence, const Deadline& deadline) {
  const Instance& instance = sequence.instance();
  std::vector<int> recomputes;
  for (int step = 0; step < sequence.steps(); ++step) {
    if (sequence.removable(step)) recomputes.push_back(step);
  }
  std::stable_sort(recomputes.begin(), recomputes.end(),
                   [&](int a, int b) { return instance.duration(sequence.op(a)) > instance.duration(sequence.op(b)); });
  bool any = true;
  for (int pass = 0; any && pass < kMaxPasses; ++pass) {
    any = false;
    int looks = 0;
    for (const int step : recomputes) {
      if (looks++ % kRemovalsBetweenLooks == 0 && deadline.reached()) return;
      if (sequence.removable(step) && sequence.remove_within(step, instance.budget())) any = true;
    }
    std::erase_if(recomputes, [&](int step) { return !sequence.removable(step); });
  }
}

}  // namespace remora
