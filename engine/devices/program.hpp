// SPDX-License-Identifier: Apache-2.0
//
// A relaxation of the problem over several devices in input order: a linear program in whole numbers (engine/bound/periods/
// program.hpp) over columns that are 0 or 1, the period relaxation with devices and copies.
//
// What an op writes, or an input of the graph, has periods of its own: stretches of stages (all that comes after one first run up
// to the next one, included) that end at the first runs which read it, just before them, at those of its readers' outputs, and
// where all are made to end. For op v, tensor t of it, devices d and e, and such a period i:
//
//   X(v,d)      v runs first on d                                               costs that run
//   R(v,d,i)    v runs again on d in the period                                 costs that run
//   C(t,e,d,i)  t is copied from e to d in the period                           costs the copy
//   P(t,d,i)    t is on d at the first run that ends the period; before the first period: X(v,d)
//   K(t,d,i)    t stays on d throughout the period
//
//   devices     sum over d of X(v,d) >= 1
//   stays       K(t,d,i) <= P(t,d,i-1)        P(t,d,i) <= K(t,d,i) + what comes to d in the period: copies, R(v,d,i)
//   reads       X(w,d) <= P(t,d,i)            w reads t, and its first run ends period i
//               R(w,d,j) <= what of t there is on d when a period that meets j begins, or comes to d in one; where w may run
//               again once, the sum of these over any stretch of periods
//   copies      C(t,e,d,i) <= P(t,e,i-1) + what comes to e in the period;  and t was somewhere, or v runs again
//   limits      sum over d and i of R(v,d,i) <= C_v - 1; the limit on what is not minimised
//   memory      of d at first run k: what k reads and writes if it runs there, and every tensor that is there (P) or stays (K)
//               of d while w runs again in stage k, for some of them: what w reads and writes, and of the others what stays;
//               or what is there at first run k and was made before w (P, less what is copied in: that may come later)
//
// Every schedule gives a solution that costs no more: memory is counted at these runs alone, and within a period whatever
// has come serves whoever reads it. Where there is no limit on a device's memory what is there stays.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "engine/bound/periods/program.hpp"
#include "engine/devices/state.hpp"
#include "model/random.hpp"

namespace remora::devices {

class Program {
 public:
  /// Where memory is counted beside first runs, and where periods end.
  struct Detail {
    /// Stages that end a period of everything.
    std::set<int> ends{};
    /// Runs again, by stage and op, with memory of their own where that stage is a period of the op's.
    std::set<std::pair<int, OpId>> reruns{};

    [[nodiscard]] std::size_t size() const { return ends.size() + reruns.size(); }
  };

  /// First runs where `allowed` says so alone. All three outlive the program.
  Program(const Instance& instance, const State::Allowed& allowed, const Detail& detail);

  [[nodiscard]] const remora::Program& program() const { return program_; }
  [[nodiscard]] remora::Program& program() { return program_; }

  /// The column of X, or -1 where the op is not to run first.
  [[nodiscard]] int first_run(OpId v, DeviceId d) const { return first_runs_[v][d.index()]; }
  /// The plan of a solution, of columns that are at least `least`; where X is in doubt, the device with most. What is missing
  /// has to be mended, and it may break budgets.
  [[nodiscard]] Plan plan(std::span<const double> solution, double least) const;
  /// The solution that a plan gives; it costs no more, and holds every row if the plan holds the problem's limits.
  [[nodiscard]] std::vector<double> solution(const EvaluatedPlan& plan) const;
  /// The columns of X, of R and of C: what is there, and what stays, follows from these.
  using Decisions = std::array<std::vector<int>, 3>;
  [[nodiscard]] const Decisions& decisions() const { return decisions_; }
  [[nodiscard]] bool is_first_run(int column) const {
    return std::binary_search(decisions_[0].begin(), decisions_[0].end(), column);
  }
  /// Marks the columns of the op's runs, and of all that is said of what it reads and writes.
  void mark(OpId v, std::vector<bool>& columns) const;
  /// Marks all columns of periods that meet these stages, but for X.
  void mark_stages(int first, int last, std::vector<bool>& columns) const;

 private:
  /// A column, or what is the same in all solutions.
  using Presence = int;
  static constexpr Presence kNever = -1;
  static constexpr Presence kAlways = -2;
  struct Copy {
    DeviceId from{};
    DeviceId to{};
    int column = 0;
  };
  /// A tensor in one of its periods.
  struct Period {
    /// By device.
    std::vector<Presence> present{};
    std::vector<Presence> stays{};
    std::vector<Copy> copies{};
  };
  class Sum;

  int add_decision(std::size_t kind, Duration duration, Energy energy);
  void find_periods();
  void add_columns();
  void add_columns(TensorId t);
  void add_first_runs();
  void add_stays(TensorId t);
  void add_copies(TensorId t);
  void add_reruns(OpId v);
  void add_reads(OpId v, DeviceId d, TensorId t);
  void add_memory();
  void add_memory(DeviceId d, int stage);
  void add_memory(DeviceId d, int stage, OpId rerun);
  [[nodiscard]] Bytes own_bytes(OpId v, DeviceId d) const;
  [[nodiscard]] bool counts(TensorId t, DeviceId d, int stage) const;
  void add_limit();
  void add(const Sum& sum, std::int64_t least, bool follows = false);

  [[nodiscard]] const std::vector<int>& ends_of(TensorId t) const;
  /// The stage after which the tensor may be somewhere beside its home.
  [[nodiscard]] int birth(TensorId t) const {
    return instance_.producer(t).valid() ? static_cast<int>(instance_.producer(t)) : -1;
  }
  /// The period with the stage, which is in one.
  [[nodiscard]] int period_of(TensorId t, int stage) const;
  [[nodiscard]] Presence before(TensorId t, DeviceId d, int period) const;
  [[nodiscard]] Presence rerun(TensorId t, DeviceId d, int period) const;
  void add_arrivals(Sum& sum, TensorId t, DeviceId d, int period, int sign) const;
  [[nodiscard]] bool is_limited(TensorId t, DeviceId d) const;
  template <class Visit>
  void for_each_column(TensorId t, std::size_t period, Visit visit) const;

  const Instance& instance_;
  const DeviceGraph& graph_;
  const State::Allowed& allowed_;
  const Detail& detail_;
  remora::Program program_;
  Decisions decisions_;
  /// Of a column, what it takes of what is limited and not minimised.
  std::vector<std::int64_t> others_;
  /// The last stages of periods, ascending: of what ops write, and of inputs of the graph.
  Table<OpId, std::vector<int>> op_ends_;
  Table<TensorId, std::vector<int>> input_ends_;
  Table<TensorId, std::vector<Period>> periods_;
  Table<OpId, std::vector<Presence>> first_runs_;
  /// By op, then period and device.
  Table<OpId, std::vector<std::vector<Presence>>> reruns_;
};

// What the relaxation gives a search: a bound in whole numbers, and plans.
//
//     linear program -> bound; what costs too much below the incumbent goes out
//                    -> a dive: a solution, a plan
//     integer program below the incumbent: there is none, so that the incumbent is the optimum; or a solution, a plan; where
//                       that breaks a budget, periods end there and runs again have their own memory; from the start
//                    -> or it takes too long: of the incumbent's solution all but a part is fixed, the rest solved to the end
//                       (a large neighbourhood): plans
//
// A plan of the relaxation may break budgets: the search mends it. The bound of linear programs is proved in whole numbers;
// that of integer programs is CBC's word.

struct News {
  /// No schedule that is looked for costs less.
  std::int64_t bound = 0;
  /// No schedule holds the limits.
  bool infeasible = false;
  std::vector<Plan> plans{};
  /// In units of the search.
  std::int64_t work = 0;
  /// Nothing more will come.
  bool finished = false;
};

class Prover {
 public:
  /// Graph and problem outlive it.
  Prover(const DeviceGraph& graph, const Problem& problem, std::uint64_t seed);

  struct Limits {
    /// What costs less is looked for; never more than before.
    std::int64_t below = kNoWay;
    /// The best plan known, which costs that; may be null.
    const EvaluatedPlan* incumbent = nullptr;
    std::function<bool()> interrupted{};
    /// Seconds for one neighbourhood; without them, nodes alone.
    double seconds = 0;
  };

  /// A linear program, a dive, an integer program or a neighbourhood.
  News step(const Limits& limits);

 private:
  /// A program, where memory is counted in it, and what its linear program has said.
  struct Relaxation {
    Program::Detail detail{};
    std::unique_ptr<Program> program{};
    std::vector<double> prices{};
    /// Below this the reduced costs were used last.
    std::int64_t ruled_below = kNoWay;
  };

  void build(Relaxation& relaxation) const;
  [[nodiscard]] static bool is_within(const Limits& limits, const Relaxation& relaxation);
  bool solve(Relaxation& relaxation, const Limits& limits, News& news);
  Relaxation& finer(const Limits& limits, News& news);
  News relax(const Limits& limits);
  News fall(const Limits& limits);
  News solve_whole(const Limits& limits);
  News improve(const Limits& limits);
  void rule_out(Relaxation& relaxation, std::int64_t below);
  bool refine(const Plan& plan, Program::Detail& detail) const;
  std::vector<bool> neighbourhood(const Program& program, std::size_t most);
  [[nodiscard]] static std::int64_t work_of(const remora::Program& program);

  enum class Next : std::uint8_t { relax, dive, whole, improve, none };

  Instance instance_;
  State::Allowed allowed_;
  Random random_;
  Relaxation whole_;
  /// With more memory counted; without a program where it is the same.
  Relaxation finer_;
  Next next_ = Next::relax;
  std::int64_t bound_ = 0;
  /// Times the seconds for one neighbourhood: what the whole program may take.
  double patience_ = 2;
  /// Of the whole program: where ops run first is branched on before all else, in many nodes without cuts; else with cuts.
  bool by_devices_ = false;
  /// Until the whole program is tried again: neighbourhoods, and CPU seconds, as many as it took the last time.
  int improvements_ = 0;
  double owed_ = 0;
  /// CPU seconds of the last finer linear program, and of neighbourhoods since.
  double relaxing_ = 0;
  double improving_ = 0;
  /// Columns of a neighbourhood.
  double size_;
};

}  // namespace remora::devices
