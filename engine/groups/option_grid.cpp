// SPDX-License-Identifier: Apache-2.0
#include "engine/groups/option_grid.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "engine/base/deadline.hpp"
#include "engine/bound/footprint.hpp"
#include "engine/groups/composition.hpp"
#include "engine/groups/indexing.hpp"
#include "engine/search/search.hpp"
#include "engine/search/workers/crew.hpp"
#include "model/evaluate.hpp"

namespace remora {
namespace {

/// Limits on the peak, as parts of the way from the least that an op needs to what the option without a limit needs.
constexpr std::array kPeakParts{0.5, 0.15};

/// The part of a row's time that one solve may take. Most need less, being proved optimal.
constexpr double kSolveShare = 1.0 / 20;

Bytes unlimited(const BlockProblem& problem) {
  Bytes sum;
  for (const Tensor& tensor : problem.graph->tensors) sum += tensor.size;
  Bytes workspace;
  for (const Op& op : problem.graph->ops) workspace = std::max(workspace, op.workspace);
  return sum + sum + workspace;
}

/// What is in memory between the halves, the interface's share included.
Bytes held_between(const BlockProblem& problem, const GroupOption& option) {
  const std::vector<int> interface = problem.block->interface();
  Bytes sum = option.saved;
  for (std::size_t i = 0; i < interface.size(); ++i) {
    if (option.reads[i]) sum += problem.block->tensors[at(interface[i])].size;
  }
  return sum;
}

/// The options of one row, and where to look next.
class Row {
 public:
  Row(const BlockProblem& problem, const GridRow& row, const SolveOptions& options, const RowLimits& limits)
      : problem_(problem),
        row_(row),
        options_(options),
        limits_(limits),
        deadline_(limits.seconds, limits.cancel),
        unlimited_(without_budgets(problem)) {}

  RowResult run(const GroupOption& saving) {
    const Bytes most = held(saving);
    if (saving.peak <= row_.peak) {
      insert({.held = most, .option = saving});
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
    GroupOption option{};
    /// Pseudo ops included; empty for the saving option.
    std::vector<Compute> sequence{};
  };

  [[nodiscard]] bool stopped() const { return deadline_.reached(); }

  /// What the option keeps between the halves of what counts.
  [[nodiscard]] Bytes held(const GroupOption& option) const {
    return row_.interface == Interface::counted ? held_between(problem_, option) : option.saved;
  }

  /// Solves with at most so many bytes between the halves; what comes out may hold less.
  void try_limit(Bytes limit) {
    ++solves_;
    const Instance instance = with_budgets(problem_, row_.peak, limit, row_.interface);
    const std::vector<Compute> warm_start = best_within(limit);
    const std::vector<Compute> sequence =
        problem_.options ? solve_options(instance, warm_start) : solve_ops(instance, warm_start);
    if (sequence.empty()) return;
    // Measured with the interface counted, whatever it cost when the schedule was sought.
    Point point{.option = measure_option(problem_, unlimited_, sequence), .sequence = sequence};
    point.held = held(point.option);
    known_.push_back({point.held, limit});
    result_.options.push_back(point.option);
    insert(std::move(point));
  }

  [[nodiscard]] double seconds_of_solve() const { return limits_.seconds * kSolveShare; }

  std::vector<Compute> solve_ops(const Instance& instance, const std::vector<Compute>& warm_start) {
    SolveOptions inner = options_;
    inner.strategy = Strategy::automatic;
    inner.hierarchy = false;
    inner.threads = 1;
    inner.time_limit = seconds_of_solve();
    inner.work_limit = option_of(limits_.work);
    Search search(instance, inner, {input_order_crew}, ops_of(warm_start));
    search.sit({Deadline(inner.time_limit, limits_.cancel), limits_.work});
    result_.work += search.work();
    if (!search.holds_budget()) return {};
    return computes_of(search.incumbent().sequence(instance));
  }

  std::vector<Compute> solve_options(const Instance& instance, const std::vector<Compute>& warm_start) {
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
      return a.held <= b.held && a.option.duration() <= b.option.duration();
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
      const auto height = static_cast<double>((found_[i].option.duration() - found_[i + 1].option.duration()).count());
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
  /// All that was found: what another one beats in time and bytes may read less, or have lower peaks.
  RowResult result_;
  int solves_ = 0;
};

}  // namespace

GroupOption saving_option(const BlockProblem& problem) {
  const Instance instance = without_budgets(problem);
  return measure_option(problem, instance, computes_of(input_order(instance)));
}

std::vector<GridRow> grid_rows(const BlockProblem& problem, const GroupOption& saving) {
  const Bytes least = least_budget(without_budgets(problem));
  std::vector<GridRow> rows{{unlimited(problem)}};
  if (problem.block->has_halves()) rows.push_back({unlimited(problem), Interface::free});
  for (const double part : kPeakParts) {
    const auto way = static_cast<double>(std::max<std::int64_t>(0, (saving.peak - least).count()));
    rows.push_back({least + Bytes(static_cast<std::int64_t>(way * part))});
  }
  return rows;
}

RowResult solve_row(const BlockProblem& problem, const GridRow& row, const GroupOption& saving,
                    const SolveOptions& options, const RowLimits& limits) {
  return Row(problem, row, options, limits).run(saving);
}

}  // namespace remora
