// SPDX-License-Identifier: Apache-2.0
#include "model/curve.hpp"

#include <algorithm>
#include <cstdint>

namespace remora {
namespace {

/// whole / 0 counts as `otherwise`. The numerator comes as an exact difference.
double part(std::int64_t difference, std::int64_t whole, double otherwise) {
  return whole == 0 ? otherwise : static_cast<double>(difference) / static_cast<double>(whole);
}

}  // namespace

std::optional<std::size_t> Curve::smallest_feasible() const {
  const auto first =
      std::find_if(points.begin(), points.end(), [](const CurvePoint& point) { return point.has_schedule(); });
  if (first == points.end()) return std::nullopt;
  return static_cast<std::size_t>(first - points.begin());
}

double Curve::overhead(const CurvePoint& point) const {
  return point.has_schedule() ? part((point.duration - baseline_duration).count(), baseline_duration.count(), 0) : 0;
}

double Curve::least_overhead(const CurvePoint& point) const {
  return part((point.lower_bound - baseline_duration).count(), baseline_duration.count(), 0);
}

double Curve::part_of_baseline(Bytes budget) const {
  return part((budget - fixed_memory).count(), (baseline_peak_memory - fixed_memory).count(), 1);
}

std::optional<std::size_t> find_knee(const Curve& curve) {
  const auto first = curve.smallest_feasible();
  if (!first) return std::nullopt;
  const CurvePoint& low = curve.points[*first];
  const CurvePoint& high = curve.points.back();
  std::optional<std::size_t> knee;
  double most = 0;
  for (std::size_t i = *first; i < curve.points.size(); ++i) {
    const CurvePoint& point = curve.points[i];
    const double across = part((point.budget - low.budget).count(), (high.budget - low.budget).count(), 0);
    const double down = part((low.duration - point.duration).count(), (low.duration - high.duration).count(), 0);
    if (down - across > most) {
      most = down - across;
      knee = i;
    }
  }
  return knee;
}

}  // namespace remora
