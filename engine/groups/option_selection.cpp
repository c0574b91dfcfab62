// SPDX-License-Identifier: Apache-2.0
#include "engine/groups/option_selection.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace remora {
namespace {

/// Whether a is nowhere worse than b, peaks compared as if nothing were freed inside.
bool beats(const GroupOption& a, const GroupOption& b) {
  const auto no_more = [](const auto& x, const auto& y) { return !(y < x); };
  if (!no_more(a.duration(), b.duration()) || !no_more(a.saved, b.saved) || a.computes > b.computes) return false;
  if (!no_more(a.forward_cost.workspace() + a.saved, b.forward_cost.workspace() + b.saved)) return false;
  if (!no_more(a.backward_cost.workspace() + a.saved, b.backward_cost.workspace() + b.saved)) return false;
  for (std::size_t i = 0; i < a.reads.size(); ++i) {
    if (a.reads[i] && !b.reads[i]) return false;
  }
  return true;
}

/// The options, by growing duration, that have the least duration + price x saved for some price.
std::vector<bool> lower_hull(const std::vector<GroupOption>& options) {
  std::vector<std::size_t> hull;
  const auto time = [&](std::size_t i) { return static_cast<double>(options[i].duration().count()); };
  const auto saved = [&](std::size_t i) { return static_cast<double>(options[i].saved.count()); };
  for (std::size_t i = 0; i < options.size(); ++i) {
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
  std::vector<bool> chosen(options.size(), false);
  for (const std::size_t i : hull) chosen[i] = true;
  return chosen;
}

/// Those that no other beats, by growing duration.
std::vector<GroupOption> pareto_set(std::vector<GroupOption> options) {
  std::stable_sort(options.begin(), options.end(), [](const GroupOption& a, const GroupOption& b) {
    return a.duration() != b.duration() ? a.duration() < b.duration() : a.saved < b.saved;
  });
  std::vector<GroupOption> pareto;
  for (GroupOption& option : options) {
    const bool beaten =
        std::any_of(pareto.begin(), pareto.end(), [&](const GroupOption& other) { return beats(other, option); });
    if (beaten) continue;
    std::erase_if(pareto, [&](const GroupOption& other) { return beats(option, other); });
    pareto.push_back(std::move(option));
  }
  return pareto;
}

/// Chooses of the candidates the one that saves most differently from all chosen, until there are `most`.
void choose_farthest(const std::vector<GroupOption>& options, const std::vector<bool>& candidates, std::size_t most,
                     std::vector<bool>& chosen) {
  const auto saved = [&](std::size_t i) { return static_cast<double>(options[i].saved.count()); };
  for (auto count = static_cast<std::size_t>(std::count(chosen.begin(), chosen.end(), true)); count < most; ++count) {
    double farthest = -1;
    std::size_t next = options.size();
    for (std::size_t i = 0; i < options.size(); ++i) {
      if (chosen[i] || !candidates[i]) continue;
      double nearest = std::numeric_limits<double>::max();
      for (std::size_t j = 0; j < options.size(); ++j) {
        if (chosen[j]) nearest = std::min(nearest, std::abs(saved(i) - saved(j)));
      }
      if (nearest <= farthest) continue;
      farthest = nearest;
      next = i;
    }
    if (next == options.size()) return;
    chosen[next] = true;
  }
}

}  // namespace

std::vector<GroupOption> select_options(std::vector<GroupOption> options, std::size_t most) {
  std::vector<GroupOption> pareto = pareto_set(std::move(options));
  if (pareto.size() <= most) return pareto;
  std::vector<bool> chosen(pareto.size(), false);
  chosen[0] = true;
  choose_farthest(pareto, lower_hull(pareto), most, chosen);
  choose_farthest(pareto, std::vector<bool>(pareto.size(), true), most, chosen);
  std::vector<GroupOption> result;
  result.reserve(most);
  for (std::size_t i = 0; i < pareto.size(); ++i) {
    if (chosen[i]) result.push_back(std::move(pareto[i]));
  }
  return result;
}

}  // namespace remora
