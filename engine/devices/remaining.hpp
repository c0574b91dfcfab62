// SPDX-License-Identifier: Apache-2.0
//
// Lower bound on the cost of the rest of a schedule, memory ignored.
#pragma once

#include <cstdint>

#include "engine/devices/state.hpp"

namespace remora::devices {

/// Lower bound on the cost of the rest.
struct RemainingCost {
  /// In the objective's unit; kNoWay if it cannot be done.
  std::int64_t least = 0;
  /// By op: a device for each first run with which it is that; those that have run are without.
  Table<OpId, DeviceId> assignment{};
};

/// Every first run that is still to come on its cheapest device; and what has to be brought to a device where it is read, by
/// the cheaper of a copy and another run, once a producer and device. Where ops can run on two devices alone, of all assignments
/// the cheapest, by a minimum cut:
///
///     the cost of v on device 1 is cut between the source and v, that on device 0 between v and the sink; and if v
///     stays with the source (device 0) while a reader goes with the sink, the price of bringing its outputs there is cut, once
///
/// Exact integers. Memory only rules devices out, by `allowed`. The search looks at bounds below `enough` alone: where a
/// weaker one reaches that, it is returned.
RemainingCost remaining_cost(const Instance& instance, const State& state, const Allowed& allowed,
                             std::int64_t enough = kNoWay);

}  // namespace remora::devices
