// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

namespace remora::cli {

/// Turns the first SIGINT or SIGTERM into a flag and lets a second one kill; restores the former handlers at the end.
/// One at a time in a program, for signal handlers are the process's.
class SignalGuard {
 public:
  SignalGuard();
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;
  ~SignalGuard();

  /// True once a signal has come. The flag may be watched from any thread.
  [[nodiscard]] const std::atomic<bool>& flag() const;
};

}  // namespace remora::cli
