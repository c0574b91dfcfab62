// SPDX-License-Identifier: Apache-2.0
#include "engine/slices/choose.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "engine/bound/first_bound.hpp"
#include "engine/slices/region_growth.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/instance.hpp"

namespace remora {
namespace {

constexpr int kMostSlices = 256;
/// More slices, or another region, must bring the graph nearer to the budget by this part of the bytes in question.
constexpr std::int64_t kWorthOne = 100;
/// Ops of graphs looked at, for a unit of work.
constexpr std::int64_t kOpsOfWork = 1'000;

/// The distance from a budget: first what no schedule can help, then what a recomputation might.
struct Distance {
  Bytes bound{};
  Bytes peak{};

  [[nodiscard]] bool none() const { return bound == Bytes() && peak == Bytes(); }
};

Distance distance(const SlicingFigures& figures, Bytes budget) {
  return {std::max(Bytes(), figures.lower_bound - budget), std::max(Bytes(), figures.peak - budget)};
}

bool clearly_less(Bytes a, Bytes b) {
  return a < b && (b - a).count() >= b.count() / kWorthOne;
}

/// True if a is clearly nearer to the budget than b.
bool is_nearer(const SlicingFigures& a, const SlicingFigures& b, Bytes budget) {
  const Distance from_a = distance(a, budget);
  const Distance from_b = distance(b, budget);
  return clearly_less(from_a.bound, from_b.bound) ||
         (!clearly_less(from_b.bound, from_a.bound) && clearly_less(from_a.peak, from_b.peak));
}

/// Regions of one reach, one after the other.
class GreedyChoice {
 public:
  GreedyChoice(const Graph& graph, Bytes budget, const SliceRun& run, Allowance& allowance)
      : graph_(graph), budget_(budget), run_(run), allowance_(allowance), growth_(graph) {}

  Slicing run(int reach) {
    reach_ = reach;
    keep({.figures = *look({})});
    while (!allowance_.is_over() && !distance(best_.figures, budget_).none() && !graph_.ops.empty()) {
      std::optional<Look> better = improve(seed());
      if (!better) break;
      keep(std::move(*better));
    }
    return best_;
  }

 private:
  struct Look {
    std::vector<Region> regions{};
    SlicingFigures figures{};
  };

  /// The figures of the sliced graph; nothing where the slices would not be independent. What several reaches ask for
  /// is sliced once.
  std::optional<SlicingFigures> look(const std::vector<Region>& regions) {
    const auto known =
        std::ranges::find(looks_, regions, &std::pair<std::vector<Region>, std::optional<SlicingFigures>>::first);
    if (known != looks_.end()) return known->second;
    std::optional<SlicingFigures> figures;
    try {
      SlicedGraph sliced = slice(graph_, regions, run_);
      const Work work(1 + static_cast<std::int64_t>(sliced.ops.size()) / kOpsOfWork);
      figures = figures_of(std::move(sliced.graph));
      allowance_.spend(work);
    } catch (const InputError&) {
      allowance_.spend(Work(1));
    }
    looks_.emplace_back(regions, figures);
    return figures;
  }

  void keep(Look look) {
    best_ = {std::move(look.regions), {}, look.figures};
    best_.sliced = slice(graph_, best_.regions, run_);
  }

  /// An op of the original graph: the one that sets the bound or, if that is within the budget, that runs at the peak.
  [[nodiscard]] OpId seed() const {
    const Instance instance(std::make_shared<const Graph>(best_.sliced.graph), {});
    OpId largest(0);
    if (best_.figures.lower_bound > budget_) {
      for (const OpId v : instance.ops()) {
        if (instance.footprint(v) > instance.footprint(largest)) largest = v;
      }
    } else {
      const Evaluation evaluation = evaluate(instance, input_order(instance));
      largest = OpId(std::max(0, evaluation.peak_step));
    }
    return best_.sliced.ops[largest].op;
  }

  /// A region from the seed, which replaces the one that has it.
  std::optional<Look> improve(OpId seed) {
    std::vector<Region> others = best_.regions;
    std::erase_if(others, [&](const Region& region) { return contains(region, seed); });
    Table<OpId, bool> taken(graph_.ops.size(), false);
    for (const Region& region : others) {
      for (const RegionPart& part : region.parts) {
        for (const SlicedOp& sliced : part) taken[sliced.op] = true;
      }
    }
    std::optional<Look> best;
    for (const SlicedOp& start : starts(seed)) {
      number_slices(others, growth_.grow(start, Bytes(largest_tensor(graph_, seed).count() / reach_), taken), best);
    }
    return best;
  }

  static bool contains(const Region& region, OpId op) {
    return std::ranges::any_of(
        region.parts, [&](const RegionPart& part) { return std::ranges::find(part, op, &SlicedOp::op) != part.end(); });
  }

  [[nodiscard]] std::vector<SlicedOp> starts(OpId seed) const {
    std::vector<SlicedOp> result;
    for (std::size_t i = 0; i < graph_[seed].axes.size(); ++i) {
      if (graph_[seed].axes[i].extent > 1) result.push_back({seed, static_cast<int>(i)});
    }
    return result;
  }

  /// Doubles the number as long as that brings the graph nearer to the budget.
  void number_slices(const std::vector<Region>& others, const std::vector<RegionPart>& parts,
                     std::optional<Look>& best) {
    std::optional<SlicingFigures> before;
    for (int slices = 2; slices <= kMostSlices && !allowance_.is_over(); slices *= 2) {
      std::vector<Region> regions = others;
      regions.push_back({parts, slices});
      const std::optional<SlicingFigures> figures = look(regions);
      if (!figures || (before && !is_nearer(*figures, *before, budget_))) return;
      before = figures;
      const bool better =
          best ? is_better(*figures, best->figures, budget_) : is_nearer(*figures, best_.figures, budget_);
      if (better) best = {std::move(regions), *figures};
      if (distance(*before, budget_).none()) return;
    }
  }

  const Graph& graph_;
  Bytes budget_;
  SliceRun run_;
  Allowance& allowance_;
  RegionGrowth growth_;
  int reach_ = 1;
  std::vector<std::pair<std::vector<Region>, std::optional<SlicingFigures>>> looks_{};
  Slicing best_{};
};

}  // namespace

bool is_better(const SlicingFigures& a, const SlicingFigures& b, Bytes budget) {
  if (is_nearer(a, b, budget)) return true;
  return !is_nearer(b, a, budget) && a.duration < b.duration;
}

Bytes largest_tensor(const Graph& graph, OpId op) {
  Bytes size;
  for (const auto& list : {graph[op].inputs, graph[op].outputs}) {
    for (const TensorId t : list) size = std::max(size, graph[t].size);
  }
  return size;
}

SlicingFigures figures_of(Graph graph) {
  const Instance instance(std::make_shared<const Graph>(std::move(graph)), {});
  return {least_budget(instance), baseline_peak(instance), instance.baseline_duration()};
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

}  // namespace remora
