// SPDX-License-Identifier: Apache-2.0
#include "model/schedule.hpp"

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

}  // namespace remora
