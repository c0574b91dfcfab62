// SPDX-License-Identifier: Apache-2.0
//
// The columns of the relaxation over several devices (program.hpp), which are 0 or 1: what they stand for, the plan that a solution
// is, and the solution that a plan is.
//
// Outputs of an op, and inputs of the graph, have periods of their own: stretches of stages (all that comes after one
// first run up
// to the next one, included) that end at the first runs which read it, just before them, at those of its readers' outputs, and
// where all are made to end. For op v, tensor t of it, devices d and e, and such a period i:
//
//   X(v,d)      v runs first on d                                               costs that run
//   R(v,d,i)    v runs again on d in the period                                 costs that run
//   C(t,e,d,i)  t is copied from e to d in the period                           costs the copy
//   P(t,d,i)    t is on d at the first run that ends the period; before the first period: X(v,d)
//   K(t,d,i)    t stays on d throughout the period
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "engine/bound/periods/program.hpp"
#include "engine/devices/plan.hpp"
#include "engine/devices/problem.hpp"

namespace remora::devices {

/// Something that is the case or not: as a column says, or in no solution, or in all.
class Presence {
 public:
  constexpr Presence() = default;
  constexpr explicit Presence(int column) : column_(column) {}
  static constexpr Presence never() { return Presence(kNever); }
  static constexpr Presence always() { return Presence(kAlways); }

  [[nodiscard]] constexpr bool is_never() const { return column_ == kNever; }
  [[nodiscard]] constexpr bool is_always() const { return column_ == kAlways; }
  [[nodiscard]] constexpr bool is_column() const { return column_ >= 0; }
  /// Properties of a column.
  [[nodiscard]] constexpr int column() const { return column_; }

  friend constexpr bool operator==(Presence, Presence) = default;

 private:
  static constexpr int kNever = -1;
  static constexpr int kAlways = -2;

  int column_ = kNever;
};

/// Where memory is counted beside first runs, and where periods end.
struct Detail {
  /// Stages that end a period of everything.
  std::set<int> ends{};
  /// Runs again, by stage and op, with memory of their own where that stage is a period of the op's.
  std::set<std::pair<int, OpId>> reruns{};

  [[nodiscard]] std::size_t size() const { return ends.size() + reruns.size(); }
};

class Columns {
 public:
  struct Copy {
    DeviceId from{};
    DeviceId to{};
    int column = 0;
  };
  /// A tensor in one of its periods.
  struct Period {
    /// The first and the last stage of it.
    int first = 0;
    int last = 0;
    /// By device: P and K.
    std::vector<Presence> present{};
    std::vector<Presence> stays{};
    std::vector<Copy> copies{};
  };

  /// An op that runs again in one of the periods of what it writes.
  struct Rerun {
    int first = 0;
    int last = 0;
    /// By device: R.
    std::vector<Presence> runs{};
  };

  /// Adds them to the program. First runs where `allowed` says so alone.
  Columns(const Instance& instance, const Allowed& allowed, const Detail& detail, remora::Program& program);

  /// X; never where the op is not to run first.
  [[nodiscard]] Presence first_run(OpId v, DeviceId d) const { return first_runs_[v][d.index()]; }
  /// None of an op that runs once.
  [[nodiscard]] const std::vector<Rerun>& reruns(OpId v) const { return reruns_[v]; }
  /// In the period with the stage; null if there is none.
  [[nodiscard]] const Rerun* rerun_at(OpId v, int stage) const;
  /// Columns that bring the tensor by another run of its producer in one of its periods.
  [[nodiscard]] Presence rerun(TensorId t, DeviceId d, std::size_t period) const;
  [[nodiscard]] const std::vector<Period>& periods(TensorId t) const { return periods_[t]; }
  /// The period with the stage, which is in one.
  [[nodiscard]] std::size_t period_of(TensorId t, int stage) const;
  /// True if the stage is in one of its periods.
  [[nodiscard]] bool reaches(TensorId t, int stage) const;
  /// On the device when the period begins.
  [[nodiscard]] Presence before(TensorId t, DeviceId d, std::size_t period) const;
  /// The columns of X, of R and of C: what is there, and what stays, follows from these.
  using Decisions = std::array<std::vector<int>, 3>;
  [[nodiscard]] const Decisions& decisions() const { return decisions_; }
  [[nodiscard]] bool is_first_run(int column) const {
    return std::binary_search(decisions_[0].begin(), decisions_[0].end(), column);
  }
  /// By column, what it takes of what is limited and not minimised.
  [[nodiscard]] const std::vector<std::int64_t>& others() const { return others_; }

  /// The plan of a solution, of columns that are at least `least`; where X is in doubt, the device with most. What is missing
  /// has to be mended, and it may break budgets.
  [[nodiscard]] Plan plan(std::span<const double> solution, double least) const;
  /// The solution that a plan gives; it costs no more, and holds every row if the plan holds the problem's limits.
  [[nodiscard]] std::vector<double> solution(const EvaluatedPlan& plan) const;
  /// Marks the columns of the op's runs, and of all that is said of what it reads and writes.
  void mark(OpId v, std::vector<bool>& columns) const;
  /// Marks all columns of periods that meet these stages, but for X.
  void mark_stages(int first, int last, std::vector<bool>& columns) const;

 private:
  struct Ends;
  struct PlacedRun;
  struct PlacedCopy;

  [[nodiscard]] Ends find_ends(const Detail& detail) const;
  void add_runs(const Allowed& allowed, const Ends& ends, remora::Program& program);
  void add_periods(TensorId t, const std::vector<int>& ends, const Detail& detail, remora::Program& program);
  Presence add(remora::Program& program);
  int add_decision(remora::Program& program, std::size_t kind, Duration duration, Energy energy);
  /// The stage after which the tensor may be somewhere beside its home.
  [[nodiscard]] int birth(TensorId t) const {
    return instance_.producer(t).valid() ? static_cast<int>(instance_.producer(t)) : -1;
  }
  [[nodiscard]] std::set<PlacedRun> placed_runs(std::span<const double> solution, double least) const;
  [[nodiscard]] std::vector<std::vector<PlacedCopy>> placed_copies(std::span<const double> solution, double least,
                                                                   const std::set<PlacedRun>& runs) const;
  [[nodiscard]] DeviceId first_device(OpId v, std::span<const double> solution) const;
  void set_step(const DeviceStep& step, int stage, std::vector<double>& solution) const;
  template <class Visit>
  void for_each_column(TensorId t, std::size_t period, Visit visit) const;

  const Instance& instance_;
  const DeviceGraph& graph_;
  Decisions decisions_;
  std::vector<std::int64_t> others_;
  Table<TensorId, std::vector<Period>> periods_;
  Table<OpId, std::vector<Presence>> first_runs_;
  Table<OpId, std::vector<Rerun>> reruns_;
};

}  // namespace remora::devices
