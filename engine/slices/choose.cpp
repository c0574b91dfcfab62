// SPDX-License-Identifier: Apache-2.0
#include "engine/slices/choose.hpp"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "engine/slices/region_growth.hpp"
#include "model/error.hpp"
#include "model/slice_more.hpp"
#include "model/table.hpp"

namespace remora {
namespace {

constexpr int kMostSlices = 256;
/// A region, or more slices of it, must save its seed this part of what is above the level.
constexpr int kWorthOfSeed = 100;
/// Each level keeps so many quarters of what the one before has above what no slices save.
constexpr int kQuartersOfLevel = 3;
/// Milder slicings for a budget have so many times fewer slices.
constexpr int kMilder = 2;
/// Levels below a budget.
constexpr int kSmaller = 4;
/// Ops of graphs that are rewritten and looked at, for a unit of work.
constexpr std::int64_t kOpsOfWork = 50;

/// Memory by op that is to be brought down.
using Column = Table<OpId, Bytes> OpNeeds::*;

/// The graph in slices, looked at.
struct State {
  std::vector<Region> regions{};
  std::shared_ptr<const SlicedGraph> sliced{};
  SlicedNeeds needs{};

  [[nodiscard]] const SlicingFigures& figures() const { return needs.figures; }
  [[nodiscard]] Slicing slicing() const { return {regions, sliced, figures()}; }
};

bool contains(const Region& region, OpId op) {
  return std::ranges::any_of(
      region.parts, [&](const RegionPart& part) { return std::ranges::find(part, op, &SlicedOp::op) != part.end(); });
}

OpId worst_of(const Table<OpId, Bytes>& needs) {
  return OpId(static_cast<std::size_t>(std::ranges::max_element(needs) - needs.begin()));
}

/// Memory above the level, of all ops.
Wide excess(const Table<OpId, Bytes>& needs, Bytes level) {
  Wide sum = 0;
  for (const Bytes need : needs) sum += std::max(Bytes(), need - level).count();
  return sum;
}

/// The fewest slices whose largest is as small as with so many.
int without_idle(int slices, std::int64_t extent) {
  return static_cast<int>(
      std::min<std::int64_t>(slices, quotient_up(extent, quotient_up<std::int64_t>(extent, slices))));
}

/// Regions of one reach, one after the other.
class GreedyChoice {
 public:
  GreedyChoice(const Graph& graph, Bytes budget, const SliceRun& run, Allowance& allowance)
      : graph_(graph),
        budget_(budget),
        run_(run),
        allowance_(allowance),
        unavoidable_(unavoidable_memory(graph)),
        floor_(std::max(budget, unavoidable_)),
        growth_(graph),
        whole_(*look({}, std::make_shared<const SlicedGraph>(slice(graph, std::span<const Region>(), run)))) {}

  Slicing run(int reach) {
    reach_ = reach;
    now_ = nearest_ = whole_;
    others_.clear();
    State alone = whole_;
    if (!graph_.ops.empty()) {
      bring_down(&OpNeeds::alone, floor_);
      alone = now_;
      if (now_.figures().lower_bound <= floor_ || budget_ == Bytes()) {
        bring_down(&OpNeeds::in_order, std::max(floor_, now_.figures().lower_bound));
      }
    }
    now_ = nearest_;
    use_fewer();
    Slicing result = now_.slicing();
    std::ranges::reverse(others_);
    if (budget_ > Bytes()) {
      find_milder();
      now_ = std::move(alone);
      if (!graph_.ops.empty()) find_smaller();
    }
    result.others = std::move(others_);
    return result;
  }

 private:
  std::optional<State> look(std::vector<Region> regions, std::shared_ptr<const SlicedGraph> sliced) {
    if (sliced == nullptr) return std::nullopt;
    SlicedNeeds needs = needs_of(graph_.ops.size(), *sliced);
    return State{std::move(regions), std::move(sliced), std::move(needs)};
  }

  /// One more region; null where its slices would not be independent.
  std::shared_ptr<const SlicedGraph> more(const SlicedGraph& made, const Region& region) {
    allowance_.spend(Work(1 + static_cast<std::int64_t>(made.ops.size()) / kOpsOfWork));
    try {
      return std::make_shared<const SlicedGraph>(slice_more(graph_, made, region, run_));
    } catch (const InputError&) {
      return nullptr;
    }
  }

  std::optional<State> with(const State& state, Region region) {
    auto sliced = more(*state.sliced, region);
    std::vector<Region> regions = state.regions;
    regions.push_back(std::move(region));
    return look(std::move(regions), std::move(sliced));
  }

  std::optional<State> of(std::vector<Region> regions) {
    auto sliced = whole_.sliced;
    for (const Region& region : regions) {
      if (sliced != nullptr) sliced = more(*sliced, region);
    }
    return look(std::move(regions), std::move(sliced));
  }

  void keep(State state) {
    now_ = std::move(state);
    if (is_nearer(now_.figures(), nearest_.figures(), floor_)) nearest_ = now_;
  }

  /// Brings what ops need down to the target, level by level, so that each region has no more slices than others can
  /// follow; for a budget in one step.
  void bring_down(Column column, Bytes target) {
    if (budget_ > Bytes()) return bring_to(column, target);
    while (!allowance_.is_over()) {
      const Bytes before = worst(column);
      if (before <= target) return;
      if (!nearest_.regions.empty()) others_.push_back(nearest_.slicing());
      bring_to(column, next_level(before, target));
      if (worst(column) >= before) return;
    }
  }

  static Bytes next_level(Bytes before, Bytes target) {
    return target + Bytes((before - target).count() / 4 * kQuartersOfLevel);
  }

  [[nodiscard]] Bytes worst(Column column) const {
    const Table<OpId, Bytes>& needs = now_.needs.needs.*column;
    return needs[worst_of(needs)];
  }

  /// A region for each op above the level, the largest first.
  void bring_to(Column column, Bytes level) {
    while (!allowance_.is_over()) {
      const Table<OpId, Bytes>& needs = now_.needs.needs.*column;
      const OpId seed = worst_of(needs);
      if (needs[seed] <= level) return;
      std::optional<Improvement> better = improve(seed, column, level);
      if (!better) return;
      keep(std::move(better->state));
    }
  }

  struct Improvement {
    State state{};
    Wide excess = 0;
  };

  /// A region from the seed and ops like it, which replaces the one that has the seed.
  std::optional<Improvement> improve(OpId seed, Column column, Bytes level) {
    const bool is_in = std::ranges::any_of(now_.regions, [&](const Region& region) { return contains(region, seed); });
    State others = now_;
    if (is_in) {
      std::erase_if(others.regions, [&](const Region& region) { return contains(region, seed); });
      std::optional<State> rest = of(others.regions);
      if (!rest) return std::nullopt;
      others = *std::move(rest);
    }
    const Wide now = excess(now_.needs.needs.*column, level);
    const Wide unit = std::max<Wide>(1, ((now_.needs.needs.*column)[seed] - level).count() / kWorthOfSeed);
    std::optional<Improvement> best;
    const std::vector<OpId> alike = alike_above(seed, others, column, level);
    for (std::size_t axis = 0; axis < graph_[seed].axes.size(); ++axis) {
      if (graph_[seed].axes[axis].extent <= 1) continue;
      const Aim aim{column, level, now - unit, unit};
      const bool is_legal = number_slices(others, starts(alike, axis), aim, best);
      if (!is_legal && alike.size() > 1) number_slices(others, starts({seed}, axis), aim, best);
    }
    return best;
  }

  struct Aim {
    Column column{};
    Bytes level{};
    /// At most so much may remain.
    Wide most = 0;
    /// Less is no difference.
    Wide unit = 0;
  };

  /// Doubles the number as long as that saves something; false if no number of slices is legal.
  bool number_slices(const State& others, const std::vector<SlicedOp>& starts, const Aim& aim,
                     std::optional<Improvement>& best) {
    const Bytes smallest(largest_tensor(graph_, starts.front().op).count() / reach_);
    const std::vector<RegionPart> parts = growth_.grow(starts, smallest, taken(others));
    const std::int64_t extent = shortest(parts);
    std::optional<Wide> before;
    int last = 1;
    for (int slices = 2; slices <= kMostSlices && !allowance_.is_over(); slices *= 2) {
      const int number = without_idle(slices, extent);
      if (number == last) return true;
      last = number;
      std::optional<State> state = with(others, {parts, number});
      if (!state) return before.has_value();
      const Wide left = excess(state->needs.needs.*aim.column, aim.level);
      if (before && left > *before - aim.unit) return true;
      before = left;
      const bool raises =
          aim.column != &OpNeeds::alone && state->figures().lower_bound > std::max(floor_, now_.figures().lower_bound);
      const bool is_enough = is_below(*state, aim);
      if (left <= aim.most && !raises && (!best || is_better(*state, left, *best, aim))) {
        best = {*std::move(state), left};
      }
      if (is_enough) return true;
    }
    return true;
  }

  /// True if no op of the last region is above the level.
  static bool is_below(const State& state, const Aim& aim) {
    for (const RegionPart& part : state.regions.back().parts) {
      for (const SlicedOp& sliced : part) {
        if ((state.needs.needs.*aim.column)[sliced.op] > aim.level) return false;
      }
    }
    return true;
  }

  [[nodiscard]] bool is_better(const State& state, Wide left, const Improvement& best, const Aim& aim) const {
    if (left <= best.excess - aim.unit) return true;
    if (left >= best.excess + aim.unit) return false;
    return remora::is_better(state.figures(), best.state.figures(), floor_);
  }

  /// The seed and ops like it above the level, such as those of equal layers, that are in no region.
  [[nodiscard]] std::vector<OpId> alike_above(OpId seed, const State& state, Column column, Bytes level) const {
    const Table<OpId, bool> is_taken = taken(state);
    std::vector<OpId> result = {seed};
    for (const OpId v : is_taken.ids()) {
      if (v == seed || is_taken[v] || (state.needs.needs.*column)[v] <= level) continue;
      if (are_alike(v, seed)) result.push_back(v);
    }
    return result;
  }

  [[nodiscard]] bool are_alike(OpId a, OpId b) const {
    const auto extent_is_same = [](const Axis& x, const Axis& y) { return x.extent == y.extent; };
    return whole_.needs.needs.alone[a] == whole_.needs.needs.alone[b] && graph_[a].duration == graph_[b].duration &&
           std::ranges::equal(graph_[a].axes, graph_[b].axes, extent_is_same);
  }

  static std::vector<SlicedOp> starts(const std::vector<OpId>& ops, std::size_t axis) {
    std::vector<SlicedOp> result;
    result.reserve(ops.size());
    for (const OpId v : ops) result.push_back({v, static_cast<int>(axis)});
    return result;
  }

  [[nodiscard]] Table<OpId, bool> taken(const State& state) const {
    Table<OpId, bool> result(graph_.ops.size(), false);
    for (const Region& region : state.regions) {
      for (const RegionPart& part : region.parts) {
        for (const SlicedOp& sliced : part) result[sliced.op] = true;
      }
    }
    return result;
  }

  [[nodiscard]] std::int64_t shortest(const std::vector<RegionPart>& parts) const {
    std::int64_t extent = kMaxAxisNumber;
    for (const RegionPart& part : parts) {
      for (const auto& [op, axis] : part) extent = std::min(extent, graph_[op].axes[at(axis)].extent);
    }
    return extent;
  }

  /// Leaves out slices, and regions, without which nothing needs more: others set the figures.
  void use_fewer() {
    const auto is_as_near = [&](const State& state) {
      return state.figures().lower_bound <= std::max(floor_, now_.figures().lower_bound) &&
             state.figures().peak <= std::max(floor_, now_.figures().peak);
    };
    for (std::size_t i = now_.regions.size(); i-- > 0;) {
      while (!allowance_.is_over()) {
        std::vector<Region> regions = now_.regions;
        const bool is_last = regions[i].slices <= 3;
        if (is_last) {
          regions.erase(regions.begin() + static_cast<std::ptrdiff_t>(i));
        } else {
          regions[i].slices = without_idle(regions[i].slices / 2, shortest(regions[i].parts));
        }
        std::optional<State> fewer = of(std::move(regions));
        if (!fewer || !is_as_near(*fewer)) break;
        now_ = *std::move(fewer);
        if (is_last) break;
      }
    }
  }

  /// Slicings with fewer slices each, as long as the bound is within the budget: a recomputation may cost less than
  /// more slices.
  void find_milder() {
    std::vector<Region> regions = now_.regions;
    while (!allowance_.is_over()) {
      bool has_fewer = false;
      for (Region& region : regions) {
        if (region.slices < 2 * kMilder) continue;
        region.slices = without_idle(region.slices / kMilder, shortest(region.parts));
        has_fewer = true;
      }
      std::optional<State> fewer;
      if (has_fewer) fewer = of(regions);
      if (!fewer || fewer->figures().lower_bound > std::max(floor_, now_.figures().lower_bound)) return;
      others_.push_back(fewer->slicing());
    }
  }

  /// Slicings in which no op needs as much of the budget: more is resident beside it that is recomputed otherwise.
  void find_smaller() {
    for (int i = 0; i < kSmaller && !allowance_.is_over(); ++i) {
      const Bytes before = worst(&OpNeeds::alone);
      bring_to(&OpNeeds::alone, next_level(before, unavoidable_));
      if (worst(&OpNeeds::alone) >= before) return;
      if (now_.figures().lower_bound <= floor_) others_.push_back(now_.slicing());
    }
  }

  const Graph& graph_;
  Bytes budget_;
  SliceRun run_;
  Allowance& allowance_;
  /// Memory that no slices save, and memory that is not worth a slice: that, or the budget.
  Bytes unavoidable_;
  Bytes floor_;
  RegionGrowth growth_;
  State whole_;
  int reach_ = 1;
  State now_{};
  /// The nearest to the budget so far.
  State nearest_{};
  std::vector<Slicing> others_{};
};

}  // namespace

Bytes largest_tensor(const Graph& graph, OpId op) {
  Bytes size;
  for (const auto& list : {graph[op].inputs, graph[op].outputs}) {
    for (const TensorId t : list) size = std::max(size, graph[t].size);
  }
  return size;
}

std::vector<Slicing> choose_slices(const Graph& graph, Bytes budget, const SliceRun& run, Allowance& allowance) {
  GreedyChoice choice(graph, budget, run, allowance);
  std::vector<Slicing> found;
  for (const int reach : kReaches) {
    Slicing slicing = choice.run(reach);
    const bool is_new = std::ranges::find(found, slicing.regions, &Slicing::regions) == found.end();
    if (is_new) found.push_back(std::move(slicing));
    if (allowance.is_over()) break;
  }
  if (found.size() > 1) std::erase_if(found, [](const Slicing& slicing) { return slicing.regions.empty(); });
  std::ranges::stable_sort(found, [&](const Slicing& a, const Slicing& b) {
    const Distance from_a = distance(a.figures, budget);
    const Distance from_b = distance(b.figures, budget);
    return std::tuple(from_a.bound, from_a.peak, a.figures.duration) <
           std::tuple(from_b.bound, from_b.peak, b.figures.duration);
  });
  return found;
}

std::vector<Slicing> all_of(std::vector<Slicing> found) {
  std::vector<Slicing> result;
  const auto add = [&](Slicing slicing) {
    const bool is_new = std::ranges::find(result, slicing.regions, &Slicing::regions) == result.end();
    if (is_new && !slicing.regions.empty()) result.push_back(std::move(slicing));
  };
  for (Slicing& slicing : found) {
    std::vector<Slicing> others = std::move(slicing.others);
    slicing.others.clear();
    add(std::move(slicing));
    for (Slicing& other : others) add(std::move(other));
  }
  return result;
}

}  // namespace remora
