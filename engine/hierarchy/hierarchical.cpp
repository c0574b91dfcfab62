// SPDX-License-Identifier: Apache-2.0
#include "engine/hierarchy/hierarchical.hpp"

#include <algorithm>
#include <iterator>

#include "engine/hierarchy/composition.hpp"
#include "engine/hierarchy/grouping.hpp"
#include "engine/hierarchy/indexing.hpp"
#include "engine/hierarchy/option_grid.hpp"
#include "engine/hierarchy/option_selection.hpp"
#include "engine/hierarchy/partition.hpp"
#include "engine/hierarchy/stitching.hpp"
#include "engine/search/rounds.hpp"
#include "engine/strategies/chains/block_chain.hpp"
#include "engine/tasks.hpp"
#include "model/evaluate.hpp"

namespace remora {
namespace {

/// Shares of the time limit.
constexpr double kOptionShare = 0.25;
constexpr double kComposeShare = 0.1;
constexpr int kCompositions = 2;
/// Units of work for one solve of a group at least.
constexpr std::int64_t kLeastWork = 100;
constexpr std::size_t kSeeds = 2;
/// More than any network holds, and small enough to add up.
constexpr Bytes kMostBytes{std::int64_t{1} << 61};
/// Below, the flat search alone does as well.
constexpr int kLeastOps = 500;

/// Whether sums over the events of a block, of its tensors and of options' times stay within 64 bits.
bool amounts_fit(const Instance& instance) {
  constexpr double kMost = 9e18;
  constexpr double kEvents = 4096;
  double bytes = 0;
  for (int t = 0; t < instance.tensor_count(); ++t) bytes += static_cast<double>(instance.size(TensorId(t)).count());
  double workspace = 0;
  for (int v = 0; v < instance.op_count(); ++v) {
    workspace = std::max(workspace, static_cast<double>(instance.workspace(OpId(v)).count()));
  }
  const auto duration = static_cast<double>(instance.baseline_duration().count());
  return (bytes + workspace) * kEvents < kMost && duration * 4 * kComputesWithin64Bits < kMost;
}

class HierarchicalSolve {
 public:
  HierarchicalSolve(const Instance& instance, const SolveOptions& options, const Deadline& deadline,
                    const Partitioner& partitioner)
      : instance_(instance), options_(options), deadline_(deadline), partitioner_(partitioner) {}

  HierarchicalResult run() {
    result_.solution = make_solution(instance_, RecomputePlan{});
    if (!amounts_fit(instance_)) {
      result_.note = "amounts too large for groups";
      return std::move(result_);
    }
    partition();
    find_options();
    if (!deadline_.reached()) compose_root();
    return std::move(result_);
  }

 private:
  struct RowTask {
    int problem = 0;
    GridRow row{};
    RowResult result{};
  };
  struct ClassProblem {
    int index = 0;
    BlockProblem problem{};
    GroupOption saving{};
    /// Its rows among those of its height.
    std::size_t first_row = 0;
    std::size_t end_row = 0;
  };

  void note(const char* name, double value) { result_.statistics.emplace_back(name, value); }
  /// The seconds since the last call.
  void note_seconds(const char* name) {
    const double now = deadline_.elapsed();
    note(name, now - last_);
    last_ = now;
  }

  void partition() {
    last_ = deadline_.elapsed();
    const Partition partition = make_partition(instance_, partitioner_, partition_settings(options_));
    hierarchy_.unit_count = at(partition.unit_count());
    hierarchy_.blocks = make_blocks(instance_, partition);
    hierarchy_.classes = classify(instance_, hierarchy_.blocks, hierarchy_.unit_count);
    hierarchy_.options.resize(hierarchy_.classes.representative.size());
    const auto groups = hierarchy_.blocks.size() - 1;
    const auto distinct = hierarchy_.options.size() - 1;
    const int levels = partition.node(partition.root()).level;
    note("levels", levels);
    note("groups", static_cast<double>(groups));
    note("distinct_groups", static_cast<double>(distinct));
    result_.note = std::to_string(groups) + " groups of " + std::to_string(distinct) + " forms on " +
                   std::to_string(levels) + " levels";
    note_seconds("partition_seconds");
  }

  [[nodiscard]] int root_class() const { return hierarchy_.classes.class_of.back(); }

  [[nodiscard]] BlockProblem problem_of(const Block& block) const {
    std::vector<ChildOptions> children;
    children.reserve(block.children.size());
    for (const int child : block.children) {
      const ClassOptions& options = hierarchy_.options[at(hierarchy_.class_of(child))];
      children.push_back({options.options, &options.pass});
    }
    return make_block_problem(instance_, block, std::move(children));
  }

  void find_options() {
    const auto& heights = hierarchy_.classes.height;
    const int highest = heights.empty() ? 0 : heights[at(root_class())];
    for (int height = 0; height < highest && !deadline_.reached(); ++height) solve_classes(height);
    double count = 0;
    for (const ClassOptions& options : hierarchy_.options) count += static_cast<double>(options.options.size());
    note("options", count);
    note_seconds("options_seconds");
  }

  void solve_classes(int height) {
    std::vector<ClassProblem> problems;
    std::vector<RowTask> rows;
    for (int c = 0; c < static_cast<int>(hierarchy_.options.size()); ++c) {
      if (c == root_class() || hierarchy_.classes.height[at(c)] != height) continue;
      if (deadline_.reached()) return;
      ClassProblem problem{.index = c,
                           .problem = problem_of(hierarchy_.blocks[at(hierarchy_.classes.representative[at(c)])])};
      problem.saving = saving_option(problem.problem);
      problem.first_row = rows.size();
      for (const GridRow& row : grid_rows(problem.problem, problem.saving)) {
        rows.push_back({static_cast<int>(problems.size()), row, {}});
      }
      problem.end_row = rows.size();
      problems.push_back(std::move(problem));
    }
    const RowLimits limits = row_limits(rows.size());
    run_tasks(thread_count(options_), rows.size(), [&](std::size_t i) {
      const ClassProblem& problem = problems[at(rows[i].problem)];
      if (!deadline_.reached()) {
        rows[i].result = solve_row(problem.problem, rows[i].row, problem.saving, options_, limits);
      }
    });
    for (const ClassProblem& problem : problems) keep_options(problem, rows);
  }

  /// Every class of one height gets the same.
  [[nodiscard]] RowLimits row_limits(std::size_t rows) const {
    RowLimits limits;
    limits.solves = options_.grid_levels;
    limits.cancel = deadline_.cancel();
    limits.seconds = kNoTimeLimit;
    const int levels = std::max(1, hierarchy_.classes.height[at(root_class())]);
    const double part = kOptionShare / levels / static_cast<double>(std::max<std::size_t>(1, rows));
    if (options_.work_limit > 0) {
      const double work = static_cast<double>(options_.work_limit) * part;
      limits.solves = std::clamp(static_cast<int>(work / kLeastWork), 1, limits.solves);
      limits.work = std::max(kLeastWork, static_cast<std::int64_t>(work / limits.solves));
    } else {
      const auto side_by_side = std::min(static_cast<std::size_t>(thread_count(options_)), rows);
      const double left = std::max(0.0, options_.time_limit - deadline_.elapsed());
      limits.seconds = std::min(left, options_.time_limit * part * static_cast<double>(side_by_side));
    }
    return limits;
  }

  void keep_options(const ClassProblem& problem, std::vector<RowTask>& rows) {
    ClassOptions& kept = hierarchy_.options[at(problem.index)];
    std::vector<GroupOption> options{problem.saving};
    for (std::size_t row = problem.first_row; row < problem.end_row; ++row) {
      RowResult& result = rows[row].result;
      result_.work += result.work;
      std::move(result.options.begin(), result.options.end(), std::back_inserter(options));
    }
    kept.options = select_options(std::move(options), at(options_.group_options));
    kept.pass = passing_option(problem.problem, without_budgets(problem.problem));
  }

  /// Compositions side by side, each with its own seed; the best, the first among equals. As many whatever the number
  /// of threads, for the sake of reproducibility; but where time limits them one thread has time for one only.
  [[nodiscard]] Composition compose_from_seeds(const Instance& top, const CompositionLimits& limits) {
    const bool one = options_.work_limit == 0 && thread_count(options_) == 1;
    std::vector<Composition> compositions(one ? 1 : kSeeds);
    run_tasks(thread_count(options_), compositions.size(), [&](std::size_t i) {
      compositions[i] = compose(top, options_, static_cast<std::uint64_t>(options_.seed) * kSeeds + i, limits);
    });
    for (const Composition& composition : compositions) result_.work += local_work(composition.effort);
    return *std::min_element(compositions.begin(), compositions.end(), [&](const Composition& a, const Composition& b) {
      return better(top, a.peak, a.extra, b.peak, b.extra);
    });
  }

  [[nodiscard]] std::int64_t composition_effort() const {
    if (options_.work_limit == 0) return INT64_MAX;
    // In double, for limits near the largest.
    const double work = static_cast<double>(options_.work_limit) * kComposeShare / kCompositions / kSeeds;
    return static_cast<std::int64_t>(std::min(work * kEffortOfWork, 9e18));
  }

  /// Composes under a budget, stitches, and corrects the budget by what stitching gives back.
  void compose_root() {
    const BlockProblem problem = problem_of(hierarchy_.blocks.back());
    const Bytes budget = std::max(Bytes(0), std::min(instance_.budget(), kMostBytes) - instance_.base_memory());
    const double end = deadline_.elapsed() + options_.time_limit * kComposeShare;
    CompositionLimits limits{.effort = composition_effort()};
    double stitching = 0;
    Bytes allowed = budget;
    for (int round = 0; round < kCompositions && !deadline_.reached(); ++round) {
      const double now = deadline_.elapsed();
      const double round_end = now + (end - now) * (round + 1 < kCompositions ? 0.7 : 1);
      limits.interrupted = [&] {
        return deadline_.reached() || (options_.work_limit == 0 && deadline_.elapsed() > round_end);
      };
      const Composition composition = compose_from_seeds(with_budgets(problem, allowed, allowed), limits);
      const double composed = deadline_.elapsed();
      Solution stitched = make_solution(instance_, plan_of_any(instance_, expand(hierarchy_, composition.sequence)));
      const Bytes exact = stitched.peak - instance_.base_memory();
      if (better(instance_, stitched, result_.solution)) result_.solution = std::move(stitched);
      stitching += deadline_.elapsed() - composed;
      const Bytes corrected = std::max(Bytes(0), budget + (composition.peak - exact));
      if (corrected == allowed) break;
      allowed = corrected;
    }
    note("stitch_seconds", stitching);
    last_ += stitching;
    note_seconds("compose_seconds");
  }

  const Instance& instance_;
  const SolveOptions& options_;
  const Deadline& deadline_;
  const Partitioner& partitioner_;
  Hierarchy hierarchy_;
  HierarchicalResult result_;
  double last_ = 0;
};

}  // namespace

bool hierarchy_pays(const Instance& instance) {
  return instance.op_count() >= kLeastOps && forward_part(instance).has_value();
}

HierarchicalResult solve_hierarchically(const Instance& instance, const SolveOptions& options, const Deadline& deadline,
                                        const Partitioner& partitioner) {
  return HierarchicalSolve(instance, options, deadline, partitioner).run();
}

HierarchicalResult solve_hierarchically(const Instance& instance, const SolveOptions& options,
                                        const Deadline& deadline) {
  return solve_hierarchically(instance, options, deadline, *make_partitioner(options.grouping));
}

}  // namespace remora
