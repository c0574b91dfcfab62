// SPDX-License-Identifier: Apache-2.0
#include "frontends/bench/figures.hpp"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "model/schedule.hpp"

namespace remora::bench {
namespace {

using report::Figure;
using report::Join;
using report::Panel;
using report::Series;

constexpr std::size_t kMostPanels = 12;
/// A time below the clock's use is shown as this, for a logarithmic axis has no 0.
constexpr double kLeastSeconds = 0.001;

std::vector<std::string> budgets_of(const Comparison& comparison) {
  std::vector<std::string> budgets;
  for (const Row& row : comparison.rows) {
    if (std::find(budgets.begin(), budgets.end(), row.budget) == budgets.end()) budgets.push_back(row.budget);
  }
  return budgets;
}

/// One point a row of the budget and contender that has a schedule.
template <class Point>
std::vector<Series> scatter(const Comparison& comparison, const std::string& budget, Point point) {
  std::vector<Series> list;
  for (std::size_t i = 0; i < comparison.contenders.size(); ++i) {
    Series series{.name = comparison.contenders[i]};
    for (const Row& row : comparison.rows) {
      if (row.budget == budget && row.cells[i].overhead) series.points.push_back(point(row, row.cells[i]));
    }
    list.push_back(std::move(series));
  }
  return list;
}

/// A panel for each budget.
template <class Point>
Figure by_budget(const Comparison& comparison, std::string title, const report::Axis& x, const report::Axis& y,
                 Point point) {
  Figure figure{.title = std::move(title), .columns = 2};
  for (const std::string& budget : budgets_of(comparison)) {
    if (figure.panels.size() == kMostPanels) {
      figure.title += ", the first " + std::to_string(kMostPanels) + " budgets";
      break;
    }
    figure.panels.push_back({"budget " + budget, x, y, scatter(comparison, budget, point)});
  }
  return figure;
}

double seconds_shown(double seconds) {
  return std::max(kLeastSeconds, seconds);
}

/// How many rows, in per cent, a contender solves within x per cent of the baseline above the best of the row.
Figure profile(const Comparison& comparison) {
  Panel panel{.title = "rows within x of the best",
              .x = {.label = "beyond the row's best, % of the baseline"},
              .y = {.label = "rows, %", .least = 0.0, .most = 100.0}};
  const auto rows = std::count_if(comparison.rows.begin(), comparison.rows.end(),
                                  [](const Row& row) { return row.best.has_value(); });
  double widest = 1;
  for (std::size_t i = 0; i < comparison.contenders.size(); ++i) {
    std::vector<double> excess;
    for (const Row& row : comparison.rows) {
      if (row.cells[i].overhead) excess.push_back(std::max(0.0, *row.cells[i].overhead - *row.best));
    }
    std::sort(excess.begin(), excess.end());
    Series series{comparison.contenders[i], Join::steps, {{0, 0}}};
    for (std::size_t k = 0; k < excess.size(); ++k) {
      series.points.emplace_back(excess[k], 100.0 * static_cast<double>(k + 1) / static_cast<double>(rows));
      widest = std::max(widest, excess[k]);
    }
    panel.series.push_back(std::move(series));
  }
  // Baselines may be far off; the comparison is near the best.
  panel.x.most = std::min(widest, 20.0);
  for (Series& series : panel.series) {
    std::erase_if(series.points, [&](const auto& point) { return point.first > *panel.x.most; });
    series.points.emplace_back(*panel.x.most, series.points.back().second);
  }
  return {.title = "Performance profile", .panels = {std::move(panel)}};
}

double percent_of(const std::string& budget) {
  return budget.ends_with('%') ? std::strtod(budget.c_str(), nullptr) : 0;
}

Figure over_budgets(const Comparison& comparison) {
  Figure figure{.title = "Overhead against budget", .columns = 3};
  std::vector<std::string> instances;
  for (const Row& row : comparison.rows) {
    if (std::find(instances.begin(), instances.end(), row.instance) == instances.end()) {
      instances.push_back(row.instance);
    }
  }
  if (instances.size() > kMostPanels) {
    figure.title += ", the first " + std::to_string(kMostPanels) + " of " + std::to_string(instances.size());
    instances.resize(kMostPanels);
  }
  for (const std::string& instance : instances) {
    Panel panel{
        .title = instance, .x = {.label = "budget, % of the peak", .most = 100.0}, .y = {.label = "overhead, %"}};
    for (std::size_t i = 0; i < comparison.contenders.size(); ++i) {
      Series series{.name = comparison.contenders[i], .join = Join::line};
      for (const Row& row : comparison.rows) {
        if (row.instance != instance || !row.cells[i].overhead || percent_of(row.budget) <= 0) continue;
        series.points.emplace_back(percent_of(row.budget), *row.cells[i].overhead);
        panel.x.least = std::min(panel.x.least.value_or(100), percent_of(row.budget) - 5);
      }
      std::sort(series.points.begin(), series.points.end());
      panel.series.push_back(std::move(series));
    }
    figure.panels.push_back(std::move(panel));
  }
  return figure;
}

/// Overhead over time, for the rows in which it took longest to settle.
Figure progress(const Comparison& comparison) {
  std::vector<std::pair<double, const Row*>> rows;
  for (const Row& row : comparison.rows) {
    double latest = 0;
    for (const Cell& cell : row.cells) latest = std::max(latest, cell.reached);
    if (row.best) rows.emplace_back(latest, &row);
  }
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  if (rows.size() > kMostPanels) rows.resize(kMostPanels);
  Figure figure{.title = "Overhead over time, where it took longest", .columns = 3};
  for (const auto& [latest, row] : rows) {
    Panel panel{.title = row->instance + ", budget " + row->budget,
                .x = {.label = "seconds", .logarithmic = true},
                .y = {.label = "overhead, %"}};
    // Whoever ends early has its schedule for the rest of the time.
    double end = 0;
    for (const Cell& cell : row->cells) {
      if (!cell.progress.empty()) end = std::max(end, cell.progress.back().first);
    }
    for (std::size_t i = 0; i < comparison.contenders.size(); ++i) {
      Series series{comparison.contenders[i], Join::steps, row->cells[i].progress};
      for (auto& [seconds, overhead] : series.points) seconds = seconds_shown(seconds);
      if (!series.points.empty()) series.points.emplace_back(end, series.points.back().second);
      panel.series.push_back(std::move(series));
    }
    figure.panels.push_back(std::move(panel));
  }
  return figure;
}

/// The contender's seconds of each phase against ops, over all rows of the budget: a series a phase, in their order.
std::vector<Series> phases(const Comparison& comparison, const std::string& budget, std::size_t contender) {
  std::vector<Series> list;
  for (const Row& row : comparison.rows) {
    if (row.budget != budget) continue;
    for (const auto& [statistic, seconds] : row.cells[contender].statistics) {
      const auto phase = phase_of(statistic);
      if (!phase) continue;
      const auto is_it = [&](const Series& series) { return series.name == *phase; };
      auto at = std::find_if(list.begin(), list.end(), is_it);
      if (at == list.end()) at = list.insert(at, {.name = *phase, .join = Join::line});
      at->points.emplace_back(static_cast<double>(row.ops), seconds_shown(seconds));
    }
  }
  for (Series& series : list) std::sort(series.points.begin(), series.points.end());
  return list;
}

/// A panel for each budget and contender that tells its phases; none if nobody does.
Figure phases_by_size(const Comparison& comparison) {
  Figure figure{.title = "Time of each phase against size", .columns = 2};
  for (const std::string& budget : budgets_of(comparison)) {
    for (std::size_t i = 0; i < comparison.contenders.size() && figure.panels.size() < kMostPanels; ++i) {
      std::vector<Series> series = phases(comparison, budget, i);
      if (series.empty()) continue;
      figure.panels.push_back({comparison.contenders[i] + ", budget " + budget,
                               {.label = "ops", .logarithmic = true},
                               {.label = "seconds", .logarithmic = true},
                               std::move(series)});
    }
  }
  return figure;
}

std::size_t sizes_of(const Comparison& comparison) {
  std::set<std::int64_t> sizes;
  for (const Row& row : comparison.rows) sizes.insert(row.ops);
  return sizes.size();
}

}  // namespace

std::vector<NamedFigure> figures(const Comparison& comparison) {
  const report::Axis seconds{.label = "seconds to the last improvement", .logarithmic = true};
  std::vector<NamedFigure> list;
  list.push_back({"progress", progress(comparison)});
  list.push_back({"overhead-time", by_budget(comparison, "Overhead against time to solution", seconds,
                                             {.label = "overhead, %"}, [](const Row&, const Cell& cell) {
                                               return std::pair(seconds_shown(cell.reached), *cell.overhead);
                                             })});
  list.push_back({"profile", profile(comparison)});
  if (budgets_of(comparison).size() > 1) list.push_back({"overhead-budget", over_budgets(comparison)});
  if (sizes_of(comparison) > 1) {
    list.push_back(
        {"time-size", by_budget(comparison, "Time to solution against size", {.label = "ops", .logarithmic = true},
                                seconds, [](const Row& row, const Cell& cell) {
                                  return std::pair(static_cast<double>(row.ops), seconds_shown(cell.reached));
                                })});
    Figure told = phases_by_size(comparison);
    if (!told.panels.empty()) list.push_back({"phases-size", std::move(told)});
  }
  return list;
}

}  // namespace remora::bench
