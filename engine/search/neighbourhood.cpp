// SPDX-License-Identifier: Apache-2.0
#include "engine/search/neighbourhood.hpp"

#include <algorithm>
#include <utility>

#include "model/table.hpp"

namespace remora {
namespace {

/// The fullest of a few random steps of [first, last].
int full_step(const ScheduleView& view, int first, int last, Random& random) {
  constexpr int kTries = 6;
  int best = first;
  for (int i = 0; i < kTries; ++i) {
    const int step = first + static_cast<int>(random.below(at(last - first + 1)));
    if (i == 0 || view.memory(step) > view.memory(best)) best = step;
  }
  return best;
}

void relax_recompute(const ScheduleView& view, OpSelection& selection, Random& random) {
  constexpr std::size_t kCompetitorsOfOneStep = 6;
  const int step = view.recomputes()[random.below(view.recomputes().size())];
  selection.add(view.op(step));
  const int before = view.previous_compute(step);
  if (step - before < 2) return;
  selection.add_at_random(view.competitors(full_step(view, before + 1, step - 1, random)), random,
                          kCompetitorsOfOneStep);
}

void relax_event(const ScheduleView& view, int size, OpSelection& selection, Random& random) {
  const int step = full_step(view, 0, view.steps() - 1, random);
  selection.add_at_random(view.competitors(step), random, at(size));
}

void relax_window(const ScheduleView& view, int size, OpSelection& selection, Random& random) {
  const int first = static_cast<int>(random.below(at(view.steps())));
  for (int step = first; step < std::min(first + size, view.steps()); ++step) selection.add(view.op(step));
}

void relax_around(const Instance& instance, OpId op, OpSelection& selection) {
  selection.add(op);
  for (const TensorId t : instance.inputs(op)) {
    const OpId producer = instance.producer(t);
    selection.add(producer);
    for (const TensorId further : instance.inputs(producer)) selection.add(instance.producer(further));
  }
  for (const TensorId t : instance.outputs(op)) {
    for (const OpId user : instance.users(t)) selection.add(user);
  }
}

void relax_chain(const ScheduleView& view, OpSelection& selection, Random& random) {
  relax_around(view.instance(), view.op(view.recomputes()[random.below(view.recomputes().size())]), selection);
}

/// A stretch of them, which are neighbours in the order; on every second pass what is around one, too.
void relax_disputed(const Instance& instance, std::span<const OpId> disputed, int size, int pass,
                    OpSelection& selection, Random& random) {
  const std::size_t first = random.below(disputed.size());
  if (pass % 2 == 1) return relax_around(instance, disputed[first], selection);
  const std::size_t end = std::min(disputed.size(), first + at(size / 2 + 1));
  for (std::size_t i = first; i < end; ++i) selection.add(disputed[i]);
}

}  // namespace

ScheduleView::ScheduleView(const Instance& instance, std::vector<Compute> runs)
    : instance_(&instance),
      runs_(std::move(runs)),
      evaluation_(evaluate(instance, runs_)),
      previous_compute_(runs_.size(), -1) {
  Table<OpId, int> latest(instance.op_count(), -1);
  for (std::size_t step = 0; step < runs_.size(); ++step) {
    int& before = latest[runs_[step].op];
    previous_compute_[step] = before;
    if (before >= 0) recomputes_.push_back(static_cast<int>(step));
    before = static_cast<int>(step);
  }
}

std::vector<OpId> ScheduleView::competitors(int step) const {
  std::vector<OpId> ops;
  const auto used = instance_->inputs(op(step));
  for (const RetentionInterval& interval : evaluation_.intervals) {
    if (interval.first_step >= step) break;
    const OpId producer = instance_->producer(interval.tensor);
    if (interval.last_step < step || !has_decision(*instance_, producer)) continue;
    if (interval.last_step == step || std::find(used.begin(), used.end(), interval.tensor) != used.end()) continue;
    ops.push_back(producer);
  }
  for (const int again : recomputes_) {
    if (again > step && previous_compute(again) < step) ops.push_back(op(again));
  }
  std::sort(ops.begin(), ops.end());
  ops.erase(std::unique(ops.begin(), ops.end()), ops.end());
  return ops;
}

std::vector<OpId> relax(const ScheduleView& view, Relaxation relaxation, int size, Random& random,
                        std::span<const OpId> disputed) {
  OpSelection selection(view.instance(), size);
  // Each pass adds the surroundings of one more place; a few fruitless passes mean that there is no more.
  const int passes = 4 + size;
  for (int pass = 0; pass < passes && !selection.full(); ++pass) {
    if (relaxation == Relaxation::disputed && !disputed.empty()) {
      relax_disputed(view.instance(), disputed, size, pass, selection, random);
    } else if (relaxation == Relaxation::event || view.recomputes().empty()) {
      relax_event(view, size, selection, random);
    } else if (relaxation == Relaxation::window) {
      relax_window(view, size, selection, random);
    } else if (relaxation == Relaxation::chains) {
      relax_chain(view, selection, random);
    } else {
      relax_recompute(view, selection, random);
    }
  }
  return std::move(selection).sorted();
}

std::vector<OpId> relax_above(const ScheduleView& view, Bytes target, int size, Random& random,
                              const std::function<bool()>& interrupted) {
  constexpr int kOpsOfOneStep = 4;
  constexpr std::size_t kMaxSteps = 500;
  const Instance& instance = view.instance();
  std::vector<int> above;
  for (int step = 0; step < view.steps(); ++step) {
    if (view.memory(step) > target) above.push_back(step);
  }
  random.shuffle(above);
  if (above.size() > kMaxSteps) above.resize(kMaxSteps);
  OpSelection selection(instance, std::max(size, static_cast<int>(above.size()) * kOpsOfOneStep));
  for (const int step : above) {
    if (interrupted()) break;
    // A recompute that itself overflows may have to move or go.
    selection.add(view.op(step));
    selection.add_at_random(view.competitors(step), random, 2);
  }
  for (int pass = 0; pass < size && !selection.full() && !above.empty() && !interrupted(); ++pass) {
    auto competitors = view.competitors(above[random.below(above.size())]);
    if (competitors.empty()) continue;
    const OpId op = competitors[random.below(competitors.size())];
    selection.add(op);
    for (const TensorId t : instance.inputs(op)) selection.add(instance.producer(t));
  }
  return std::move(selection).sorted();
}

}  // namespace remora
