// SPDX-License-Identifier: Apache-2.0
//
// Steps of solvers for a thread, counted instead of timed: the clock of a proof under a work limit, the same on every
// machine. The simplex method counts its iterations, HiGHS those and the cuts between its callbacks, each by the size
// of the program: as many nanoseconds as they took where the factors were measured (clp_program.cpp, highs.cpp).
#pragma once

#include <cstdint>

namespace remora {

/// Nanoseconds counted for the calling thread.
inline std::int64_t& counted_nanoseconds() {
  thread_local std::int64_t nanoseconds = 0;
  return nanoseconds;
}

/// Seconds counted for the calling thread.
inline double counted_seconds_of_thread() {
  return 1e-9 * static_cast<double>(counted_nanoseconds());
}

}  // namespace remora
