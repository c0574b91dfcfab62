// SPDX-License-Identifier: Apache-2.0
//
// Rotor's dynamic program: the shortest persistent schedule of a chain for every amount of memory at once (Beaumont et
// al. 2019, theorem 1; with several options a block: Zhao et al. 2023, appendix C, equations 1 to 3).
//
//     Opt(s, t, m)    least time from x_s and d_t to d_s, blocks s to t-1, with m bytes beside x_s, which stays
//       = the best of
//         save       forward run of s by an option, Opt(s+1, t, m - saved), backward run of s
//         pass, i    forward runs of s to i-1 that save nothing, Opt(i, t, m - x_i), Opt(s, i, m)        s < i < t
//     Opt(t-1, t, m) = the best option run alone, and its backward run
//
// each where the peaks of its runs fit in m, with d_t beside every forward run. Persistent means that what was kept
// for later (an input, what an option saved) stays until the backward run of its block. Schedules that are not
// persistent can be shorter: Beaumont et al. show a chain where one drops x_i halfway to make room for a large
// temporary and computes it again; and reuse of saved data by a later forward run is not considered.
//
// Memory is counted in slots. Where all amounts have a common divisor that makes few slots, counting is exact. Where only
// the inputs and saved amounts do, it is exact for the memory of the constructor and what whole slots part from it;
// other amounts are rounded down to these. Otherwise the chain's amounts are rounded up to whole slots. Either way a
// schedule found fits.
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

#include "engine/strategies/chains/chain.hpp"

namespace remora {

struct RotorLimits {
  /// At most so many, fewer where memory for the table would exceed 2^24 entries.
  int slots = 500;
  /// How often a block may run forward; 0 for no limit.
  int most_runs = 0;
  /// Asked now and then; true ends the construction, and there is no schedule.
  std::function<bool()> stopped{};
};

class RotorTable {
 public:
  /// For memory up to `memory` bytes, x_0 included. Durations of a chain, taken once each, must add up to at most 1/64 of
  /// what 64 bits hold (kComputesWithin64Bits). Needs at least one block.
  RotorTable(Chain chain, Bytes memory, RotorLimits limits);

  /// False if the construction was stopped.
  [[nodiscard]] bool is_complete() const { return complete_; }
  /// Whether inputs and saved amounts are whole slots.
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
  /// Opt_level(s, t, m), m in slots.
  struct Problem {
    int first = 0;
    int end = 0;
    int slots = 0;
    int level = 0;
  };
  /// How the optimum of a problem starts: by saving with `option`, or by passing up to `checkpoint`.
  struct Choice {
    int option = -1;
    int checkpoint = -1;
  };

  void choose_slots(Bytes memory, int most);
  [[nodiscard]] int slots_for_peak(Bytes peak) const;
  [[nodiscard]] int slots_for_amount(Bytes amount) const;
  [[nodiscard]] std::int64_t* row(int level, int first, int end);
  [[nodiscard]] const std::int64_t* row(int level, int first, int end) const;
  [[nodiscard]] std::optional<Problem> whole(Bytes memory) const;
  [[nodiscard]] Bytes gradient(int end) const;
  [[nodiscard]] int need(const BlockOption& option, const BlockRun& forward, int end) const;
  /// The level that the part which runs again is solved at; none if it must not run again.
  [[nodiscard]] std::optional<int> level_below(int level) const;
  void fill_all();
  void fill(int level, int first, int end);
  void fill_last(std::int64_t* values, int first);
  void fill_saving(std::int64_t* values, int level, int first, int end);
  void fill_passing(std::int64_t* values, int level, int first, int end);
  [[nodiscard]] Choice choose(const Problem& problem) const;
  [[nodiscard]] Choice choose_option(const Problem& problem, std::int64_t value) const;

  Chain chain_;
  RotorLimits limits_;
  int block_count_;
  int levels_;
  /// Slot k stands for offset_ + k slot_ bytes beside x_0; k in 0..slot_count_.
  std::int64_t slot_ = 1;
  std::int64_t offset_ = 0;
  int slot_count_ = 0;
  bool exact_ = false;
  bool complete_ = true;
  bool fits_input_ = true;
  std::int64_t work_ = 0;
  std::vector<std::int64_t> table_;
};

}  // namespace remora
