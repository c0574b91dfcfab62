// SPDX-License-Identifier: Apache-2.0
//
// A recompute plan under change, with the memory at every event kept up to date: what the local search moves about in.
//
// Recomputing op v at event m = (s, v) changes memory only before m. An output of v that was retained across m need not
// be retained from its last use before m up to m; an input of v whose interval ended before m is now retained up to m:
//
//     events     a      b      c      m      d            x: output of v, used at a and d
//     x          ###################################      before
//     x          ########             ###############     after: size(x) less at b.. c
//     y                 ####                              before: y, input of v, last used at b
//     y                 ##################                after: size(y) more at c
//
// So a change costs O(log users) for each tensor of v, plus the events of the stretch from the first that changes to m.
// The rest of the graph is not looked at. `probe` says what an addition would do without doing it.
//
// Where an output takes over an input's storage (`in_place`), one event more may change: where the interval of such an
// input begins or ceases to end, the op that reads it there takes that much less or more.
//
// Works on int64 sums like `evaluate`, with which it agrees at every event.
#pragma once

#include <algorithm>
#include <bit>
#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "model/instance.hpp"
#include "model/sequence.hpp"

namespace remora {

/// Event (k, j) of the staged form, computing op j in stage k, as one number that grows with time.
class EventKey {
 public:
  constexpr EventKey() = default;
  constexpr EventKey(Stage stage, std::int32_t op) : value_((std::int64_t{stage} << 32) + op) {}
  constexpr explicit EventKey(const Recompute& recompute) : EventKey(recompute.stage, recompute.op) {}

  /// Stage of the op's first run.
  static constexpr EventKey first_compute(std::int32_t op) { return {Stage{op}, op}; }
  /// The schedule's end, to which `keep` tensors are retained.
  static constexpr EventKey end(std::int32_t op_count) { return {Stage{op_count}, op_count}; }

  [[nodiscard]] constexpr Stage stage() const { return Stage(value_ >> 32); }
  [[nodiscard]] constexpr OpId op() const { return OpId(static_cast<std::int32_t>(value_ & 0xffffffff)); }
  /// The greatest key before this one and the least after it; as the ends of a stretch they take this one in.
  [[nodiscard]] constexpr EventKey just_before() const {
    EventKey key = *this;
    --key.value_;
    return key;
  }
  [[nodiscard]] constexpr EventKey just_after() const {
    EventKey key = *this;
    ++key.value_;
    return key;
  }

  friend constexpr auto operator<=>(EventKey, EventKey) = default;

 private:
  std::int64_t value_ = -1;
};

/// A set of stages that finds its next member fast: one bit a stage.
class StageSet {
 public:
  explicit StageSet(int stages) : stages_(stages), words_(at(stages) / 64 + 1, 0) {}

  void set(Stage stage) { word(stage) |= bit(stage); }
  void clear(Stage stage) { word(stage) &= ~bit(stage); }
  void clear() { std::fill(words_.begin(), words_.end(), 0); }

  /// The first member that is not before `stage`, or the number of stages.
  [[nodiscard]] Stage next(Stage stage) const {
    std::size_t i = stage.index() / 64;
    std::uint64_t bits = words_[i] & ~(bit(stage) - 1);
    while (bits == 0) {
      if (++i == words_.size()) return stages_;
      bits = words_[i];
    }
    return Stage(i * 64) + std::countr_zero(bits);
  }

 private:
  static std::uint64_t bit(Stage stage) { return std::uint64_t{1} << (stage.index() % 64); }
  std::uint64_t& word(Stage stage) { return words_[stage.index() / 64]; }

  Stage stages_;
  std::vector<std::uint64_t> words_;
};

/// Effect of a change on the two sums that matter.
struct PlanChange {
  Duration extra{};
  Bytes overflow{};
};

class PlanEvaluator {
 public:
  /// The instance, of the staged form and without options, must outlive the evaluator.
  explicit PlanEvaluator(const Instance& instance, std::span<const Recompute> plan = {});

  /// Makes the plan the given one. O(events and their edges).
  void assign(std::span<const Recompute> plan);
  [[nodiscard]] RecomputePlan plan() const;

  [[nodiscard]] const Instance& instance() const { return instance_; }
  /// The time that all recomputes cost.
  [[nodiscard]] Duration extra() const { return extra_; }
  /// Bytes above the budget, summed over all events; 0 for a schedule within it. Where sums could exceed
  /// 64 bits, each event's bytes are counted in a larger unit, rounded up.
  [[nodiscard]] Bytes overflow() const { return overflow_; }
  /// The stages of the op's recomputes, ascending.
  [[nodiscard]] std::span<const Stage> recomputes(OpId op) const { return computes_[index(op)]; }
  /// True if the op may be recomputed in this stage: a later one than its own, none twice, within its limit.
  [[nodiscard]] bool can_add(Recompute recompute) const;
  [[nodiscard]] bool contains(Recompute recompute) const;

  /// Effect of adding; can_add must hold.
  [[nodiscard]] PlanChange probe(Recompute recompute) const;
  /// True if removing the recompute, which must be there, would put any event above the budget.
  [[nodiscard]] bool needed(Recompute recompute) const;
  void add(Recompute recompute);
  /// The recompute must be there.
  void remove(Recompute recompute);

  /// True if any event strictly between two moments is above the budget.
  [[nodiscard]] bool above_between(EventKey after, EventKey before) const {
    return !visit_between(*this, after, before, [&](const Bytes& memory) { return memory <= instance_.budget(); });
  }

  /// The next event after this one, which need not be there, or the end of the schedule.
  [[nodiscard]] EventKey event_after(EventKey event) const;
  /// Memory at an event that is there.
  [[nodiscard]] Bytes memory(EventKey event) const;
  /// The events above the budget, in order. O(stages).
  [[nodiscard]] std::vector<EventKey> overflowing() const;

  /// The latest compute of the op before the moment; its first compute must be.
  [[nodiscard]] EventKey compute_before(OpId op, EventKey moment) const;
  /// The first use of the tensor after the moment, or the end of the schedule.
  [[nodiscard]] EventKey first_use_after(TensorId tensor, EventKey moment) const;
  /// The end of the retention interval that reaches the moment from before, were there no use at it.
  [[nodiscard]] EventKey retained_until(TensorId tensor, EventKey moment) const;
  /// True if the tensor is retained across the event and not used at it.
  [[nodiscard]] bool crosses(TensorId tensor, EventKey event) const;
  /// True if the recompute serves a use, of any of its outputs.
  [[nodiscard]] bool useful(Recompute recompute) const;

  /// A running count of what was looked at, for limits that do not depend on time.
  [[nodiscard]] std::int64_t effort() const { return effort_; }
  /// Adds what was looked at elsewhere.
  void count_effort(std::int64_t looks) const { effort_ += looks; }

 private:
  struct Event {
    OpId op{};
    Bytes memory{};
  };
  /// From strictly after one event up to the moment of the change.
  struct Stretch {
    EventKey after{};
    Bytes amount{};
  };
  /// Effect of the recompute, seen from a plan without it; it may be there already.
  struct Effect {
    std::vector<Stretch> stretches{};
    /// Memory at the recompute's own event.
    Bytes memory{};
  };

  static std::size_t index(std::int32_t i) { return static_cast<std::size_t>(i); }
  [[nodiscard]] EventKey end() const { return EventKey::end(instance_.op_count()); }
  [[nodiscard]] Bytes above(Bytes memory) const {
    if (memory <= instance_.budget()) return Bytes(0);
    return Bytes((((memory - instance_.budget()).count() - 1) >> unit_bits_) + 1);
  }
  [[nodiscard]] int needed_unit_bits() const;
  /// The first compute of the op after the moment, or the end of the schedule.
  [[nodiscard]] EventKey compute_after(OpId op, EventKey moment) const;
  /// The last use of the tensor strictly between two moments, the end of the schedule being none; or `after` itself.
  [[nodiscard]] EventKey last_use_between(TensorId tensor, EventKey after, EventKey before) const;
  /// True if a compute of the tensor's producer at the moment, the next one being at `next`, serves a use of it.
  [[nodiscard]] bool serves(TensorId tensor, EventKey moment, EventKey next) const;
  void find_effect(Recompute recompute, Effect& effect) const;
  [[nodiscard]] Bytes retained_into(EventKey event) const;
  /// Bytes that the op saves by outputs that may take over the input's storage.
  [[nodiscard]] Bytes taken_over(OpId op, TensorId input) const;
  /// Bytes that the op of the event saves that way.
  [[nodiscard]] Bytes saved_at(EventKey event) const;
  /// To the effect: at this event, before the change's moment, so many bytes more.
  static void add_at(EventKey event, Bytes amount, Effect& effect);
  /// Visits the memory of every event strictly between two moments until `visit` says false; whether it never did.
  template <class Self, class Visit>
  static bool visit_between(Self& self, EventKey after, EventKey before, Visit visit);
  /// Visits the memory of every event that the effect changes, with the change; the same.
  template <class Self, class Visit>
  static bool visit_stretches(Self& self, EventKey moment, const Effect& effect, Visit visit);
  void apply(EventKey moment, const Effect& effect, bool reverse);
  void record_uses(Recompute recompute, bool add);

  const Instance& instance_;
  /// True if outputs may take over storage.
  bool in_place_;
  /// Overflow is counted in units of 2^unit_bits_ bytes.
  int unit_bits_;
  /// By stage: memory at the first compute that ends it; the last entry is the end of the schedule.
  std::vector<Bytes> first_memory_;
  /// By stage: its recomputes, by op.
  std::vector<std::vector<Event>> again_;
  /// The stages that have some.
  StageSet crowded_;
  std::vector<std::vector<Stage>> computes_;
  /// By tensor: the uses by recomputes, ascending.
  std::vector<std::vector<EventKey>> reuses_;
  /// By op: bytes that are new to memory while it runs.
  std::vector<Bytes> own_;
  Duration extra_{};
  Bytes overflow_{};
  /// Kept for its memory.
  mutable Effect effect_;
  mutable std::int64_t effort_ = 0;
};

template <class Self, class Visit>
bool PlanEvaluator::visit_between(Self& self, EventKey after, EventKey before, Visit visit) {
  const Stage last = before.stage();
  self.effort_ += 1 + (last - after.stage()) / 4;
  for (Stage stage = after.stage(); stage <= last; ++stage) {
    // The stages without recomputes up to the next with some, except at the edges, go fast.
    const Stage crowded = std::min(last, stage == after.stage() ? stage : self.crowded_.next(stage));
    for (; stage < crowded; ++stage) {
      if (!visit(self.first_memory_[index(stage)])) return false;
    }
    const bool edge = stage == after.stage() || stage == last;
    for (auto& event : self.again_[index(stage)]) {
      const EventKey key{stage, event.op};
      if ((!edge || (key > after && key < before)) && !visit(event.memory)) return false;
    }
    const EventKey first{stage, stage};
    if ((!edge || (first > after && first < before)) && !visit(self.first_memory_[index(stage)])) return false;
  }
  return true;
}

}  // namespace remora
