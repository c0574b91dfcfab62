// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "engine/curve/sweep_types.hpp"
#include "model/curve.hpp"
#include "model/instance.hpp"
#include "model/schedule.hpp"

namespace remora {

/// One budget's outcome.
struct Outcome {
  CurvePoint point{};
  Schedule schedule{};
};

/// What a smaller budget permits a larger one takes over, and what is proved for a larger one holds for the smaller.
/// Outcomes ascend by budget.
void make_monotone(std::vector<Outcome>& outcomes);

/// The outcomes, by budget ascending, made monotone, as a curve. `least_budget`: proved by other means.
SweepResult assemble_curve(const Instance& instance, std::vector<Outcome> outcomes, Bytes least_budget);

}  // namespace remora
