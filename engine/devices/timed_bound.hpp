// SPDX-License-Identifier: Apache-2.0
//
// Bounds on everything that follows a state where steps run concurrently, memory ignored.
#pragma once

#include "engine/devices/timed_state.hpp"

namespace remora::devices {

struct TimedBound {
  /// When all can have ended at the earliest, and what it takes in energy; kNoWay where something cannot be done.
  std::int64_t duration = 0;
  std::int64_t energy = 0;
};

/// Two bounds of the duration.
///
///   path   when what is to be read can be there at the earliest: it is, or is copied, or is made (again)
///   lanes  runs that are certain to come (first runs, and runs again of what is nowhere and is read by one of these, or kept) do so one
///          after the other on each lane. Of those that start no earlier than h and are followed by t more at least, the lane
///          is not done before h + their durations + t (Carlier 1982)
TimedBound bound_after(const TimedInstance& of, const TimedState& state);

}  // namespace remora::devices
