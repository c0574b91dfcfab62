// SPDX-License-Identifier: Apache-2.0
#include "engine/groups/hierarchical.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/base/tasks.hpp"
#include "engine/groups/composition.hpp"
#include "model/evaluate.hpp"

namespace remora {
namespace {

/// Share of the time limit.
constexpr double kComposeShare = 0.1;
constexpr int kCompositions = 2;
constexpr std::size_t kSeeds = 2;
/// More than any network holds, and small enough to add up.
constexpr Bytes kMostBytes{std::int64_t{1} << 61};

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
    const bool one = options_.work_limit == 0 && thread_count(options_) == 1;
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
    if (options_.work_limit == 0) return INT64_MAX;
    // In double, for limits near the largest, and for parts of a unit.
    const double work = static_cast<double>(options_.work_limit) * kComposeShare / kCompositions / kSeeds;
    return static_cast<Effort>(std::min(work * static_cast<double>(EffortOfWork::model), 9e18));
  }

  /// Composes under a budget, stitches, and corrects the budget by what stitching gives back.
  void compose_root() {
    const BlockProblem problem = hierarchy_.problem_of(instance_, hierarchy_.blocks.back());
    const Bytes budget = std::max(Bytes(0), std::min(instance_.budget(), kMostBytes) - instance_.base_memory());
    const double begin = deadline_.elapsed();
    const double end = begin + options_.time_limit * kComposeShare;
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
    result_.statistics = {{"stitch_seconds", stitching}, {"compose_seconds", deadline_.elapsed() - begin - stitching}};
  }

  const Hierarchy& hierarchy_;
  const Instance& instance_;
  const SolveOptions& options_;
  const Deadline& deadline_;
  HierarchicalResult result_;
};

}  // namespace

HierarchicalResult compose_groups(const Groups& groups, const Instance& instance, const SolveOptions& options,
                                  const Deadline& deadline) {
  return Composer(groups, instance, options, deadline).run();
}

bool wants_groups(const Instance& instance, const SolveOptions& options) {
  if (options.strategy == Strategy::hierarchical) return true;
  return options.strategy == Strategy::automatic && options.hierarchy && hierarchy_pays(instance);
}

void start_from_groups(Search& search, const Groups& groups) {
  const bool asked = search.options().strategy == Strategy::hierarchical;
  SolverReport& report = search.report();
  report.note = (asked ? "" : "large training graph, so started from groups: ") + groups.note;
  report.statistics = groups.statistics;
  if (!groups.complete) return;
  HierarchicalResult result = compose_groups(groups, search.instance(), search.options(), search.deadline());
  report.statistics.insert(report.statistics.end(), result.statistics.begin(), result.statistics.end());
  search.charge(result.work);
  search.offer(std::move(result.solution), Source::hierarchy);
}

void start_from_groups(Search& search, BlockStore* blocks) {
  const Groups groups = find_groups(search.instance(), search.options(), search.deadline(), blocks);
  search.charge(groups.work);
  start_from_groups(search, groups);
}

}  // namespace remora
