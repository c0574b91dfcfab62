// SPDX-License-Identifier: Apache-2.0
#include "engine/slices/region_growth.hpp"

#include <algorithm>

namespace remora {
namespace {

/// The part that is being built: ops in topological order join it as long as no op outside comes in between.
class GrowingPart {
 public:
  explicit GrowingPart(const Graph& graph)
      : graph_(graph), is_in_(graph.ops.size(), 0), is_behind_(graph.ops.size(), 0) {}

  void begin() { ++number_; }

  /// True if it joins; the axis of each op of the part is in `axes`.
  bool join(OpId v, const Table<OpId, int>& axes, const Table<TensorId, OpId>& producers) {
    for (const OpId earlier : graph_[v].after) {
      if (contains(earlier) || is_behind(earlier)) return false;
    }
    for (const TensorId t : graph_[v].inputs) {
      const OpId writer = producers[t];
      if (!writer.valid()) continue;
      if (is_behind(writer)) return false;
      if (!contains(writer)) continue;
      const Cut* written = cut_of(graph_[writer].axes[at(axes[writer])], t);
      const Cut* read = cut_of(graph_[v].axes[at(axes[v])], t);
      if (written == nullptr || read == nullptr || written->block() != read->block()) return false;
    }
    is_in_[v] = number_;
    return true;
  }

  /// An op that is not in the part.
  void pass(OpId v, const Table<TensorId, OpId>& producers) {
    const auto depends = [&](OpId on) { return on.valid() && (contains(on) || is_behind(on)); };
    const Op& op = graph_[v];
    if (std::ranges::any_of(op.inputs, [&](TensorId t) { return depends(producers[t]); }) ||
        std::ranges::any_of(op.after, depends)) {
      is_behind_[v] = number_;
    }
  }

 private:
  [[nodiscard]] bool contains(OpId op) const { return is_in_[op] == number_; }
  [[nodiscard]] bool is_behind(OpId op) const { return is_behind_[op] == number_; }

  const Graph& graph_;
  int number_ = 0;
  /// The number of the part that an op is in, and of the last one that it depends on from outside.
  Table<OpId, int> is_in_;
  Table<OpId, int> is_behind_;
};

}  // namespace

RegionGrowth::RegionGrowth(const Graph& graph)
    : graph_(graph), producers_(producers_of(graph)), readers_(readers_of(graph)) {}

std::vector<RegionPart> RegionGrowth::grow(std::span<const SlicedOp> seeds, Bytes smallest,
                                           const Table<OpId, bool>& taken) const {
  Table<OpId, int> axes(graph_.ops.size(), -1);
  std::vector<OpId> chosen;
  for (const auto& [op, axis] : seeds) {
    axes[op] = axis;
    chosen.push_back(op);
  }
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    for (const Cut& cut : graph_[chosen[i]].axes[at(axes[chosen[i]])].cuts) {
      if (graph_[cut.tensor].size < smallest) continue;
      const auto look = [&](OpId neighbor) {
        if (!neighbor.valid() || axes[neighbor] >= 0 || taken[neighbor]) return;
        axes[neighbor] = agreeing_axis(neighbor, cut);
        if (axes[neighbor] >= 0) chosen.push_back(neighbor);
      };
      look(producers_[cut.tensor]);
      for (const OpId reader : readers_[cut.tensor]) look(reader);
    }
  }
  return parts_of(axes);
}

int RegionGrowth::agreeing_axis(OpId op, const Cut& cut) const {
  int best = -1;
  const auto& axes = graph_[op].axes;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const Cut* own = cut_of(axes[i], cut.tensor);
    if (own == nullptr || own->block() != cut.block()) continue;
    if (best < 0 || axes[i].extent > axes[at(best)].extent) best = static_cast<int>(i);
  }
  return best;
}

std::vector<RegionPart> RegionGrowth::parts_of(const Table<OpId, int>& axes) const {
  std::vector<RegionPart> parts;
  GrowingPart part(graph_);
  for (const OpId v : axes.ids()) {
    if (axes[v] < 0) {
      part.pass(v, producers_);
      continue;
    }
    if (parts.empty() || !part.join(v, axes, producers_)) {
      part.begin();
      parts.emplace_back();
      part.join(v, axes, producers_);
    }
    parts.back().push_back({v, axes[v]});
  }
  return parts;
}

}  // namespace remora
