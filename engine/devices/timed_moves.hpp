// SPDX-License-Identifier: Apache-2.0
//
// Which steps can come next where steps run beside each other, and what is the case after them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "engine/devices/timed_state.hpp"

namespace remora::devices {

/// A step, and which releases were decided on for it.
struct TimedMove {
  DeviceStep step{};
  std::int64_t end = 0;
  /// Given up for it, dated back; taken over by it; and given up after it, since nobody can read it any more.
  Places released = 0;
  Places taken = 0;
  Places dropped = 0;

  friend bool operator==(const TimedMove&, const TimedMove&) = default;
};

/// All moves of a state, each with the state after it. Of releases for a step those sets without any of which it starts later, so that
/// it waits for memory or makes room. A run again of what is all there is left out. That loses no schedule for which another one is not
/// as good (timed_state.hpp). What a sequence of moves takes, its replay takes or less.
///
/// `enough` is asked now and then, with the number of sets of releases looked at so far (which may be exponential in what is resident); once it
/// says so, no more is visited. The number of these sets; nothing if it was enough.
std::optional<std::int64_t> for_each_move(const TimedInstance& of, const TimedState& state,
                                          const std::function<bool(std::int64_t)>& enough,
                                          const std::function<void(const TimedMove&, TimedState&&)>& visit);

}  // namespace remora::devices
