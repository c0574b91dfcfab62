// SPDX-License-Identifier: Apache-2.0
//
// The regions that a user names, and what regions save and cost.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/slices/choose.hpp"
#include "engine/slices/region_growth.hpp"
#include "model/error.hpp"
#include "model/quote.hpp"
#include "model/slice_more.hpp"

namespace remora {
namespace {

[[noreturn]] void reject(const std::string& what) {
  throw InputError::of_option("slices", what);
}

/// "0 (64 iterations), 1 (8 iterations, summed)".
std::string axes_text(const Op& op) {
  std::string text;
  for (std::size_t i = 0; i < op.axes.size(); ++i) {
    const Axis& axis = op.axes[i];
    text += (i > 0 ? ", " : "") + std::to_string(i) + " (" + std::to_string(axis.extent) +
            (axis.extent == 1 ? " iteration" : " iterations") + (axis.sums.empty() ? ")" : ", summed)");
  }
  return text;
}

class AskedRegions {
 public:
  AskedRegions(const Graph& graph, Bytes budget, const SliceRun& run)
      : graph_(graph),
        budget_(budget),
        run_(run),
        growth_(graph),
        taken_(graph.ops.size(), false),
        made_(std::make_shared<const SlicedGraph>(slice(graph, std::span<const Region>(), run))) {
    ops_.reserve(graph.ops.size());
    for (const OpId v : taken_.ids()) ops_.emplace(graph[v].name, v);
  }

  void add(const RegionRequest& asked) {
    const auto seed = ops_.find(asked.ops);
    if (seed != ops_.end()) {
      add_grown(asked, seed->second);
    } else {
      add_listed(asked);
    }
  }

  Slicing result() && {
    const SlicingFigures figures = figures_of(made_->graph);
    return {std::move(regions_), std::move(made_), figures};
  }

 private:
  struct Best {
    std::optional<Region> region{};
    std::shared_ptr<const SlicedGraph> sliced{};
    SlicingFigures figures{};
    /// Why a region was illegal.
    std::string fault{};
  };

  OpId resolve(std::string_view name) const {
    const auto found = ops_.find(name);
    if (found == ops_.end()) reject("the graph has no op " + quote(name));
    return found->second;
  }

  std::vector<int> axes_asked(const RegionRequest& asked, OpId op) const {
    const auto& axes = graph_[op].axes;
    const std::string name = quote(graph_[op].name);
    if (axes.empty()) reject("the op " + name + " has no axes, along which it could be cut");
    if (asked.axis) {
      if (*asked.axis >= static_cast<int>(axes.size()))
        reject("the op " + name + " has no axis " + std::to_string(*asked.axis) + "; it has " + axes_text(graph_[op]));
      if (axes[static_cast<std::size_t>(*asked.axis)].extent == 1)
        reject("axis " + std::to_string(*asked.axis) + " of the op " + name + " has one iteration");
      return {*asked.axis};
    }
    std::vector<int> all;
    for (std::size_t i = 0; i < axes.size(); ++i) {
      if (axes[i].extent > 1) all.push_back(static_cast<int>(i));
    }
    if (all.empty()) reject("the axes of the op " + name + " have one iteration each");
    return all;
  }

  void expect_free(OpId op) const {
    if (taken_[op]) reject("the op " + quote(graph_[op].name) + " is in two regions");
  }

  void add_grown(const RegionRequest& asked, OpId seed) {
    expect_free(seed);
    Best best;
    for (const int axis : axes_asked(asked, seed)) {
      for (const int reach : kReaches) {
        const Bytes smallest(largest_tensor(graph_, seed).count() / reach);
        look({growth_.grow({{{seed, axis}}}, smallest, taken_), asked.slices}, best);
      }
    }
    keep(asked, std::move(best));
  }

  void add_listed(const RegionRequest& asked) {
    std::vector<OpId> listed;
    std::string_view rest = asked.ops;
    while (!rest.empty()) {
      const std::string_view name = rest.substr(0, rest.find(','));
      rest.remove_prefix(std::min(rest.size(), name.size() + 1));
      const OpId op = resolve(name);
      expect_free(op);
      if (std::ranges::find(listed, op) != listed.end()) reject("the op " + quote(name) + " is listed twice");
      listed.push_back(op);
    }
    Table<OpId, bool> others(graph_.ops.size(), true);
    for (const OpId op : listed) others[op] = false;
    Best best;
    for (const int axis : axes_asked(asked, listed.front())) {
      std::vector<RegionPart> parts = growth_.grow({{{listed.front(), axis}}}, Bytes(), others);
      const std::optional<OpId> missing = missing_op(listed, parts);
      if (missing) {
        best.fault = quote(graph_[*missing].name) + " shares no tensor with the others that both cut alike";
      } else {
        look({std::move(parts), asked.slices}, best);
      }
    }
    keep(asked, std::move(best));
  }

  static std::optional<OpId> missing_op(const std::vector<OpId>& listed, const std::vector<RegionPart>& parts) {
    for (const OpId op : listed) {
      const bool is_in = std::ranges::any_of(
          parts, [&](const RegionPart& part) { return std::ranges::find(part, op, &SlicedOp::op) != part.end(); });
      if (!is_in) return op;
    }
    return std::nullopt;
  }

  /// Keeps the region if it is legal, and better than the one so far.
  void look(Region region, Best& best) const {
    try {
      auto sliced = std::make_shared<const SlicedGraph>(slice_more(graph_, *made_, region, run_));
      const SlicingFigures figures = figures_of(sliced->graph);
      if (best.region && !is_better(figures, best.figures, budget_)) return;
      best = {std::move(region), std::move(sliced), figures, std::move(best.fault)};
    } catch (const InputError& error) {
      best.fault = error.fault();
    }
  }

  void keep(const RegionRequest& asked, Best best) {
    if (!best.region) reject(quote(asked.ops) + " cannot be computed in slices: " + best.fault);
    for (const RegionPart& part : best.region->parts) {
      for (const SlicedOp& member : part) taken_[member.op] = true;
    }
    regions_.push_back(*std::move(best.region));
    made_ = std::move(best.sliced);
  }

  const Graph& graph_;
  Bytes budget_;
  SliceRun run_;
  RegionGrowth growth_;
  std::unordered_map<std::string_view, OpId> ops_;
  Table<OpId, bool> taken_;
  std::vector<Region> regions_;
  /// The graph in these regions.
  std::shared_ptr<const SlicedGraph> made_;
};

}  // namespace

Slicing slice_as_asked(const Graph& graph, std::span<const RegionRequest> asked, Bytes budget, const SliceRun& run) {
  AskedRegions regions(graph, budget, run);
  for (const RegionRequest& request : asked) regions.add(request);
  return std::move(regions).result();
}

RegionsWithEffects with_effects(const Graph& graph, const std::vector<Region>& regions, const SliceRun& run) {
  RegionsWithEffects result{.regions = named_regions(graph, regions)};
  SlicingFigures before = figures_of(graph);
  result.sliced = slice_each(graph, regions, run, [&](std::size_t i, const SlicedGraph& made) {
    const SlicingFigures after = figures_of(made.graph);
    NamedRegion& region = result.regions[i];
    region.saved_peak = before.peak - after.peak;
    region.saved_minimum = before.lower_bound - after.lower_bound;
    region.cost = after.duration - before.duration;
    before = after;
  });
  return result;
}

}  // namespace remora
