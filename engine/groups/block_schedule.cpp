// SPDX-License-Identifier: Apache-2.0
#include "engine/groups/block_schedule.hpp"

#include <algorithm>
#include <utility>

#include "model/evaluate.hpp"
#include "model/table.hpp"

namespace remora {
namespace {

using Kind = BlockOp::Kind;
using Role = BlockTensor::Role;

/// The first step of a pseudo op, or `none` if it isn't there.
int step_of(const std::vector<Compute>& sequence, int op, int none) {
  if (op < 0) return none;
  const auto found = std::find_if(sequence.begin(), sequence.end(), [&](const Compute& c) { return c.op == op; });
  return static_cast<int>(found - sequence.begin());
}

/// A sequence of a block's problem, and what it costs there.
struct Evaluated {
  const Block& block;
  const Instance& instance;
  const std::vector<Compute>& sequence;
  const Evaluation& evaluation;
};

/// Steps [first, end) of a sequence, one half of a schedule, and what is resident in it.
class Half {
 public:
  /// Outputs of the half for others are resident at step `handed_over`.
  Half(const Evaluated& evaluated, int first, int end, int handed_over)
      : block_(evaluated.block),
        instance_(evaluated.instance),
        sequence_(evaluated.sequence),
        evaluation_(evaluated.evaluation),
        first_(first),
        end_(end),
        handed_over_(handed_over),
        interface_(block_.interface()),
        last_use_(last_uses()),
        beyond_(beyond_interface()) {}

  /// `saved`: the phantom, which the parent counts throughout.
  [[nodiscard]] HalfCost cost(Bytes saved) const {
    HalfCost result;
    for_each_step([&](int step, const std::vector<int>& serving) {
      const Compute& compute = sequence_[at(step)];
      result.duration += instance_.duration(compute.op, compute.mode);
      const auto inner = instance_.inner(compute.op, compute.mode);
      if (inner.empty()) add_peak(step, instance_.workspace(compute.op, compute.mode) - saved, {}, result.peaks);
      for (const InnerPeak& peak : inner) {
        const Bytes released = released_inside(step, peak, serving);
        add_peak(step, peak.workspace - released - saved, peak.freed, result.peaks);
      }
    });
    if (result.peaks.empty()) result.peaks.emplace_back();
    return result;
  }

 private:
  /// visit(step, serving) for each step of the half; serving: by tensor, the interval that the step reads, or -1.
  template <class Visit>
  void for_each_step(Visit visit) const {
    std::vector<int> serving(block_.tensors.size(), -1);
    std::size_t next = 0;
    for (int step = first_; step < end_; ++step) {
      for (; next < evaluation_.intervals.size() && evaluation_.intervals[next].first_step < step; ++next) {
        serving[at(evaluation_.intervals[next].tensor)] = static_cast<int>(next);
      }
      visit(step, serving);
    }
  }

  [[nodiscard]] int position(TensorId tensor) const { return position_in(interface_, tensor); }
  [[nodiscard]] bool is_input(const RetentionInterval& interval) const {
    return interval.first_step < first_ && interval.last_step >= first_ && position(interval.tensor) >= 0;
  }
  /// Made here for others. An output of the forward half that the backward half makes again for itself is not, even
  /// where it uses that to the end: only what the backward half makes for others is to be kept.
  [[nodiscard]] bool is_output(const RetentionInterval& interval) const {
    const BlockTensor& tensor = block_.tensors[at(interval.tensor)];
    const bool here = interval.first_step >= first_ && interval.first_step < end_;
    const bool backward = block_.has_halves() && first_ > 1;
    return here && interval.last_step >= handed_over_ && tensor.role == Role::output && (tensor.keep || !backward);
  }

  /// A moment of the step at which it takes so much beside what is retained, and is done with some inputs. Left out if
  /// the moment before it, with no more freed, takes as much.
  void add_peak(int step, Bytes workspace, const std::vector<FreedInput>& done, std::vector<HalfPeak>& peaks) const {
    const Bytes here = beyond_[at(step - first_)] + workspace;
    if (!peaks.empty() && here <= peaks.back().workspace) return;
    const std::vector<TensorId> whole = freed_whole(done);
    std::vector<int> freed;
    for (int i = 0; i < static_cast<int>(interface_.size()); ++i) {
      const int last = last_use_[at(i)];
      // The parent decides whether an input is also released at the step of its last use: others may need it.
      const bool goes = last == step && std::ranges::binary_search(whole, TensorId(interface_[at(i)]));
      if (last >= 0 && (last < step || goes)) freed.push_back(i);
    }
    if (!peaks.empty() && peaks.back().freed == freed) peaks.pop_back();
    peaks.push_back({here, std::move(freed)});
  }

  /// Tensors that are freed entirely, sorted. A half reports only that inputs are gone, so an input of which an output
  /// takes over a part is counted in full.
  [[nodiscard]] std::vector<TensorId> freed_whole(const std::vector<FreedInput>& done) const {
    std::vector<TensorId> result;
    for (const FreedInput& freed : done) {
      if (freed.most >= block_.tensors[at(freed.tensor)].size) result.push_back(freed.tensor);
    }
    std::ranges::sort(result);
    return result;
  }

  /// Bytes that a child's half releases before its peak, of tensors that are no inputs of this half.
  [[nodiscard]] Bytes released_inside(int step, const InnerPeak& peak, const std::vector<int>& serving) const {
    const bool last_step = at(step) + 1 == evaluation_.memory.size();
    Bytes sum;
    for (const FreedInput& freed : peak.freed) {
      const RetentionInterval& interval = evaluation_.intervals[at(serving[at(freed.tensor)])];
      const bool stays = interval.last_step > step || (last_step && block_.tensors[at(freed.tensor)].keep);
      if (!stays && !is_input(interval)) sum += std::min(freed.most, interval.size);
    }
    return sum;
  }

  /// Retained bytes at each step of the half, less its inputs and outputs, of which the parent counts all at every
  /// step. Tensors that were handed over and released here are still resident for the parent.
  [[nodiscard]] std::vector<Bytes> beyond_interface() const {
    std::vector<Bytes> change(at(end_ - first_) + 1);
    const auto add = [&](int from, int to, Bytes size) {
      change[at(std::max(from, first_) - first_)] += size;
      change[at(std::min(to, end_) - first_)] -= size;
    };
    for (const RetentionInterval& interval : evaluation_.intervals) {
      if (is_input(interval) || interval.first_step >= end_ || interval.last_step < first_) continue;
      if (is_output(interval)) {
        // Made again after it was handed over, it takes the place of what the parent counts.
        const bool again = interval.first_step > handed_over_;
        if (!again) add(first_, interval.first_step, Bytes(-interval.size.count()));
      } else {
        add(interval.first_step, interval.last_step + 1, interval.size);
      }
    }
    std::vector<Bytes> result;
    result.reserve(at(end_ - first_));
    Bytes here;
    for (int step = first_; step < end_; ++step) {
      here += change[at(step - first_)];
      result.push_back(here);
    }
    return result;
  }

  /// By position in the interface: the step of an input's last use in the half; -1 where it is no input. What the
  /// other half reads, too, may go all the same: the parent may have it made again in between.
  [[nodiscard]] std::vector<int> last_uses() const {
    std::vector<int> result(interface_.size(), -1);
    for_each_step([&](int step, const std::vector<int>& serving) {
      const Compute& compute = sequence_[at(step)];
      for (const TensorId t : instance_.inputs(compute.op)) {
        if (position(t) < 0 || !instance_.reads(compute.op, compute.mode, t)) continue;
        if (is_input(evaluation_.intervals[at(serving[at(t)])])) result[at(position(t))] = step;
      }
    });
    return result;
  }

  const Block& block_;
  const Instance& instance_;
  const std::vector<Compute>& sequence_;
  const Evaluation& evaluation_;
  int first_;
  int end_;
  int handed_over_;
  std::vector<int> interface_;
  std::vector<int> last_use_;
  std::vector<Bytes> beyond_;
};

int weight(const BlockProblem& problem, const Compute& compute) {
  const BlockOp& op = problem.block->ops[at(compute.op)];
  if (op.kind != Kind::forward_half) return op.kind == Kind::op ? 1 : 0;
  const ChildSchedules& child = problem.children[at(op.child)];
  return at(compute.mode) < child.schedules.size() ? child.schedules[at(compute.mode)].computes : 1;
}

int most_computes(const BlockProblem& problem, const std::vector<Compute>& sequence) {
  std::vector<int> computes(problem.block->ops.size(), 0);
  int most = 1;
  for (const Compute& compute : sequence) most = std::max(most, computes[at(compute.op)] += weight(problem, compute));
  return most;
}

bool repeatable(const BlockProblem& problem) {
  const int end = problem.block->has_halves() ? problem.block->leave : static_cast<int>(problem.block->ops.size());
  for (int o = 0; o < end; ++o) {
    const Op& op = problem.graph->ops[at(o)];
    const bool often = op.max_computes.value_or(problem.max_computes) >= problem.max_computes;
    if (problem.block->ops[at(o)].kind != Kind::enter && (!op.recompute || !often)) return false;
  }
  return true;
}

void append_own(const BlockProblem& problem, const std::vector<Compute>& sequence, int first, int end,
                std::vector<Compute>& half) {
  for (int step = first; step < end; ++step) {
    const Kind kind = problem.block->ops[at(sequence[at(step)].op)].kind;
    if (kind != Kind::enter && kind != Kind::leave && kind != Kind::away) half.push_back(sequence[at(step)]);
  }
}

/// Notes the tensors between the halves: the phantom, and which of the interface the backward half reads.
void note_saved(const Block& block, const Evaluation& evaluation, int away, int steps, BlockSchedule& schedule) {
  const std::vector<int> interface = block.interface();
  schedule.reads.assign(interface.size(), false);
  for (const RetentionInterval& interval : evaluation.intervals) {
    const bool held = away < steps && interval.first_step <= away && interval.last_step > away;
    if (!held) continue;
    const int position = position_in(interface, interval.tensor);
    if (position >= 0) {
      schedule.reads[at(position)] = true;
    } else {
      schedule.saved += interval.size;
    }
  }
}

}  // namespace

Bytes HalfCost::workspace() const {
  Bytes most;
  for (const HalfPeak& peak : peaks) most = std::max(most, peak.workspace);
  return most;
}

std::size_t BlockSchedule::freed_inputs() const {
  std::size_t count = 0;
  for (const HalfCost* cost : {&forward_cost, &backward_cost}) {
    for (const HalfPeak& moment : cost->peaks) count += moment.freed.size();
  }
  return count;
}

BlockSchedule measure_schedule(const BlockProblem& problem, const Instance& instance, std::vector<Compute> sequence) {
  const Block& block = *problem.block;
  const Evaluation evaluation = evaluate(instance, sequence);
  const int steps = static_cast<int>(sequence.size());
  const int away = step_of(sequence, block.away, steps);
  BlockSchedule schedule;
  schedule.computes = most_computes(problem, sequence);
  schedule.repeatable = repeatable(problem);
  note_saved(block, evaluation, away, steps, schedule);
  for (int step = 0; step < steps; ++step) {
    if (step != away) schedule.peak = std::max(schedule.peak, evaluation.memory[at(step)]);
  }
  const int first = block.enter >= 0 ? 1 : 0;
  const int leave = step_of(sequence, block.leave, steps - 1);
  const Evaluated evaluated{block, instance, sequence, evaluation};
  schedule.forward_cost = Half(evaluated, first, away, leave).cost(schedule.saved);
  append_own(problem, sequence, 0, away, schedule.forward);
  if (away == steps) return schedule;
  schedule.backward_cost = Half(evaluated, away + 1, steps, steps - 1).cost(schedule.saved);
  append_own(problem, sequence, away, steps, schedule.backward);
  return schedule;
}

namespace {

bool is_compute_of(const BlockProblem& problem, const Compute& compute) {
  if (compute.op < 0 || at(compute.op) >= problem.block->ops.size() || compute.mode < 0) return false;
  const BlockOp& op = problem.block->ops[at(compute.op)];
  if (op.kind == Kind::op) return compute.mode == 0;
  if (op.child < 0) return false;
  const std::size_t schedules = problem.children[at(op.child)].schedules.size();
  // The last one is the pass.
  return at(compute.mode) < schedules + (op.kind == Kind::forward_half ? 1 : 0);
}

bool is_cost_over(const HalfCost& cost, std::size_t interface) {
  if (cost.duration < Duration(0) || cost.peaks.empty()) return false;
  return std::all_of(cost.peaks.begin(), cost.peaks.end(), [&](const HalfPeak& peak) {
    return std::all_of(peak.freed.begin(), peak.freed.end(),
                       [&](int position) { return position >= 0 && at(position) < interface; });
  });
}

}  // namespace

bool is_schedule_of(const BlockProblem& problem, const BlockSchedule& schedule) {
  const auto is_compute = [&](const Compute& compute) { return is_compute_of(problem, compute); };
  const std::size_t interface = problem.block->interface().size();
  const bool backward = !schedule.backward.empty();
  return std::all_of(schedule.forward.begin(), schedule.forward.end(), is_compute) &&
         std::all_of(schedule.backward.begin(), schedule.backward.end(), is_compute) &&
         is_cost_over(schedule.forward_cost, interface) &&
         (!backward || is_cost_over(schedule.backward_cost, interface)) && schedule.saved >= Bytes(0) &&
         schedule.computes >= 1 && schedule.reads.size() == interface;
}

BlockSchedule passing_schedule(const BlockProblem& problem, const Instance& instance) {
  const Block& block = *problem.block;
  const int end = block.has_halves() ? block.leave : static_cast<int>(block.ops.size());
  std::vector<Compute> sequence;
  for (int o = 0; o < end; ++o) {
    const BlockOp& op = block.ops[at(o)];
    const bool child = op.kind == Kind::forward_half && block.has_halves();
    const ModeNumber pass = child ? static_cast<ModeNumber>(problem.children[at(op.child)].schedules.size()) : 0;
    const bool offered = child && instance.offers(OpId(o), pass);
    sequence.push_back({OpId(o), offered ? pass : 0});
  }
  // Outputs of the group for others stay resident until it leaves.
  if (block.has_halves()) sequence.push_back({OpId(block.leave), 0});
  BlockSchedule schedule = measure_schedule(problem, instance, std::move(sequence));
  schedule.reads.assign(block.interface().size(), false);
  return schedule;
}

}  // namespace remora
