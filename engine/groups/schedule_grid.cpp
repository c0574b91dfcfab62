// SPDX-License-Identifier: Apache-2.0
#include "engine/groups/schedule_grid.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/base/deadline.hpp"
#include "engine/bound/first_bound.hpp"
#include "engine/groups/composition.hpp"
#include "engine/search/search.hpp"
#include "engine/search/workers/crew.hpp"
#include "model/evaluate.hpp"
#include "model/table.hpp"

namespace remora {
namespace {

/// The part of the limits for all groups.
constexpr double kScheduleShare = 0.25;

/// Limits on the peak, as parts of the way from the least that an op needs to what the schedule without a limit needs.
constexpr std::array kPeakParts{0.5, 0.15};

/// The part of a row's time that one solve may take. Most need less, being proved optimal.
constexpr double kSolveShare = 1.0 / 20;

/// More than any schedule needs.
Bytes no_limit(const BlockProblem& problem) {
  Bytes sum;
  for (const Tensor& tensor : problem.graph->tensors) sum += tensor.size;
  Bytes workspace;
  for (const Op& op : problem.graph->ops) workspace = std::max(workspace, op.workspace);
  return sum + sum + workspace;
}

/// Memory between the halves, the interface's part included.
Bytes held_between(const BlockProblem& problem, const BlockSchedule& schedule) {
  const std::vector<int> interface = problem.block->interface();
  Bytes sum = schedule.saved;
  for (std::size_t i = 0; i < interface.size(); ++i) {
    if (schedule.reads[i]) sum += problem.block->tensors[at(interface[i])].size;
  }
  return sum;
}

/// The schedules of one row, and where to look next.
class Row {
 public:
  Row(const BlockProblem& problem, const GridRow& row, const SolveOptions& options, const RowLimits& limits)
      : problem_(problem),
        row_(row),
        options_(options),
        limits_(limits),
        deadline_(limits.seconds, limits.cancel),
        unlimited_(without_budgets(problem)) {}

  RowResult run(const BlockSchedule& saving) {
    const Bytes most = held(saving);
    if (saving.peak <= row_.peak) {
      insert({.held = most, .schedule = saving});
    } else {
      try_limit(most);
    }
    if (problem_.block->has_halves()) {
      const int levels = std::min(kFirstLevels, limits_.solves);
      for (int level = 0; level < levels && !stopped(); ++level) {
        try_limit(Bytes(static_cast<std::int64_t>(static_cast<double>(most.count()) * level / levels)));
      }
      while (solves_ < limits_.solves && !stopped() && try_widest()) {
      }
    }
    return std::move(result_);
  }

 private:
  struct Point {
    Bytes held{};
    BlockSchedule schedule{};
    /// Pseudo ops included; empty for the saving schedule.
    std::vector<Compute> sequence{};
  };

  [[nodiscard]] bool stopped() const { return deadline_.reached(); }

  /// Bytes that the schedule saves between the halves.
  [[nodiscard]] Bytes held(const BlockSchedule& schedule) const {
    return row_.interface == Interface::counted ? held_between(problem_, schedule) : schedule.saved;
  }

  /// Solves with at most so many bytes between the halves; what comes out may hold less.
  void try_limit(Bytes limit) {
    ++solves_;
    const Instance instance = with_budgets(problem_, row_.peak, limit, row_.interface);
    const std::vector<Compute> warm_start = best_within(limit);
    const std::vector<Compute> sequence =
        !problem_.block->children.empty() ? solve_modes(instance, warm_start) : solve_ops(instance, warm_start);
    if (sequence.empty()) return;
    // Measured with the interface counted, whatever it cost when the schedule was sought.
    Point point{.schedule = measure_schedule(problem_, unlimited_, sequence), .sequence = sequence};
    point.held = held(point.schedule);
    known_.push_back({point.held, limit});
    result_.schedules.push_back(point.schedule);
    insert(std::move(point));
  }

  [[nodiscard]] double seconds_of_solve() const { return limits_.seconds * kSolveShare; }

  std::vector<Compute> solve_ops(const Instance& instance, const std::vector<Compute>& warm_start) {
    SolveOptions inner = options_;
    inner.strategy = Strategy::automatic;
    inner.workers = Workers::all;
    inner.groups = GroupStart::off;
    inner.threads = 1;
    inner.time_limit = seconds_of_solve();
    inner.work_limit = option_of(limits_.work);
    Search search(instance, inner, {input_order_crew}, ops_of(warm_start));
    search.run_session({Deadline(inner.time_limit, limits_.cancel), limits_.work});
    result_.work += search.work();
    if (!search.holds_budget()) return {};
    return computes_of(search.incumbent().sequence(instance));
  }

  std::vector<Compute> solve_modes(const Instance& instance, const std::vector<Compute>& warm_start) {
    const Deadline deadline(seconds_of_solve(), limits_.cancel);
    CompositionLimits inner;
    inner.effort = effort_of(limits_.work, EffortOfWork::model);
    inner.interrupted = [&] { return deadline.reached(); };
    Composition composition = compose(instance, options_, static_cast<std::uint64_t>(options_.seed), inner, warm_start);
    result_.work += work_of(composition.effort, EffortOfWork::model);
    if (composition.peak > instance.budget()) return {};
    return std::move(composition.sequence);
  }

  /// The shortest sequence so far that holds no more between the halves: the next solve starts from it.
  [[nodiscard]] std::vector<Compute> best_within(Bytes held) const {
    std::vector<Compute> best;
    for (const Point& point : found_) {
      if (point.held <= held) best = point.sequence;
    }
    return best;
  }

  /// Keeps found_ a frontier: growing held, falling duration.
  void insert(Point point) {
    const auto covers = [](const Point& a, const Point& b) {
      return a.held <= b.held && a.schedule.duration() <= b.schedule.duration();
    };
    if (std::any_of(found_.begin(), found_.end(), [&](const Point& other) { return covers(other, point); })) return;
    std::erase_if(found_, [&](const Point& other) { return covers(point, other); });
    const auto place = std::find_if(found_.begin(), found_.end(), [&](const Point& p) { return p.held > point.held; });
    found_.insert(place, std::move(point));
  }

  /// Limits from `found` to `limit` gave nothing shorter than what is found; most solves prove that there is nothing,
  /// the others are believed.
  struct Known {
    Bytes found{};
    Bytes limit{};
  };

  /// The least limit above `held` of which nothing is known.
  [[nodiscard]] Bytes open_above(Bytes held) const {
    for (bool moved = true; moved;) {
      moved = false;
      for (const Known& known : known_) {
        if (known.found > held || held >= known.limit) continue;
        held = known.limit;
        moved = true;
      }
    }
    return held;
  }

  /// Tries the middle of the widest rectangle between neighbours. False if there is none.
  bool try_widest() {
    double widest = 0;
    Bytes limit;
    const auto consider = [&](Bytes from, Bytes to, double height) {
      if (to - from < Bytes(2)) return;
      const double area = static_cast<double>((to - from).count()) * height;
      if (area <= widest) return;
      widest = area;
      limit = from + Bytes((to - from).count() / 2);
    };
    for (std::size_t i = 0; i + 1 < found_.size(); ++i) {
      const auto height =
          static_cast<double>((found_[i].schedule.duration() - found_[i + 1].schedule.duration()).count());
      consider(open_above(found_[i].held), found_[i + 1].held, height);
    }
    if (widest <= 0) return false;
    try_limit(limit);
    return true;
  }

  /// Limits that are tried whatever they find, evenly spaced.
  static constexpr int kFirstLevels = 12;

  const BlockProblem& problem_;
  GridRow row_;
  const SolveOptions& options_;
  const RowLimits& limits_;
  Deadline deadline_;
  Instance unlimited_;
  std::vector<Point> found_;
  std::vector<Known> known_;
  /// All that was found: what another one dominates in time and bytes may read less, or have lower peaks.
  RowResult result_;
  int solves_ = 0;
};

}  // namespace

BlockSchedule saving_schedule(const BlockProblem& problem, const Instance& unlimited) {
  return measure_schedule(problem, unlimited, computes_of(input_order(unlimited)));
}

std::vector<GridRow> grid_rows(const BlockProblem& problem, const Instance& unlimited, const BlockSchedule& saving) {
  const Bytes least = least_budget(unlimited);
  std::vector<GridRow> rows{{no_limit(problem)}};
  if (problem.block->has_halves()) rows.push_back({no_limit(problem), Interface::free});
  for (const double part : kPeakParts) {
    const auto way = static_cast<double>(std::max<std::int64_t>(0, (saving.peak - least).count()));
    rows.push_back({least + Bytes(static_cast<std::int64_t>(way * part))});
  }
  return rows;
}

RowLimits row_limits(const SolveOptions& options, const Deadline& deadline, int levels, std::size_t rows) {
  RowLimits limits;
  limits.solves = options.grid_levels;
  limits.cancel = deadline.cancel();
  limits.seconds = kNoTimeLimit;
  const double part = kScheduleShare / levels / static_cast<double>(std::max<std::size_t>(1, rows));
  if (options.work_limit > 0) {
    const double work = static_cast<double>(options.work_limit) * part;
    limits.solves = std::clamp(static_cast<int>(work / static_cast<double>(kMinWorkOfSolve.count())), 1, limits.solves);
    limits.work = std::max(Work(1), Work(static_cast<std::int64_t>(work / limits.solves)));
  } else {
    const auto side_by_side = std::min(at(thread_count(options)), rows);
    const double left = std::max(0.0, options.time_limit - deadline.elapsed());
    limits.seconds = std::min(left, options.time_limit * part * static_cast<double>(side_by_side));
  }
  return limits;
}

RowResult solve_row(const BlockProblem& problem, const GridRow& row, const BlockSchedule& saving,
                    const SolveOptions& options, const RowLimits& limits) {
  return Row(problem, row, options, limits).run(saving);
}

namespace {

/// True if a is nowhere worse than b, peaks compared as if nothing were freed inside.
bool dominates(const BlockSchedule& a, const BlockSchedule& b) {
  const auto no_more = [](const auto& x, const auto& y) { return !(y < x); };
  if (!no_more(a.duration(), b.duration()) || !no_more(a.saved, b.saved) || a.computes > b.computes) return false;
  if (!no_more(a.forward_cost.workspace() + a.saved, b.forward_cost.workspace() + b.saved)) return false;
  if (!no_more(a.backward_cost.workspace() + a.saved, b.backward_cost.workspace() + b.saved)) return false;
  for (std::size_t i = 0; i < a.reads.size(); ++i) {
    if (a.reads[i] && !b.reads[i]) return false;
  }
  return true;
}

/// The schedules, by growing duration, that have the least duration + price x saved for some price.
std::vector<bool> lower_hull(const std::vector<BlockSchedule>& schedules) {
  std::vector<std::size_t> hull;
  const auto time = [&](std::size_t i) { return static_cast<double>(schedules[i].duration().count()); };
  const auto saved = [&](std::size_t i) { return static_cast<double>(schedules[i].saved.count()); };
  for (std::size_t i = 0; i < schedules.size(); ++i) {
    if (!hull.empty() && saved(i) >= saved(hull.back())) continue;
    while (hull.size() > 1) {
      const std::size_t a = hull[hull.size() - 2];
      const std::size_t b = hull.back();
      const bool under = (time(b) - time(a)) * (saved(a) - saved(i)) < (time(i) - time(a)) * (saved(a) - saved(b));
      if (under) break;
      hull.pop_back();
    }
    hull.push_back(i);
  }
  std::vector<bool> chosen(schedules.size(), false);
  for (const std::size_t i : hull) chosen[i] = true;
  return chosen;
}

/// Those that no other dominates, by growing duration.
std::vector<BlockSchedule> pareto_set(std::vector<BlockSchedule> schedules) {
  std::stable_sort(schedules.begin(), schedules.end(), [](const BlockSchedule& a, const BlockSchedule& b) {
    return a.duration() != b.duration() ? a.duration() < b.duration() : a.saved < b.saved;
  });
  std::vector<BlockSchedule> pareto;
  for (BlockSchedule& schedule : schedules) {
    const bool dominated = std::any_of(pareto.begin(), pareto.end(),
                                       [&](const BlockSchedule& other) { return dominates(other, schedule); });
    if (dominated) continue;
    std::erase_if(pareto, [&](const BlockSchedule& other) { return dominates(schedule, other); });
    pareto.push_back(std::move(schedule));
  }
  return pareto;
}

/// Chooses of the candidates the one that saves most differently from all chosen, until there are `most`.
void choose_farthest(const std::vector<BlockSchedule>& schedules, const std::vector<bool>& candidates, std::size_t most,
                     std::vector<bool>& chosen) {
  const auto saved = [&](std::size_t i) { return static_cast<double>(schedules[i].saved.count()); };
  for (auto count = static_cast<std::size_t>(std::count(chosen.begin(), chosen.end(), true)); count < most; ++count) {
    double farthest = -1;
    std::size_t next = schedules.size();
    for (std::size_t i = 0; i < schedules.size(); ++i) {
      if (chosen[i] || !candidates[i]) continue;
      double nearest = std::numeric_limits<double>::max();
      for (std::size_t j = 0; j < schedules.size(); ++j) {
        if (chosen[j]) nearest = std::min(nearest, std::abs(saved(i) - saved(j)));
      }
      if (nearest <= farthest) continue;
      farthest = nearest;
      next = i;
    }
    if (next == schedules.size()) return;
    chosen[next] = true;
  }
}

}  // namespace

std::vector<BlockSchedule> select_schedules(std::vector<BlockSchedule> schedules, std::size_t most) {
  std::vector<BlockSchedule> pareto = pareto_set(std::move(schedules));
  if (pareto.size() <= most) return pareto;
  std::vector<bool> chosen(pareto.size(), false);
  chosen[0] = true;
  choose_farthest(pareto, lower_hull(pareto), most, chosen);
  choose_farthest(pareto, std::vector<bool>(pareto.size(), true), most, chosen);
  std::vector<BlockSchedule> result;
  result.reserve(most);
  for (std::size_t i = 0; i < pareto.size(); ++i) {
    if (chosen[i]) result.push_back(std::move(pareto[i]));
  }
  return result;
}

}  // namespace remora
