// SPDX-License-Identifier: Apache-2.0
//
// The answer to one solve: the steps, and what is known about them (remora-schedule 1, with addresses 2, with slices
// 3, in several modes 4).
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/api.hpp"
#include "model/modes.hpp"
#include "model/slices.hpp"
#include "model/types.hpp"

namespace remora {

enum class Status {
  optimal,     ///< proved for the problem asked: this order mode and, if a number was given, so many runs per op
  feasible,    ///< a schedule within the budget, not proved optimal
  infeasible,  ///< proved: no schedule of the stated problem fits within the budget
  unknown,     ///< no schedule found within the limits
};

enum class OrderMode {
  input,  ///< the staged form: first runs follow the input order
  free,   ///< any sequence in which every step's inputs are resident and `after` holds
};

/// Run `op`, with its inputs resident and memory for its absent outputs allocated; then release `free`.
struct Step {
  OpId op{};
  std::vector<TensorId> free{};
  /// The op's mode.
  ModeNumber mode = 0;

  friend bool operator==(const Step&, const Step&) = default;
};

/// Where a schedule's tensors and workspaces lie in one block of memory (remora-schedule 2). What has size 0 lies nowhere,
/// and the fixed memory lies elsewhere.
struct Arena {
  using Offsets = std::vector<std::pair<TensorId, Bytes>>;
  /// Allocations of one step.
  struct Allocations {
    Offsets outputs{};
    std::optional<Bytes> workspace{};

    friend bool operator==(const Allocations&, const Allocations&) = default;
  };

  /// Every offset is a multiple of it.
  Bytes alignment{1};
  /// The end of what lies highest.
  Bytes size{};
  /// Offsets of the graph's inputs, which never move.
  Offsets inputs{};
  /// One for each step.
  std::vector<Allocations> steps{};

  friend bool operator==(const Arena&, const Arena&) = default;
};

/// Proof that no schedule fits within the budget: what must be resident at once while `op` runs.
struct Certificate {
  OpId op{};
  /// Bytes that must be resident while `op` runs, fixed memory, graph inputs and workspace included.
  Bytes required{};
  /// The tensors among them.
  std::vector<TensorId> tensors{};
};

/// Why a search ended.
enum class Stop {
  unknown,     ///< it is not said
  optimum,     ///< its schedule is proved optimal
  infeasible,  ///< no schedule fits within the budget
  gap,         ///< the schedule is proved to be as near to the optimum as was asked for
  stall,       ///< no better schedule for as long as was asked for
  time,        ///< the time limit
  work,        ///< the work limit
  cancelled,   ///< by a signal, or by another thread
  callback,    ///< the caller's function asked for the end
  exhausted,   ///< the method has nothing more to try
};

/// One improvement during a solve.
struct Incumbent {
  double seconds = 0;
  Duration duration{};
  Bytes peak{};
  /// The worker that found it.
  std::string source{};
};

/// A figure of a run: the number of groups, the seconds that a phase took.
struct Statistic {
  enum class Unit { none, seconds };

  /// As JSON keys are: "groups"; of a time, the phase's.
  std::string name{};
  /// Finite.
  double value = 0;
  Unit unit = Unit::none;

  friend bool operator==(const Statistic&, const Statistic&) = default;
};
/// In the order of their reports.
using Statistics = std::vector<Statistic>;

/// A region of the graph as it was, by names, and its effect on the graph with the regions before it.
struct NamedRegion {
  struct Member {
    std::string op{};
    int axis = 0;

    friend bool operator==(const Member&, const Member&) = default;
  };

  std::vector<std::vector<Member>> parts{};
  int slices = 1;
  /// It lowers the peak of the input order without recomputation, and the lower bound on feasible budgets, by so much,
  /// which is negative where it raises them.
  Bytes saved_peak{};
  Bytes saved_minimum{};
  /// And raises the duration of all ops once.
  Duration cost{};

  friend bool operator==(const NamedRegion&, const NamedRegion&) = default;
};

/// The slices in which a schedule computes its graph: the steps are those of the sliced graph (model/slices.hpp).
struct ScheduleSlices {
  /// In the order in which the graph is rewritten; at least one.
  std::vector<NamedRegion> regions{};
  SliceRun run{};
  /// The answer without slices, to the same budget.
  Status whole_status = Status::unknown;
  /// 0 without a schedule.
  Duration whole_duration{};
  /// No schedule without slices is shorter that runs an op at most so often; 0 for any number.
  Duration whole_lower_bound{};
  int whole_max_computes = 0;

  friend bool operator==(const ScheduleSlices&, const ScheduleSlices&) = default;
};

/// In place of a number of computes.
inline constexpr int kAnyNumber = std::numeric_limits<int>::max();

/// How the solve went, for the report; nothing here changes what the steps mean.
struct SolverReport {
  std::string version{};
  std::uint64_t seed = 0;
  int threads = 0;
  /// C_v of the problem that the schedule and its bound belong to.
  int max_computes = 0;
  /// Where the number was left to the engine: no schedule with at most so many is shorter. Of a feasible one it is not proved that more
  /// would not be. 0 where nothing is said.
  int optimal_for_max_computes = 0;
  /// The bound holds for any number of computes, and not for max_computes alone.
  bool bound_for_any_number = false;
  double time_limit = 0;
  /// Units of work allowed; 0 means no limit.
  std::int64_t work_limit = 0;
  std::int64_t work = 0;
  double seconds = 0;
  Stop stop = Stop::unknown;
  double phase1_seconds = 0;
  double phase2_seconds = 0;
  /// The smallest peak that phase 1 reached: a budget that would have been feasible.
  Bytes reached_peak{};
  std::vector<Incumbent> history{};
  /// Who solved integer programs: "HiGHS 1.11.0", "COIN-OR CBC", both with " and " between them, or "none"; empty where
  /// nothing is said.
  std::string integer_solver{};
  /// Remark of a method on its run; may be empty.
  std::string note{};
  /// Statistics of a method's own run; no two of one unit have the same name.
  Statistics statistics{};
  /// Other settings of the solve as name and value, in order.
  std::vector<std::pair<std::string, std::string>> options{};
};

struct REMORA_API Schedule {
  std::string graph{};
  /// Hash of the graph file's bytes, as lower-case hexadecimal; empty if there was no file.
  std::string graph_sha256{};
  /// How the graph was made of the file, as words of the command line ("--training", "--dim=batch=8"): whoever shows the
  /// schedule reads it the same way. Empty where there was nothing to say.
  std::vector<std::string> reading{};
  Status status = Status::unknown;
  OrderMode order = OrderMode::input;
  Bytes budget{};
  Duration duration{};
  Duration baseline_duration{};
  Bytes peak_memory{};
  Bytes baseline_peak_memory{};
  /// No schedule of the stated problem is shorter.
  Duration lower_bound{};
  /// In the order of execution; empty where there is no schedule.
  std::vector<Step> steps{};
  std::optional<Certificate> certificate{};
  /// With it, the fixed memory and the arena stay within the budget, and verify() checks the offsets.
  std::optional<Arena> arena{};
  /// With them, ops and tensors are those of the sliced graph, the baselines those of the graph as it was, and the
  /// bound is one for these slices.
  std::optional<ScheduleSlices> slices{};
  SolverReport solver{};

  [[nodiscard]] bool has_steps() const { return !steps.empty(); }
  /// A schedule was found; of a graph without ops it has no steps.
  [[nodiscard]] bool has_schedule() const { return status == Status::optimal || status == Status::feasible; }

  /// duration / baseline_duration - 1, the papers' total duration increase (TDI); 0 for a baseline of 0
  /// and without a schedule.
  [[nodiscard]] double overhead() const;
  /// lower_bound / baseline_duration - 1: no schedule has less overhead; 0 for a baseline of 0.
  [[nodiscard]] double least_overhead() const;
  /// (duration - lower_bound) / duration; 0 for a duration of 0, 1 without a schedule.
  [[nodiscard]] double gap() const;
};

/// The schedule's ops in its order: what solve() takes as a warm start.
REMORA_API Sequence ops_of(const Schedule& schedule);

/// The regions with names in place of the graph's ids, without their effects.
REMORA_API std::vector<NamedRegion> named_regions(const Graph& graph, const std::vector<Region>& regions);

/// The regions of the graph. Throws InputError with the path ("regions[1].parts[0][2]") for a name that the graph does
/// not have.
REMORA_API std::vector<Region> regions_of(const Graph& graph, const std::vector<NamedRegion>& named);

}  // namespace remora
