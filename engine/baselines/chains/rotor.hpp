// SPDX-License-Identifier: Apache-2.0
//
// Rotor's dynamic program: the shortest persistent schedule of a chain for every amount of memory at once (Beaumont et
// al. 2019; with several options a block: Zhao et al. 2023, appendix C, equations 1 to 3).
//
//     Opt(s, t, m)    least time from x_s and d_t to d_s, blocks s to t-1, with m bytes, x_s among them
//       = the best of
//         save       forward run of s by an option, Opt(s+1, t, m - saved - x_s), backward run of s
//         pass, i    forward runs of s to i-1 that save nothing, Opt(i, t, m - x_s), Opt(s, i, m)        s < i < t
//     Opt(t-1, t, m) = the best option run alone, and its backward run
//
// each where the peaks of its runs fit in m, with d_t beside every forward run. Where we go further than the papers,
// whose backward runs all read their input: an option that does not read x_s gives it back behind the forward run, so
// `save` leaves m - saved; a ReLU needs that. If block s-1 reads x_s as its output, then x_s is part of what it saved:
// a second table is for an x_s that is not ours to give back, and not among the m bytes.
//
// Persistent means that what was kept for later stays until the backward run of its block. Others can be shorter: x_i
// may be dropped to make room for a large temporary and computed again (Beaumont et al. discuss it), or data saved by
// one forward run be of use to the next (Zhao et al., section 3.4). And where options give back their input, a block
// may run again before those behind it are done, to swap its input for what it saves; that is not considered either.
//
// Memory is counted in slots. Where all amounts have a common divisor that makes few slots, counting is exact. Where
// only the inputs and saved amounts do, it is exact for the memory of the constructor and what whole slots part from
// it; other amounts are rounded down to these. Otherwise the chain's amounts are rounded up to whole slots. Either way
// a schedule found fits.
//
// With a limit on how often a block may run forward, Opt has one more argument c: `save` takes Opt_c, `pass` takes
// Opt_c(i, t) and Opt_(c-1)(s, i).
//
// Time O(L^2 (L + options) slots), memory O(L^2 slots), both times the limit if there is one.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "engine/base/method.hpp"
#include "engine/baselines/chains/chain.hpp"
#include "model/table.hpp"

namespace remora {

struct RotorLimits {
  /// At most so many, fewer where memory for the table would exceed 2^24 entries.
  int slots = 500;
  /// How often a block may run forward; 0 for no limit.
  int most_runs = 0;
  /// The most work(). Beyond it the construction ends, and there is no schedule.
  std::int64_t work = INT64_MAX;
  /// Asked now and then; true ends the construction likewise.
  std::function<bool()> stopped{};
};

class RotorTable {
 public:
  /// For memory up to `memory` bytes, x_0 included. Durations of a chain, taken once each, must add up to at most 1/64
  /// of what 64 bits hold (kComputesWithin64Bits). Needs at least one block.
  RotorTable(Chain chain, Bytes memory, RotorLimits limits);

  /// False if the construction was stopped.
  [[nodiscard]] bool is_complete() const { return complete_; }
  /// True if inputs and saved amounts are whole slots.
  [[nodiscard]] bool is_exact() const { return exact_; }
  /// The least time within so many bytes (at most those of the constructor); nothing if there is no schedule.
  [[nodiscard]] std::optional<Duration> duration(Bytes memory) const;
  /// A schedule of that time; empty if there is none.
  [[nodiscard]] std::vector<ChainStep> schedule(Bytes memory) const;
  /// The amounts at which the least time falls, growing: the least that allows a schedule first.
  [[nodiscard]] std::vector<Bytes> breakpoints() const;
  /// Sums looked at.
  [[nodiscard]] std::int64_t work() const { return work_; }

 private:
  /// Opt_level(s, t) for every m. `owns_input`: x_s is among the m bytes, and ours to give back.
  struct Stretch {
    int first = 0;
    int end = 0;
    int level = 0;
    bool owns_input = true;
  };
  /// Opt_level(s, t, m), m in slots.
  struct Problem {
    Stretch stretch{};
    int slots = 0;
  };
  /// A way to start: what must be free for its runs, what they take, and what stays taken during the rest.
  struct Start {
    int least = 0;
    int taken = 0;
    std::int64_t time = 0;
  };
  /// How the optimum of a problem starts: by saving with `option`, or by passing up to `checkpoint`.
  struct Choice {
    int option = -1;
    int checkpoint = -1;
  };

  void choose_slots(Bytes memory, int most);
  [[nodiscard]] int slots_for_peak(Bytes peak) const;
  [[nodiscard]] int slots_for_amount(Bytes amount) const;
  [[nodiscard]] std::size_t row_start(const Stretch& stretch) const;
  [[nodiscard]] std::int64_t value(const Problem& problem) const;
  [[nodiscard]] std::optional<Problem> whole(Bytes memory) const;
  [[nodiscard]] const ChainBlock& block(int b) const { return chain_.blocks[at(b)]; }
  [[nodiscard]] Bytes gradient(int end) const;
  [[nodiscard]] Bytes own_input(const Stretch& stretch) const;
  [[nodiscard]] Start save(const Stretch& stretch, const BlockOption& option) const;
  [[nodiscard]] Stretch behind(const Stretch& stretch, const BlockOption& option) const;
  /// The part up to a checkpoint that runs again; nothing if it must not.
  [[nodiscard]] std::optional<Stretch> again(const Stretch& stretch, int checkpoint) const;
  /// Calls visit(i, start) for every checkpoint i that the stretch may pass on to.
  template <class Visit>
  void for_each_pass(const Stretch& stretch, Visit visit) const;
  void fill_all();
  void fill(const Stretch& stretch);
  void fill_saving(const Stretch& stretch);
  void fill_passing(const Stretch& stretch);
  [[nodiscard]] Choice choose(const Problem& problem) const;
  [[nodiscard]] Choice choose_option(const Problem& problem) const;

  Chain chain_;
  RotorLimits limits_;
  int block_count_;
  int levels_;
  /// Slot k stands for offset_ + k slot_ bytes; k in 0..slot_count_.
  std::int64_t slot_ = 1;
  std::int64_t offset_ = 0;
  int slot_count_ = 0;
  bool exact_ = false;
  bool complete_ = true;
  std::int64_t work_ = 0;
  std::vector<std::int64_t> table_;
};

// Rotor (Beaumont et al. 2019) on a training graph: blocks between 1-separators (block_chain.hpp), their costs
// (chain.hpp), the dynamic program for all amounts of memory at once (RotorTable), and of its schedules the
// shortest that the evaluator finds within the budget. The dynamic program counts a little too much memory, so it is
// asked for more than the budget too.

/// No sequence, and a note, for graphs without phases and those that make one block. O(blocks^3 slots), with more than
/// 150 blocks joined to so many; the plan that holds the budget in the least time, else the one with the least peak.
MethodResult run_rotor(const MethodInput& input);

}  // namespace remora
