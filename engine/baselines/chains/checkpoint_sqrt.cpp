// SPDX-License-Identifier: Apache-2.0
#include "engine/baselines/chains/checkpoint_sqrt.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "engine/baselines/chains/block_chain.hpp"
#include "engine/baselines/chains/chain.hpp"
#include "model/table.hpp"

namespace remora {
namespace {

/// Segments and dropped tensors of one segmentation.
class Checkpointing {
 public:
  Checkpointing(const Instance& instance, int forward, std::span<const OpId> cuts)
      : instance_(instance),
        forward_(forward),
        segment_of_(at(forward)),
        segment_count_(0),
        again_(at(forward), false) {
    auto cut = cuts.begin();
    for (int op = 0; op < forward; ++op) {
      segment_of_[at(op)] = segment_count_;
      const bool ends = cut != cuts.end() && *cut == op;
      if (ends) ++cut;
      if (ends && op + 1 < forward) ++segment_count_;
    }
    ++segment_count_;
  }

  RecomputePlan plan() {
    std::vector<Stage> stages(at(segment_count_), Stage{instance_.op_count()});
    for (int op = forward_; op < instance_.op_count(); ++op) {
      for (const TensorId t : instance_.inputs(OpId(op))) {
        if (!is_dropped(t)) continue;
        const OpId producer = instance_.producer(t);
        again_[at(producer)] = true;
        Stage& stage = stages[at(segment(producer))];
        stage = std::min(stage, Stage{op});
      }
    }
    mark_inputs();
    RecomputePlan plan;
    for (int op = 0; op < forward_; ++op) {
      if (again_[at(op)]) {
        plan.push_back({stages[at(segment(OpId(op)))], OpId(op)});
      }
    }
    std::sort(plan.begin(), plan.end());
    return evaluate_plan(instance_, std::move(plan)).plan;
  }

 private:
  [[nodiscard]] int segment(OpId op) const { return segment_of_[at(op)]; }

  /// Dropped: written by an op that may run again, of a segment other than the last, and read by no later segment.
  [[nodiscard]] bool is_dropped(TensorId t) const {
    const OpId producer = instance_.producer(t);
    if (producer >= forward_ || is_pinned(instance_, t)) return false;
    if (segment(producer) + 1 == segment_count_) return false;
    const auto users = instance_.users(t);
    return std::none_of(users.begin(), users.end(),
                        [&](OpId user) { return user < forward_ && segment(user) > segment(producer); });
  }

  /// Inputs of recomputed ops that come from their own segment are recomputed, too.
  void mark_inputs() {
    for (int op = forward_ - 1; op >= 0; --op) {
      if (!again_[at(op)]) continue;
      for (const TensorId t : instance_.inputs(OpId(op))) {
        if (is_dropped(t)) again_[at(instance_.producer(t))] = true;
      }
    }
  }

  const Instance& instance_;
  int forward_;
  std::vector<int> segment_of_;
  int segment_count_;
  /// The forward ops to recompute.
  std::vector<bool> again_;
};

/// From 2 up to `most`, each about a tenth more than the one before.
std::vector<std::size_t> segment_counts(std::size_t most) {
  std::vector<std::size_t> counts;
  for (std::size_t count = 2; count <= most; count += 1 + count / 10) counts.push_back(count);
  return counts;
}

/// The first places at which the sums, one a place, reach the multiples of total / count.
std::vector<OpId> balanced_cuts(std::span<const OpId> places, std::span<const std::int64_t> sums, std::size_t count) {
  std::vector<OpId> cuts;
  const auto total = static_cast<Wide>(sums.back());
  std::size_t next = 1;
  for (std::size_t at = 0; at + 1 < places.size() && next < count; ++at) {
    if (static_cast<Wide>(sums[at]) * static_cast<Wide>(count) < total * static_cast<Wide>(next)) continue;
    cuts.push_back(places[at]);
    while (next < count && static_cast<Wide>(sums[at]) * static_cast<Wide>(count) >= total * static_cast<Wide>(next)) {
      ++next;
    }
  }
  return cuts;
}

}  // namespace

RecomputePlan checkpoint_plan(const Instance& instance, int forward, std::span<const OpId> cuts) {
  return Checkpointing(instance, forward, cuts).plan();
}

std::vector<std::vector<OpId>> segmentations(const Instance& instance, int forward, std::span<const OpId> places) {
  std::vector<std::int64_t> counts;
  std::vector<std::int64_t> bytes;
  Bytes written;
  int op = 0;
  for (const OpId place : places) {
    for (; op <= place && op < forward; ++op) {
      for (const TensorId t : instance.outputs(OpId(op))) written += instance.size(t);
    }
    counts.push_back(static_cast<std::int64_t>(counts.size()) + 1);
    bytes.push_back(written.count());
  }
  std::vector<std::vector<OpId>> found;
  for (const std::size_t count : segment_counts(places.size())) {
    found.push_back(balanced_cuts(places, counts, count));
    found.push_back(balanced_cuts(places, bytes, count));
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

MethodResult run_checkpoint_sqrt(const MethodInput& input) {
  const Instance& instance = input.instance;
  const auto forward = forward_part(instance);
  if (!forward) return {.note = kNoPhases};
  const std::vector<OpId> separating = separators(instance, *forward);
  std::vector<OpId> all;
  all.reserve(at(*forward));
  for (int op = 0; op < *forward; ++op) all.emplace_back(op);
  PlanChoice choice(instance);
  choice.offer({});
  for (const auto& places : {separating, all}) {
    for (const auto& cuts : segmentations(instance, *forward, places)) {
      if (input.deadline.reached() || choice.offers() * effort_of_plan(instance) > input.most) break;
      choice.offer(checkpoint_plan(instance, *forward, cuts));
    }
  }
  return {
      .sequence = choice.best(), .work = choice.offers(), .note = "separators: " + std::to_string(separating.size())};
}

}  // namespace remora
