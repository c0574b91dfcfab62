// SPDX-License-Identifier: Apache-2.0
//
// The modes with which a device has its lowest peak. A device's peak depends on the modes of its own stages alone, so the devices that lack
// memory, and what each of them needs, are found one by one.
//
// Branch and bound: a node fixes the modes of the first variables, and its bound is the largest sum at one time if each other variable takes
// the mode that is smallest at that time (PipelineTiming::peak). With one variable per device, the common case, that is a look at each mode.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/allowance.hpp"
#include "engine/pipeline/timing.hpp"

namespace remora {

struct DeviceMinimum {
  /// No choice has a lower peak.
  std::int64_t bound = 0;
  /// Value of `rows`; equal to the bound if the search was finished.
  std::int64_t peak = 0;
  /// Modes of the device's variables, in their order.
  std::vector<std::size_t> rows{};
  /// Nodes.
  std::int64_t work = 0;
};

/// Ends with the first peak that is within `budget`, or with the minimum. O(variables * tasks * modes^2) for each choice that is tried.
DeviceMinimum minimum_of(const PipelineTiming& timing, std::size_t device, const ModesLeft& all, std::int64_t budget,
                         const Allowance& allowance);

}  // namespace remora
