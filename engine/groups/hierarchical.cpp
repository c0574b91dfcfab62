// SPDX-License-Identifier: Apache-2.0
#include "engine/groups/hierarchical.hpp"

#include <algorithm>
#include <atomic>
#include <functional>
#include <iterator>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/options.hpp"
#include "engine/base/schema.hpp"
#include "engine/base/tasks.hpp"
#include "engine/baselines/chains/block_chain.hpp"
#include "engine/groups/block_schedule.hpp"
#include "engine/groups/composition.hpp"
#include "engine/groups/partition.hpp"
#include "engine/groups/partitioners.hpp"
#include "engine/groups/schedule_grid.hpp"
#include "model/evaluate.hpp"
#include "model/table.hpp"

namespace remora {
namespace {

constexpr int kMaxSchedules = 24;  ///< kept of a group
/// Over all groups; networks of 100,000 ops have thousands.
constexpr std::size_t kMaxFreedInputs = 10'000'000;
/// Below, the flat search alone does as well.
constexpr int kMinOps = 500;

/// True if sums over the events of a block, of its tensors and of schedules' times stay within 64 bits.
bool amounts_fit(const Instance& instance) {
  constexpr double kMaximum = 9e18;
  constexpr double kEvents = 4096;
  Bytes workspace(0);
  for (const OpId v : instance.ops()) workspace = std::max(workspace, instance.workspace(v));
  auto bytes = static_cast<double>(workspace.count());
  for (int t = 0; t < instance.tensor_count(); ++t) bytes += static_cast<double>(instance.size(TensorId(t)).count());
  const auto duration = static_cast<double>(instance.baseline_duration().count());
  return bytes * kEvents < kMaximum && duration * 4 * kComputesWithin64Bits < kMaximum;
}

class GroupFinder {
 public:
  GroupFinder(const Instance& instance, const SolveOptions& options, const Deadline& deadline,
              const Partitioner& partitioner, BlockStore* store, const std::function<bool()>& enough)
      : instance_(instance),
        options_(options),
        deadline_(deadline),
        partitioner_(partitioner),
        store_(store),
        enough_(enough) {}

  Groups run() {
    if (!amounts_fit(instance_)) {
      groups_.note = "amounts too large for groups";
      return std::move(groups_);
    }
    partition();
    if (!is_over()) find_schedules();
    groups_.complete = !is_over() && !given_up_;
    return std::move(groups_);
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
    BlockSchedule saving{};
    /// Its rows among those of its height.
    std::size_t first_row = 0;
    std::size_t end_row = 0;
    /// In the store; empty without one.
    std::string key{};
    bool known = false;
  };

  /// `enough` is asked by the thread that called alone. What other threads do ends when it has come to an end by itself.
  [[nodiscard]] bool is_over() {
    if (!is_stopped_ && enough_ && std::this_thread::get_id() == caller_ && enough_()) is_stopped_ = true;
    return is_stopped_ || deadline_.reached();
  }

  void note(const char* name, double value) { groups_.statistics.push_back({name, value}); }
  /// The seconds since the last call.
  void note_seconds(const char* name) {
    const double now = deadline_.elapsed();
    groups_.statistics.push_back({name, now - last_, Statistic::Unit::seconds});
    last_ = now;
  }

  void partition() {
    last_ = deadline_.elapsed();
    PartitionSettings settings = partition_settings(options_);
    const auto interrupted = [this] { return is_over(); };
    settings.interrupted = interrupted;
    const Partition partition = make_partition(instance_, partitioner_, settings);
    groups_.hierarchy.unit_count = at(partition.unit_count());
    if (!is_over()) groups_.hierarchy.blocks = make_blocks(instance_, partition, interrupted);
    groups_.hierarchy.classes =
        classify(instance_, groups_.hierarchy.blocks, groups_.hierarchy.unit_count, interrupted);
    if (is_over()) {
      groups_.note = "none, for the limit came before the graph was cut";
      return;
    }
    groups_.hierarchy.schedules.resize(groups_.hierarchy.classes.representative.size());
    const auto groups = groups_.hierarchy.blocks.size() - 1;
    const auto distinct = groups_.hierarchy.schedules.size() - 1;
    const int levels = partition.node(partition.root()).level;
    note("levels", levels);
    note("groups", static_cast<double>(groups));
    note("distinct_groups", static_cast<double>(distinct));
    groups_.note = std::to_string(groups) + " groups of " + std::to_string(distinct) + " forms on " +
                   std::to_string(levels) + " levels";
    note_seconds("partition");
  }

  void find_schedules() {
    const auto& heights = groups_.hierarchy.classes.height;
    const int highest = heights.empty() ? 0 : heights[at(groups_.hierarchy.root_class())];
    for (int height = 0; height < highest && !is_over() && !given_up_; ++height) solve_classes(height);
    double schedules = 0;
    for (const ClassSchedules& of : groups_.hierarchy.schedules) schedules += static_cast<double>(of.schedules.size());
    note("block_schedules", schedules);
    if (store_ != nullptr) note("known_groups", known_);
    note_seconds("block_schedules");
  }

  void solve_classes(int height) {
    std::vector<ClassProblem> problems;
    std::vector<RowTask> rows;
    for (int c = 0; c < static_cast<int>(groups_.hierarchy.schedules.size()); ++c) {
      if (c == groups_.hierarchy.root_class() || groups_.hierarchy.classes.height[at(c)] != height) continue;
      if (is_over()) return;
      ClassProblem problem{
          .index = c,
          .problem = groups_.hierarchy.problem_of(
              instance_, groups_.hierarchy.blocks[at(groups_.hierarchy.classes.representative[at(c)])])};
      // Each takes a good part of a second where a group reads much of a network of 100,000 ops.
      if (is_over()) return;
      const Instance unlimited = without_budgets(problem.problem);
      if (is_over()) return;
      problem.saving = saving_schedule(problem.problem, unlimited);
      if (count_freed(problem.saving); given_up_) return;
      problem.first_row = rows.size();
      for (const GridRow& row : grid_rows(problem.problem, unlimited, problem.saving)) {
        rows.push_back({static_cast<int>(problems.size()), row, {}});
      }
      problem.end_row = rows.size();
      problems.push_back(std::move(problem));
    }
    // The same whether some are known already: what is found must not depend on that.
    const int levels = std::max(1, groups_.hierarchy.classes.height[at(groups_.hierarchy.root_class())]);
    const RowLimits limits = row_limits(options_, deadline_, levels, rows.size());
    if (limits.work < kMinWorkOfSolve && !asks_for_groups(options_)) {
      return give_up("none, for the work limit leaves too little for each");
    }
    for (ClassProblem& problem : problems) recall(problem, limits);
    run_tasks(thread_count(options_), rows.size(), [&](std::size_t i) {
      const ClassProblem& problem = problems[at(rows[i].problem)];
      if (!problem.known && !is_over()) {
        rows[i].result = solve_row(problem.problem, rows[i].row, problem.saving, options_, limits);
      }
    });
    for (const ClassProblem& problem : problems) {
      if (!is_over()) keep_schedules(problem, rows);
      for (const BlockSchedule& schedule : groups_.hierarchy.schedules[at(problem.index)].schedules)
        count_freed(schedule);
    }
  }

  /// Where groups share many tensors with others, their schedules would take gigabytes, and seconds to give back.
  void count_freed(const BlockSchedule& schedule) {
    freed_inputs_ += schedule.freed_inputs();
    if (freed_inputs_ > kMaxFreedInputs) give_up("none, for groups share too many tensors");
  }
  void give_up(const char* why) { given_up_ = true, groups_.note = why; }

  /// Takes the schedules from the store if they are there.
  void recall(ClassProblem& problem, const RowLimits& limits) {
    if (store_ == nullptr) return;
    problem.key = key_of(problem.index, limits);
    const std::optional<std::string> text = store_->find(problem.key);
    if (!text) return;
    auto found = schedules_of_text(*text);
    const auto is_schedule = [&](const BlockSchedule& schedule) { return is_schedule_of(problem.problem, schedule); };
    if (!found || !std::all_of(found->schedules.begin(), found->schedules.end(), is_schedule)) return;
    groups_.hierarchy.schedules[at(problem.index)].schedules = std::move(found->schedules);
    // Counted as if it had been done here: a work limit must not reach further where a store knows something.
    groups_.work += Work(found->work);
    problem.known = true;
    ++known_;
  }

  /// All that a class's schedules depend on. Under a time limit they depend on the machine as well; there the first to
  /// solve a class decides for all.
  [[nodiscard]] std::string key_of(int index, const RowLimits& limits) const {
    const BlockClasses& classes = groups_.hierarchy.classes;
    SolveOptions of_all = options_;
    of_all.threads = 0, of_all.work_limit = 0;
    std::ostringstream key;
    key << engine_schema() << "\n" << of_all.neighbourhood_nodes << " " << of_all.grid_levels << "\n";
    for (const auto& [name, value] : describe_options(of_all)) key << name << "=" << value << "\n";
    key << limits.solves << " " << option_of(limits.work) << " " << instance_.problem().max_computes << "\n";
    key << classes.description[at(index)].size() << "\n" << classes.description[at(index)];
    for (const int child : classes.child_classes[at(index)]) {
      const ClassSchedules& of_child = groups_.hierarchy.schedules[at(child)];
      const std::string text = text_of_schedules({of_child.schedules}) + text_of_schedules({{of_child.pass}});
      key << "\n" << text.size() << "\n" << text;
    }
    return std::move(key).str();
  }

  void keep_schedules(const ClassProblem& problem, std::vector<RowTask>& rows) {
    ClassSchedules& kept = groups_.hierarchy.schedules[at(problem.index)];
    kept.pass = passing_schedule(problem.problem, without_budgets(problem.problem));
    if (problem.known) return;
    std::vector<BlockSchedule> schedules{problem.saving};
    Work work;
    for (std::size_t row = problem.first_row; row < problem.end_row; ++row) {
      RowResult& result = rows[row].result;
      work += result.work;
      std::move(result.schedules.begin(), result.schedules.end(), std::back_inserter(schedules));
    }
    kept.schedules = select_schedules(std::move(schedules), at(kMaxSchedules));
    groups_.work += work;
    // An interrupted result is not stored: others had better solve the problem again.
    if (store_ != nullptr && !is_over()) store_->keep(problem.key, text_of_schedules({kept.schedules, work.count()}));
  }

  const Instance& instance_;
  const SolveOptions& options_;
  const Deadline& deadline_;
  const Partitioner& partitioner_;
  BlockStore* store_;
  const std::function<bool()>& enough_;
  std::thread::id caller_ = std::this_thread::get_id();
  std::atomic<bool> is_stopped_ = false;
  bool given_up_ = false;
  std::size_t freed_inputs_ = 0;
  Groups groups_;
  int known_ = 0;
  double last_ = 0;
};

}  // namespace

bool hierarchy_pays(const Instance& instance) {
  return instance.op_count() >= kMinOps && forward_part(instance).has_value();
}

Groups find_groups(const Instance& instance, const SolveOptions& options, const Deadline& deadline,
                   const Partitioner& partitioner, BlockStore* store, const std::function<bool()>& enough) {
  return GroupFinder(instance, options, deadline, partitioner, store, enough).run();
}

namespace {

/// Share of the time limit.
constexpr double kComposeShare = 0.1;
constexpr int kCompositions = 2;
constexpr std::size_t kSeeds = 2;
/// More than any network holds, and small enough to add up.
constexpr Bytes kLargestBudget{std::int64_t{1} << 61};

class Composer {
 public:
  Composer(const Groups& groups, const Instance& instance, const SolveOptions& options, const Deadline& deadline)
      : hierarchy_(groups.hierarchy), instance_(instance), options_(options), deadline_(deadline) {}

  HierarchicalResult run() {
    result_.solution = make_solution(instance_, RecomputePlan{});
    compose_root();
    return std::move(result_);
  }

 private:
  /// Compositions side by side, each with its own seed; the best, the first among equals. As many whatever the number
  /// of threads, for the sake of reproducibility; but where time limits them one thread has time for one only.
  [[nodiscard]] Composition compose_from_seeds(const Instance& top, const CompositionLimits& limits) {
    const bool one = !counts_work_ && thread_count(options_) == 1;
    std::vector<Composition> compositions(one ? 1 : kSeeds);
    run_tasks(thread_count(options_), compositions.size(), [&](std::size_t i) {
      compositions[i] = compose(top, options_, static_cast<std::uint64_t>(options_.seed) * kSeeds + i, limits);
    });
    for (const Composition& composition : compositions)
      result_.work += work_of(composition.effort, EffortOfWork::model);
    return *std::min_element(compositions.begin(), compositions.end(), [&](const Composition& a, const Composition& b) {
      return better(top, a.peak, a.extra, b.peak, b.extra);
    });
  }

  [[nodiscard]] Effort composition_effort() const {
    // In double, for limits near the largest, and for parts of a unit.
    const double work =
        static_cast<double>(work_limit(options_.work_limit).count()) * kComposeShare / kCompositions / kSeeds;
    return static_cast<Effort>(std::min(work * static_cast<double>(EffortOfWork::model), 9e18));
  }

  /// Composes under a budget, stitches, and corrects the budget by what stitching gives back.
  void compose_root() {
    const BlockProblem problem = hierarchy_.problem_of(instance_, hierarchy_.blocks.back());
    const Bytes budget = std::max(Bytes(0), std::min(instance_.budget(), kLargestBudget) - instance_.base_memory());
    const double begin = deadline_.elapsed();
    const double end = begin + options_.time_limit * kComposeShare;
    CompositionLimits limits{.effort = composition_effort()};
    double stitching = 0;
    Bytes allowed = budget;
    for (int round = 0; round < kCompositions && !deadline_.reached(); ++round) {
      const double now = deadline_.elapsed();
      const double round_end = now + (end - now) * (round + 1 < kCompositions ? 0.7 : 1);
      limits.interrupted = [&] { return deadline_.reached() || (!counts_work_ && deadline_.elapsed() > round_end); };
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
    result_.statistics = {{"stitch", stitching, Statistic::Unit::seconds},
                          {"compose", deadline_.elapsed() - begin - stitching, Statistic::Unit::seconds}};
  }

  const Hierarchy& hierarchy_;
  const Instance& instance_;
  const SolveOptions& options_;
  const Deadline& deadline_;
  /// Rounds end by effort, not by time.
  const bool counts_work_ = options_.work_limit > 0;
  HierarchicalResult result_;
};

}  // namespace

HierarchicalResult compose_groups(const Groups& groups, const Instance& instance, const SolveOptions& options,
                                  const Deadline& deadline) {
  return Composer(groups, instance, options, deadline).run();
}

bool wants_groups(const Instance& instance, const SolveOptions& options) {
  const bool may = is_whole_search(options) && options.groups == GroupStart::automatic;
  return !instance.has_modes() && (asks_for_groups(options) || (may && hierarchy_pays(instance)));
}

void start_from_groups(Search& search, const Groups& groups) {
  SolverReport& report = search.report();
  report.note =
      (asks_for_groups(search.options()) ? "" : "large training graph, so started from groups: ") + groups.note;
  report.statistics = groups.statistics;
  if (!groups.complete) return;
  HierarchicalResult result = compose_groups(groups, search.instance(), search.options(), search.deadline());
  report.statistics.insert(report.statistics.end(), result.statistics.begin(), result.statistics.end());
  search.add_work(result.work);
  search.offer(std::move(result.solution), Source::hierarchy);
}

void start_from_groups(Search& search, BlockStore* blocks) {
  const auto enough = [&search] {
    search.exchange_with_prover();
    return search.over() && !asks_for_groups(search.options());
  };
  const Groups groups = find_groups(search.instance(), search.options(), search.deadline(), blocks, enough);
  search.add_work(groups.work);
  start_from_groups(search, groups);
}

}  // namespace remora
