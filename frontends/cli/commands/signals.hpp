// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <csignal>

namespace remora::cli {

/// Turns the first SIGINT, SIGTERM or SIGHUP into a flag and lets a second one kill; a reader that goes away (SIGPIPE)
/// is an error of the write, not the end. Signals that the caller ignores stay ignored. Restores the former handlers at
/// the end. One at a time in a program, for signal handlers are the process's.
class SignalGuard {
 public:
  SignalGuard();
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;
  ~SignalGuard();

  /// True once a signal has come. The flag may be watched from any thread.
  [[nodiscard]] const std::atomic<bool>& flag() const;

 private:
  static constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP, SIGPIPE};
  std::array<struct sigaction, kSignals.size()> former_{};
};

}  // namespace remora::cli
