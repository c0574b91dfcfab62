// SPDX-License-Identifier: Apache-2.0
//
// Complete search of small problems in free order, over what has run and what is resident rather than over sequences.
//
// A state says how often each op has run and which tensors are resident; how it came to that does not matter. So the many
// sequences that lead to one state are looked at once, where a search over places in the sequence looks at each. From the
// empty state on, the state whose recomputes cost least is the next: the first one in which every op has run and what
// must be kept is resident is the optimum, what the next one costs is a bound, and where none is left there is no schedule.
//
//     after A        {a}    A 1
//     after A B      {a b}  A 1, B 1        after A C      {a c}  A 1, C 1
//     after A B C    {b c}  A 1, B 1, C 1   the same state after A C B
//
// A compute keeps as much as the budget allows beside it: of sets to keep those that are part of no other. A state is left out if the
// same ops have run in another one, none oftener, and all its tensors are resident there. So where there is no schedule, few
// states are left, however often ops may run.
#pragma once

#include <cstdint>
#include <queue>
#include <span>
#include <vector>

#include "engine/search/worker.hpp"

namespace remora {

class StateWorker : public Worker {
 public:
  /// True if a state of the instance fits into its two words. The instance is of the free order, and has one mode an op.
  static bool fits(const Instance& instance);

  explicit StateWorker(const Instance& instance);

  [[nodiscard]] Source source() const override { return Source::complete; }
  [[nodiscard]] bool ready(const RoundInput& /*input*/) override { return !is_over_; }
  RoundResult run(const RoundInput& input) override;

 private:
  /// A bit a tensor.
  using Tensors = std::uint64_t;
  /// Four bits an op.
  using Counts = std::uint64_t;

  struct State {
    Tensors resident = 0;
    Counts counts = 0;
    /// Predecessor, and the op that led here.
    std::int32_t before = -1;
    OpId op = OpId::none();
  };
  /// In the order in which states are looked at: cheap ones first, of these such that lack few ops.
  struct Open {
    Duration extra{};
    int missing = 0;
    std::int32_t state = 0;

    friend bool operator<(const Open& a, const Open& b) {
      if (a.extra != b.extra) return a.extra > b.extra;
      return a.missing != b.missing ? a.missing > b.missing : a.state < b.state;
    }
  };
  /// An op as states see it.
  struct Step {
    Tensors inputs = 0;
    Tensors outputs = 0;
    /// Outputs that are read or must be kept.
    Tensors useful = 0;
    int most = 1;
    Duration duration{};
    /// Memory in addition to tensors.
    Bytes workspace{};
    /// The ops whose first computes come before its own.
    Counts after = 0;
  };

  [[nodiscard]] int count(Counts counts, OpId op) const { return static_cast<int>(counts >> (4 * op.index()) & 15U); }
  [[nodiscard]] bool is_goal(const State& state) const;
  [[nodiscard]] Bytes size_of(Tensors tensors) const;
  /// Without what nobody can read any more; false where something is missing that cannot be made again.
  [[nodiscard]] bool settle(State& state) const;
  void expand(std::int32_t from, Duration extra, Duration below);
  void compute(std::int32_t from, OpId op, Duration extra);
  /// Each largest set of the tensors from `next` on that fits beside what is taken already.
  void keep_most(Tensors kept, std::span<const TensorId> tensors, Bytes room, Bytes least_left_out, const State& made,
                 Duration extra);
  void push(State state, Duration extra);
  /// True if another one than this is as good.
  [[nodiscard]] bool is_dominated(const State& state, std::int32_t number);
  [[nodiscard]] std::vector<std::int32_t>& alike(const State& state);
  [[nodiscard]] Sequence sequence_to(std::int32_t state) const;

  const Instance& instance_;
  Table<OpId, Step> steps_;
  Tensors kept_ = 0;
  std::vector<State> states_;
  /// By the ops that have run, a bit each.
  std::vector<std::vector<std::int32_t>> by_ops_;
  std::priority_queue<Open> open_;
  Effort effort_ = 0;
  bool is_over_ = false;
};

}  // namespace remora
