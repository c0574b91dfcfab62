// SPDX-License-Identifier: Apache-2.0
//
// CPU time of a thread, including other threads' work for it.
#pragma once

#include <ctime>

namespace remora {

/// Reading of a clock of CPU time; 0 if there is none.
inline double seconds_of_clock(clockid_t clock) {
  std::timespec now{};
  if (clock_gettime(clock, &now) != 0) return 0;
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// CPU seconds that other threads have used for the calling one.
inline double& lent_cpu_seconds() {
  thread_local double seconds = 0;
  return seconds;
}

/// CPU seconds that the calling thread has used, with those: what programs may take is counted in these.
inline double cpu_seconds_of_thread() {
  return seconds_of_clock(CLOCK_THREAD_CPUTIME_ID) + lent_cpu_seconds();
}

}  // namespace remora
