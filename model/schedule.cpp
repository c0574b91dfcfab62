// SPDX-License-Identifier: Apache-2.0
#include "model/schedule.hpp"

#include <string_view>
#include <unordered_map>

#include "model/error.hpp"
#include "model/quote.hpp"

namespace remora {

// Both subtract as integers first: the difference is exact, so equal durations give exactly 0 and neighbouring ones a
// small number that is right in every digit.

double Schedule::overhead() const {
  if (!has_schedule() || baseline_duration.count() == 0) return 0;
  return static_cast<double>((duration - baseline_duration).count()) / static_cast<double>(baseline_duration.count());
}

double Schedule::least_overhead() const {
  if (baseline_duration.count() == 0) return 0;
  return static_cast<double>((lower_bound - baseline_duration).count()) /
         static_cast<double>(baseline_duration.count());
}

double Schedule::gap() const {
  if (!has_schedule()) return 1;
  if (duration.count() == 0) return 0;
  return static_cast<double>((duration - lower_bound).count()) / static_cast<double>(duration.count());
}

Sequence ops_of(const Schedule& schedule) {
  Sequence ops;
  ops.reserve(schedule.steps.size());
  for (const Step& step : schedule.steps) ops.push_back(step.op);
  return ops;
}

std::vector<Compute> computes_of(const Schedule& schedule) {
  std::vector<Compute> computes;
  computes.reserve(schedule.steps.size());
  for (const Step& step : schedule.steps) computes.push_back({step.op, step.mode});
  return computes;
}

std::vector<NamedRegion> named_regions(const Graph& graph, const std::vector<Region>& regions) {
  std::vector<NamedRegion> named;
  for (const Region& region : regions) {
    NamedRegion& to = named.emplace_back();
    to.slices = region.slices;
    for (const RegionPart& part : region.parts) {
      auto& members = to.parts.emplace_back();
      for (const SlicedOp& member : part) members.push_back({graph[member.op].name, member.axis});
    }
  }
  return named;
}

std::vector<Region> regions_of(const Graph& graph, const std::vector<NamedRegion>& named) {
  std::unordered_map<std::string_view, OpId> ops;
  ops.reserve(graph.ops.size());
  for (const OpId v : Ids<OpId>(graph.ops.size())) ops.emplace(graph[v].name, v);
  std::vector<Region> regions;
  for (std::size_t r = 0; r < named.size(); ++r) {
    Region& to = regions.emplace_back();
    to.slices = named[r].slices;
    for (std::size_t p = 0; p < named[r].parts.size(); ++p) {
      RegionPart& part = to.parts.emplace_back();
      const auto& members = named[r].parts[p];
      for (std::size_t i = 0; i < members.size(); ++i) {
        const auto found = ops.find(members[i].op);
        if (found == ops.end()) {
          throw InputError(
              "regions[" + std::to_string(r) + "].parts[" + std::to_string(p) + "][" + std::to_string(i) + "]",
              "the graph has no op " + quote(members[i].op), InputError::Place::name);
        }
        part.push_back({found->second, members[i].axis});
      }
    }
  }
  return regions;
}

}  // namespace remora
