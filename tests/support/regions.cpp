// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>
#include <utility>

#include "tests/support/programs.hpp"

namespace remora::test {
namespace {

/// Reachability among ops and parts, by squaring a matrix.
class Reachability {
 public:
  Reachability(std::size_t count, const std::vector<std::pair<std::size_t, std::size_t>>& edges)
      : reaches_(count, std::vector<bool>(count, false)) {
    for (const auto& [from, to] : edges) reaches_[from][to] = true;
    for (std::size_t k = 0; k < count; ++k) {
      for (std::size_t i = 0; i < count; ++i) {
        for (std::size_t j = 0; j < count; ++j) {
          if (reaches_[i][k] && reaches_[k][j]) reaches_[i][j] = true;
        }
      }
    }
  }

  [[nodiscard]] bool has_cycle() const {
    for (std::size_t i = 0; i < reaches_.size(); ++i) {
      if (reaches_[i][i]) return true;
    }
    return false;
  }

 private:
  std::vector<std::vector<bool>> reaches_;
};

const Axis* axis_in(const Graph& graph, const RegionPart& part, OpId op) {
  const auto found = std::ranges::find(part, op, &SlicedOp::op);
  return found == part.end() ? nullptr : &graph[op].axes[at(found->axis)];
}

bool agree(const Axis& writer, const Axis& reader, TensorId t) {
  for (const Cut& written : writer.cuts) {
    for (const Cut& read : reader.cuts) {
      if (written.tensor != t || read.tensor != t) continue;
      return written.rows * written.stride.count() == read.rows * read.stride.count();
    }
  }
  return false;
}

/// Ops of one part in which no reader needs more than a slice.
bool is_independent_part(const Graph& graph, const RegionPart& part) {
  for (const SlicedOp& sliced : part) {
    for (const OpId earlier : graph[sliced.op].after) {
      if (axis_in(graph, part, earlier) != nullptr) return false;
    }
    for (const SlicedOp& writer : part) {
      for (const TensorId t : graph[writer.op].outputs) {
        const auto& inputs = graph[sliced.op].inputs;
        if (std::ranges::find(inputs, t) == inputs.end()) continue;
        if (!agree(*axis_in(graph, part, writer.op), *axis_in(graph, part, sliced.op), t)) return false;
      }
    }
  }
  return true;
}

struct Neighbor {
  OpId op{};
  int axis = 0;
};

/// Axes of ops that read or write a tensor of the op along its axis.
std::vector<Neighbor> agreeing_neighbors(const Graph& graph, const SlicedOp& sliced) {
  std::vector<Neighbor> result;
  const Axis& own = graph[sliced.op].axes[at(sliced.axis)];
  for (const OpId v : Ids<OpId>(graph.ops.size())) {
    if (v == sliced.op) continue;
    for (std::size_t i = 0; i < graph[v].axes.size(); ++i) {
      for (const Cut& cut : own.cuts) {
        if (agree(own, graph[v].axes[i], cut.tensor)) result.push_back({v, static_cast<int>(i)});
      }
    }
  }
  return result;
}

}  // namespace

bool is_independent(const Graph& graph, const Region& region) {
  const std::size_t parts = region.parts.size();
  const auto unit = [&](OpId op) {
    for (std::size_t p = 0; p < parts; ++p) {
      if (axis_in(graph, region.parts[p], op) != nullptr) return p;
    }
    return parts + op.index();
  };
  std::vector<std::pair<std::size_t, std::size_t>> edges;
  for (const OpId v : Ids<OpId>(graph.ops.size())) {
    for (const OpId w : Ids<OpId>(graph.ops.size())) {
      const bool reads = std::ranges::any_of(
          graph[w].outputs, [&](TensorId t) { return std::ranges::find(graph[v].inputs, t) != graph[v].inputs.end(); });
      const bool waits = std::ranges::find(graph[v].after, w) != graph[v].after.end();
      if ((reads || waits) && unit(v) != unit(w)) edges.emplace_back(unit(w), unit(v));
    }
  }
  return !Reachability(parts + graph.ops.size(), edges).has_cycle() &&
         std::ranges::all_of(region.parts, [&](const RegionPart& part) { return is_independent_part(graph, part); });
}

std::vector<Region> all_regions(const Graph& graph, int parts, int slices) {
  std::vector<Region> regions = {{.parts = std::vector<RegionPart>(at(parts)), .slices = slices}};
  for (const OpId v : Ids<OpId>(graph.ops.size())) {
    const std::vector<Region> without = regions;
    for (const Region& region : without) {
      for (int part = 0; part < parts; ++part) {
        for (std::size_t i = 0; i < graph[v].axes.size(); ++i) {
          regions.push_back(region);
          regions.back().parts[at(part)].push_back({v, static_cast<int>(i)});
        }
      }
    }
  }
  std::erase_if(regions, [](const Region& region) {
    return std::ranges::any_of(region.parts, [](const RegionPart& part) { return part.empty(); });
  });
  return regions;
}

Region random_region(std::mt19937& random, const Graph& graph, int slices) {
  const auto draw = [&](std::size_t count) { return random() % count; };
  const OpId seed(draw(graph.ops.size()));
  RegionPart ops = {{seed, static_cast<int>(draw(graph[seed].axes.size()))}};
  std::set<OpId> chosen = {seed};
  for (std::size_t i = 0; i < ops.size(); ++i) {
    for (const auto& [op, axis] : agreeing_neighbors(graph, ops[i])) {
      if (draw(4) == 0 || !chosen.insert(op).second) continue;
      ops.push_back({op, axis});
    }
  }
  std::ranges::sort(ops, {}, &SlicedOp::op);
  Region region{.parts = {ops}, .slices = slices};
  if (ops.size() > 1 && draw(2) == 0) {
    const auto half = static_cast<std::ptrdiff_t>(1 + draw(ops.size() - 1));
    region.parts = {RegionPart(ops.begin(), ops.begin() + half), RegionPart(ops.begin() + half, ops.end())};
  }
  return region;
}

}  // namespace remora::test
