// SPDX-License-Identifier: Apache-2.0
//
// Solves where copies run beside computing, and lanes beside each other.
//
// Which schedules there are does not change: one that holds the budgets one thing at a time holds them overlapped (model/devices/
// device_schedule.hpp). Only what they take does. So there are three parts:
//
//   sequential  For weights of the streams (lanes and links), no schedule's weighted load is above all weights times its
//               duration: no stream works for longer. A sequential solve of the graph with durations times weights thus gives a bound, and
//               a plan that spends what the weights call cheap. (The Lagrangian dual of "the duration is no less than any load"; Held,
//               Karp 1971.) Streams with much load in the best plan weigh more in the next round. Equal weights come first: copies
//               in sequence.
//   overlapped  Local search over plans, by their replay: copies change places, and all that the sequential one does.
//   complete    Where devices have lanes, small problems are searched over states (state_search.hpp), before all else and then by turns.
//
// Beside that the critical path is a bound: when something can be on a device at the earliest; and each lane's load by itself.
#pragma once

#include <functional>
#include <memory>

#include "engine/devices/sliced_search.hpp"

namespace remora::devices {

/// `interrupted` ends what is done before the first turn.
std::unique_ptr<SlicedSearch> overlapped_search(const DeviceGraph& graph, const Problem& problem,
                                                const Options& options, const std::function<bool()>& interrupted,
                                                bool shares);

/// The best schedule without memory limits, as far as the bound's assignment is one.
void describe_overlapped_baseline(const DeviceGraph& graph, const Problem& problem,
                                  const std::function<bool()>& interrupted, DeviceSchedule& schedule);

}  // namespace remora::devices
