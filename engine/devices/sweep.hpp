// SPDX-License-Identifier: Apache-2.0
//
// Many budgets of one device: the curve of its memory against time, while the other devices keep the budgets that they have.
//
// Two rounds. The first goes from the largest budget down, so that each search starts from its neighbour's schedule with a little
// more to save, and takes half of the time; the second spends the rest on the budgets that are not settled. What one learns the
// others get: a schedule serves every larger budget, a bound holds for every smaller one, and below a budget that is proved
// infeasible all are.
#pragma once

#include <functional>
#include <vector>

#include "engine/devices/ask.hpp"
#include "engine/devices/sliced_search.hpp"

namespace remora::devices {

/// As sweep() of ask.hpp. `listener` is told of each budget once it was searched, and may be empty.
SweepResult sweep(const DeviceGraph& graph, const Problem& problem, DeviceId device, std::vector<Bytes> budgets,
                  const Options& options, const std::function<void(const SweepProgress&)>& listener);

}  // namespace remora::devices
