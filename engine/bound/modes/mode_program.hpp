// SPDX-License-Identifier: Apache-2.0
//
// The relaxation of a problem whose ops have several modes, in the input order: one mode for each first compute, and where
// an op runs again. A multiple-choice covering problem: of the modes of each op exactly one, and at each first compute what
// is resident fits within the budget.
//
//     x(v,m)   the first compute of op v takes mode m     costs what m takes longer than v's shortest mode
//     y(v,j)   v is recomputed between its uses j - 1 and j, in input order; use 0 is v itself
//                                                         costs v's shortest mode
//
//     choice   sum over m of x(v,m) = 1
//     limits   sum over j of y(v,j) <= C_v - 1
//     follows  x(f,m) <= x(v,m) + the y(v,j) up to f      f follows v, and C_v > 1; else f has no x of its own: it has v's
//     memory   at the first compute of op k, for each inner peak of k (of each mode the i-th, or its last):
//              base + what k takes by its mode + sum over tensors t of bytes(t, k) <= budget
//
// bytes(t, k) is never more than what a schedule with these x and y has resident of t, made by op v:
//
//     k = v                       sum of size(t,m) x(v,m)
//     a later op u, or k itself, reads t by every mode it may take:
//                                 sum of size(t,m) x(v,m)  -  most(t) y(v,j)                 j: between k and u
//                                                          -  (most(t) - least(t)) y(v,j)    j: up to k, the copy is another
//     and that op follows v       sum of size(t,m) x(u,m)  -  most(t) y(v,j)                 j: between k and u
//     reads it by some modes M    the same over m in M; where u does not follow v, least(t) for each size
//
//     v |----- use 1 ----- use 2 --- k --- use 3     y(v,3) says that t may be away at k; y(v,1), y(v,2) that it
//           y(v,1)    y(v,2)      y(v,3)             may have another size
//
// Every schedule gives a solution that costs no more: its first computes' modes, and y = 1 where a recompute lies. With
// C_v = 1 for all ops, no mode that leaves inputs unread and no inner peaks, the program is the problem itself. Of each choice
// the mode that costs least has no column: it is 1 minus the others.
//
// Rows are many: the caller takes them as solutions violate them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/bound/modes/row_sum.hpp"
#include "engine/bound/periods/program.hpp"
#include "model/instance.hpp"
#include "model/modes.hpp"
#include "model/table.hpp"

namespace remora {

class ModeProgram {
 public:
  /// The instance is of the staged form and outlives this. Interrupted, it lacks rows, and asks for less. O(sum of what is
  /// resident at first computes that may exceed the budget).
  explicit ModeProgram(const Instance& instance, const std::function<bool()>& interrupted = {});

  /// True if the relaxation is for such an instance: ops with modes, in input order, and sums far from 64 bits.
  static bool applies(const Instance& instance);

  /// With the rows but memory's, and those that were taken.
  [[nodiscard]] Program& program() { return program_; }
  /// Constant that no column has: the minimum cost of the choices.
  [[nodiscard]] Duration constant() const { return constant_; }
  /// An op that is not recomputed is tied to a follower without a mode in common: no schedule at all.
  [[nodiscard]] bool has_no_choice() const { return has_no_choice_; }
  /// Takes the memory rows that the solution, of whole numbers or not, violates most, at most so many. How many it took.
  int take_violated(std::vector<double> solution, std::size_t most, bool is_whole);
  /// By op that chooses: its columns.
  [[nodiscard]] const std::vector<std::vector<int>>& groups() const { return groups_; }

  /// The first computes by the modes of a whole solution, and its recomputes, each as late as the next use allows; empty where its
  /// modes are no schedule's.
  [[nodiscard]] std::vector<Compute> sequence(std::span<const double> solution) const;

 private:
  /// Ops that take their mode together: one that follows nobody, or follows an op that may run again, and those that follow it
  /// where it may not.
  struct Choice {
    std::vector<OpId> ops{};
    /// Ascending: those that all of them may take.
    std::vector<ModeNumber> modes{};
    /// The cheapest mode, and the column of each mode, -1 if it has none.
    ModeNumber base = 0;
    std::vector<int> columns{};
  };
  /// The stretches between an op's uses in which it may be recomputed.
  struct Stretches {
    /// Ascending: the op that each ends at; the number of ops stands for the end of the sequence.
    std::vector<int> ends{};
    /// Column of the first stretch.
    int column = 0;
  };

  void find_choices();
  void number_choices();
  void number_stretches();
  void add_limits();
  void add_links();
  [[nodiscard]] int last_use(TensorId tensor) const;
  [[nodiscard]] std::vector<bool> counted_events() const;
  void add_memory(OpId k, std::span<const TensorId> resident, RowSum& sum);
  void add_bytes(TensorId tensor, OpId k, RowSum& sum) const;
  void add_served(TensorId tensor, OpId k, int reader, RowSum& sum) const;
  void add_workspace(OpId k, std::size_t peak, RowSum& sum) const;
  void add_released(const FreedInput& freed, OpId k, ModeNumber mode, std::vector<std::int64_t>& amounts,
                    RowSum& sum) const;
  /// Takes off `bytes` where the op is recomputed between k and the op `reader`, and `other` where before k.
  void take_off(OpId op, OpId k, int reader, Bytes bytes, Bytes other, RowSum& sum) const;
  /// The first op after k that reads the tensor by any mode that it may take, or the end where it must be kept; -1 for none.
  [[nodiscard]] int certain_reader(TensorId tensor, OpId k) const;
  [[nodiscard]] std::span<const ModeNumber> modes(OpId op) const;
  [[nodiscard]] bool always_reads(OpId op, TensorId tensor) const;
  /// Adds amount(mode) of the mode that the op's first compute takes.
  template <class Amount>
  void add_by_mode(OpId op, Amount amount, RowSum& sum) const;

  const Instance& instance_;
  Program program_;
  Duration constant_{};
  bool has_no_choice_ = false;
  std::vector<Choice> choices_;
  std::vector<std::vector<int>> groups_;
  /// Choice 0 is that of mode 0 alone.
  Table<OpId, int> choice_of_;
  Table<OpId, Stretches> stretches_;
  std::vector<ProgramRow> memory_;
  std::vector<bool> taken_;
};

template <class Amount>
void ModeProgram::add_by_mode(OpId op, Amount amount, RowSum& sum) const {
  const Choice& choice = choices_[at(choice_of_[op])];
  const std::int64_t base = amount(choice.base);
  sum.add(base);
  for (const ModeNumber mode : choice.modes) {
    if (mode != choice.base) sum.add(choice.columns[at(mode)], amount(mode) - base);
  }
}

}  // namespace remora
