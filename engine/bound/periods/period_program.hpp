// SPDX-License-Identifier: Apache-2.0
//
// The period relaxation of the staged form: which ops are recomputed in which period, and what is resident in between.
//
// For op v, first run in period p(v), and tensor t of it, for each later period i in which some op can read them:
//
//   R(v,i)    v is recomputed in period i                                     costs its duration
//   P(t,i)    t is resident when period i begins
//   Q(v,t,i)  the part of that which is reserved for v's one recompute, which reads t; where v may run twice
//
//   supply    P(t,i+1) <= P(t,i) + R(v,i)          and where v has one output, P(t,i) + R(v,i) <= 1
//   limits    sum over i of R(v,i) <= C_v - 1
//   uses      P(t,i) + R(v,i) >= 1                 a first compute in period i reads t; at the end: t must be kept
//             R(w,i) <= P(t,i) + R(v,i)            w reads t
//   flow      Q(w,t,i) <= P(t,i)     R(w,i) + Q(w,t,j) <= Q(w,t,i) + R(v,i) + ... + R(v,j-1)
//             i, j: consecutive periods in which w may be recomputed; where those are few, a row for each window of them:
//             R(w,i) + ... + R(w,j) <= P(t,i) + R(v,i) + ... + R(v,j)
//   memory    at the checkpoint k that ends period i: what k reads and writes, its workspace, and every other tensor t
//             with P(t,i+1), hold the budget
//
// Within a period what is computed serves every use, so that fewer periods ask for less; every schedule gives a solution
// that costs no more. Where a tensor is resident when a period begins, a recompute within it is not counted: it serves
// nobody here. The flow says that a resident tensor serves one recompute once: without it a linear program holds a
// twentieth of a tensor and recomputes its reader by a twentieth in each of twenty periods.
//
// With a stage as a period of its own, its recomputes can have their own memory (`Event`): at recompute j in stage k
//
//   X(t,q)  t is resident between the recomputes of t's op and q's:  >= R(q,k), >= X of t's next reader, >= P(t,k+1)
//
// The workspace is the least there is; where an output takes over an input's storage, what it saves counts with the presence
// of the input afterwards. Tensors of no bytes are resident for ever. With whole R, the least P, Q and X
// that go with it are whole, too.
#pragma once

#include <compare>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "engine/bound/periods/program.hpp"
#include "model/instance.hpp"
#include "model/sequence.hpp"
#include "model/table.hpp"

namespace remora {

/// Periods: the stages of an input order cut into consecutive stretches. Each but the last ends in a checkpoint, a first
/// compute whose memory the period relaxation counts.
///
///     stages        0 1 2 3 4 5 6 7 8 9       checkpoints 3 and 7
///     periods       [0,3]   [4,7]   [8,9]
class Periods {
 public:
  /// `ends`: the last stages of all periods but the last; others than 0 .. stages - 2 are left out.
  Periods(int stages, const std::set<Stage>& ends);

  [[nodiscard]] int count() const { return static_cast<int>(last_.size()); }
  [[nodiscard]] int of(Stage stage) const { return period_[static_cast<std::size_t>(stage)]; }
  [[nodiscard]] Stage first(int period) const { return period == 0 ? Stage{0} : last(period - 1) + 1; }
  [[nodiscard]] Stage last(int period) const { return last_[static_cast<std::size_t>(period)]; }

 private:
  std::vector<Stage> last_;
  std::vector<int> period_;
};

/// Reason for a memory row in addition to the checkpoints: the recompute of `op` in stage `stage`.
using RecomputeEvent = Recompute;

/// By op and stage, what no schedule that is looked for recomputes there; empty for an op of which nothing is known.
using RuledOut = Table<OpId, std::vector<bool>>;

class PeriodProgram {
 public:
  /// `events`: those in stages that are periods of their own. What is out in every stage of a period is left out, with all
  /// that it alone needs. The instance is of the staged form, and has one mode an op. Interrupted, it lacks rows, and asks for
  /// less.
  PeriodProgram(const Instance& instance, Periods periods, const std::set<RecomputeEvent>& events, const RuledOut& out,
                const std::function<bool()>& interrupted = {});

  [[nodiscard]] const Program& program() const { return program_; }
  /// Leaves none here.
  [[nodiscard]] Program take_program() { return std::move(program_); }
  [[nodiscard]] const Periods& periods() const { return periods_; }

  /// Calls visit(op, period, column) for every R that is not out, by op and period.
  template <class Visit>
  void for_each_recompute(Visit visit) const {
    for (const OpId op : first_.ids()) {
      for (int i = period_of(op) + 1; i <= last_[op]; ++i) {
        if (!is_out(op, i)) visit(op, i, column(op, i));
      }
    }
  }

  /// The recomputes of a solution, each as late as its readers in its period allow. Of a linear program's: those of at least
  /// this part.
  [[nodiscard]] RecomputePlan plan(std::span<const double> solution, double least = 0.5) const;
  /// The ops whose recomputes are neither in nor out in a linear program's solution.
  [[nodiscard]] std::vector<OpId> undecided(std::span<const double> solution) const;

 private:
  /// A column, or what is the same in all solutions.
  using Presence = int;
  static constexpr Presence kNever = -1;
  static constexpr Presence kAlways = -2;
  class Sum;

  void find_out(const RuledOut& out);
  [[nodiscard]] int first_open(OpId op) const;
  void find_horizons();
  void number_columns();
  void add_supply(OpId op);
  void add_uses(OpId op);
  void add_window(OpId op, TensorId input, std::span<const int> open);
  void add_flow(OpId op, TensorId input, std::span<const int> open);
  void add_memory(int period);
  void add_event(const RecomputeEvent& event);
  /// Calls visit(input, bytes) for what outputs of the op take over of inputs that its run releases.
  template <class Visit>
  void for_each_taken_over(OpId op, Visit visit) const;
  Presence present_up_to(TensorId tensor, OpId after, Stage stage);
  void add(const Sum& sum, std::int64_t least);

  [[nodiscard]] int period_of(OpId op) const { return periods_.of(Stage{op}); }
  [[nodiscard]] int column(OpId op, int period) const { return first_[op] + period - period_of(op) - 1; }
  [[nodiscard]] bool is_out(OpId op, int period) const { return !out_[op].empty() && out_[op][at(period)]; }
  [[nodiscard]] Presence recomputed(OpId op, int period) const;
  [[nodiscard]] Presence resident(TensorId tensor, int period) const;
  [[nodiscard]] bool reads(OpId op, TensorId tensor) const;

  const Instance& instance_;
  Periods periods_;
  Program program_;
  /// By op and period; empty where nothing is out.
  Table<OpId, std::vector<bool>> out_;
  /// The first column, and the last period, of each op's recomputes and each tensor's presences; a tensor is present
  /// anyway up to `certain_`.
  Table<OpId, int> first_;
  Table<OpId, int> last_;
  Table<TensorId, int> first_presence_;
  Table<TensorId, int> last_presence_;
  Table<TensorId, int> certain_;
  /// X, by tensor, reader and stage.
  std::map<std::tuple<TensorId, OpId, Stage>, Presence> chains_;
};

}  // namespace remora
