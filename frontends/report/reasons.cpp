// SPDX-License-Identifier: Apache-2.0
//
// Why each recompute of a schedule is there, and Checkmate's matrices of it.
#include <algorithm>
#include <cstddef>

#include "frontends/report/profile.hpp"
#include "frontends/report/ranges.hpp"

namespace remora::report {
namespace {

/// The worse of two overloads, with the steps of both.
Overload joined(const Overload& a, const Overload& b) {
  Overload worst = b.above > a.above ? b : a;
  worst.steps = a.steps + b.steps;
  return worst;
}

/// Where a step's op first runs, what the input order holds there; 0 at recomputes.
std::vector<Bytes> input_memory(const ScheduleProfile& profile) {
  std::vector<Bytes> memory(profile.after.ops.size());
  for (std::size_t i = 0; i < memory.size(); ++i) {
    if (!profile.after.again[i]) memory[i] = profile.before.memory[profile.after.ops[i]];
  }
  return memory;
}

class Reasons {
 public:
  Reasons(const Graph& graph, const ScheduleProfile& profile, Bytes budget)
      : after_(profile.after),
        budget_(budget),
        without_recompute_(input_memory(profile)),
        memory_(profile.after.memory),
        gone_since_(graph.tensors.size(), -1),
        sizes_(graph.tensors.size()),
        next_stay_(0) {
    overloads_before_.reserve(after_.ops.size() + 1);
    overloads_before_.push_back(0);
    for (std::size_t i = 0; i < after_.ops.size(); ++i) {
      const bool above = without_recompute_.amount(static_cast<int>(i)) > budget;
      overloads_before_.push_back(overloads_before_.back() + (above ? 1 : 0));
    }
  }

  /// The recomputes by step.
  std::vector<PaidRecompute> find() {
    std::vector<PaidRecompute> recomputes;
    for (std::size_t i = 0; i < after_.ops.size(); ++i) {
      const std::vector<TensorId> back = begun_at(static_cast<int>(i));
      if (after_.again[i]) {
        recomputes.push_back(reason(static_cast<int>(i), back));
        asked_by_.resize(asked_.size(), recomputes.size() - 1);
      }
      // Begun and released within one step included: it is away from the next step on.
      for (const std::size_t stay : begun_) {
        gone_since_[after_.stays[stay].tensor] = after_.stays[stay].last_step + 1;
      }
    }
    const std::vector<int> counts = count_above(after_.memory, asked_);
    for (std::size_t i = 0; i < counts.size(); ++i) recomputes[asked_by_[i]].if_kept.steps += counts[i];
    return recomputes;
  }

 private:
  /// The tensors whose stays begin at `step`; steps are asked for one after the other.
  std::vector<TensorId> begun_at(int step) {
    begun_.clear();
    std::vector<TensorId> tensors;
    for (; next_stay_ < after_.stays.size() && after_.stays[next_stay_].first_step == step; ++next_stay_) {
      begun_.push_back(next_stay_);
      tensors.push_back(after_.stays[next_stay_].tensor);
      sizes_[tensors.back()] = after_.stays[next_stay_].size;
    }
    return tensors;
  }

  PaidRecompute reason(int step, std::vector<TensorId> back) {
    const OpId op = after_.ops[static_cast<std::size_t>(step)];
    PaidRecompute found{.step = step, .op = op, .paid = after_.durations[static_cast<std::size_t>(step)]};
    std::sort(back.begin(), back.end(), [&](TensorId a, TensorId b) { return gone_since_[a] < gone_since_[b]; });
    found.first_away = back.empty() ? step : gone_since_[back.front()];
    found.last_away = back.empty() ? found.first_away - 1 : step - 1;
    found.relieved = overload_of_input_order(found.first_away, found.last_away);
    // Between two releases the same tensors are away.
    for (std::size_t i = 0; i < back.size(); ++i) {
      found.saved += sizes_[back[i]];
      const int end = i + 1 < back.size() ? gone_since_[back[i + 1]] : step;
      found.if_kept = joined(found.if_kept, overload_with(found.saved, gone_since_[back[i]], end - 1));
    }
    return found;
  }

  [[nodiscard]] Overload overload_of_input_order(int first, int last) const {
    if (last < first) return {};
    const int steps =
        overloads_before_[static_cast<std::size_t>(last) + 1] - overloads_before_[static_cast<std::size_t>(first)];
    if (steps == 0) return {};
    const int worst = without_recompute_.at(first, last);
    return {steps, after_.ops[static_cast<std::size_t>(worst)], without_recompute_.amount(worst) - budget_};
  }

  /// The overload in [first, last] with `more` bytes resident; the number of steps is computed later.
  Overload overload_with(Bytes more, int first, int last) {
    if (last < first) return {};
    const int worst = memory_.at(first, last);
    if (memory_.amount(worst) + more <= budget_) return {};
    asked_.push_back({first, last, budget_ - more});
    return {0, after_.ops[static_cast<std::size_t>(worst)], memory_.amount(worst) + more - budget_};
  }

  const Replay& after_;
  Bytes budget_;
  RangeMaximum without_recompute_;
  RangeMaximum memory_;
  /// How many of the steps before each exceed the budget in the input order.
  std::vector<int> overloads_before_{};
  /// For every tensor, the step after its last stay so far.
  std::vector<int> gone_since_;
  /// By tensor, as its latest stay began.
  std::vector<Bytes> sizes_;
  std::size_t next_stay_;
  std::vector<std::size_t> begun_{};
  /// How many steps exceed the budget if kept, and the number of the recompute that each of these is about.
  std::vector<CountQuery> asked_{};
  std::vector<std::size_t> asked_by_{};
};

std::vector<RecomputedOp> by_op(const Graph& graph, const std::vector<PaidRecompute>& recomputes) {
  std::vector<RecomputedOp> all(graph.ops.size());
  for (const PaidRecompute& recompute : recomputes) {
    RecomputedOp& op = all[recompute.op];
    op.op = recompute.op;
    ++op.times;
    op.paid += recompute.paid;
    op.saved = std::max(op.saved, recompute.saved);
    op.relieved = joined(op.relieved, recompute.relieved);
    op.if_kept = joined(op.if_kept, recompute.if_kept);
  }
  std::erase_if(all, [](const RecomputedOp& op) { return op.times == 0; });
  std::stable_sort(all.begin(), all.end(),
                   [](const RecomputedOp& a, const RecomputedOp& b) { return a.paid > b.paid; });
  return all;
}

// Checkmate's matrices R and S (Jain et al. 2020) as lists of what is not 0,
// for graphs whose dense matrices nobody wants to write down.

/// Sorts by op and stage, and joins pieces that overlap or touch.
void join_pieces(std::vector<RetainedStages>& pieces) {
  std::sort(pieces.begin(), pieces.end(), [](const RetainedStages& a, const RetainedStages& b) {
    return a.op != b.op ? a.op < b.op : a.first < b.first;
  });
  std::size_t kept = 0;
  for (std::size_t i = 1; i < pieces.size(); ++i) {
    if (pieces[i].op == pieces[kept].op && pieces[i].first <= pieces[kept].last + 1) {
      pieces[kept].last = std::max(pieces[kept].last, pieces[i].last);
    } else {
      pieces[++kept] = pieces[i];
    }
  }
  if (!pieces.empty()) pieces.resize(kept + 1);
}

/// The stage of every step: how many ops have been computed before it. For a schedule whose first computes follow the
/// input order.
std::vector<Stage> stages_of(const Replay& replay) {
  std::vector<Stage> stages;
  stages.reserve(replay.ops.size());
  Stage stage{0};
  for (const bool again : replay.again) {
    stages.push_back(stage);
    if (!again) ++stage;
  }
  return stages;
}

/// The ones of S, by op: O(r log r) for r stays.
std::vector<RetainedStages> retained_stages(const Graph& graph, const Replay& replay,
                                            const std::vector<Stage>& stages) {
  std::vector<RetainedStages> pieces;
  if (stages.empty()) return pieces;
  const Table<TensorId, OpId> producers = producers_of(graph);
  pieces.reserve(replay.stays.size());
  for (const TensorStay& stay : replay.stays) {
    // A stage begins between two steps: the tensor is there from the next beginning on, up to the last one not later
    // than the step that releases it.
    const Stage first = stages[static_cast<std::size_t>(stay.first_step)] + 1;
    const Stage last =
        stay.to_the_end ? static_cast<Stage>(graph.ops.size()) : stages[static_cast<std::size_t>(stay.last_step)];
    if (first <= last) pieces.push_back({.op = producers[stay.tensor], .first = first, .last = last});
  }
  join_pieces(pieces);
  return pieces;
}

}  // namespace

ScheduleProfile profile_of(const std::shared_ptr<const Graph>& graph, const Schedule& schedule) {
  ScheduleProfile profile;
  profile.before = input_order_replay(graph);
  profile.after = replay(*graph, schedule.steps);
  profile.recomputes = Reasons(*graph, profile, schedule.budget).find();
  profile.recomputed_ops = by_op(*graph, profile.recomputes);
  profile.slower_modes = slower_modes(graph, schedule);
  if (schedule.order == OrderMode::input) {
    profile.stages = stages_of(profile.after);
    profile.retained = retained_stages(*graph, profile.after, profile.stages);
  }
  return profile;
}

}  // namespace remora::report
