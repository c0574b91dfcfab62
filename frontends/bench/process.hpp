// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace remora::bench {

struct ProcessOptions {
  /// How many of the cores that this process may use the child is pinned to; 0 for all.
  int cores = 0;
  /// After so many seconds the child gets SIGTERM, and SIGKILL a little later.
  double patience = 0;
  /// Set: the child is killed at once. May be null.
  const std::atomic<bool>* cancel = nullptr;
};

struct ProcessOutcome {
  /// The exit code, or 128 and the signal that ended it.
  int code = -1;
  /// It outlived the patience.
  bool late = false;
  /// It was killed because of `cancel`.
  bool cancelled = false;
  double seconds = 0;
  /// Time on all cores, the system's included.
  double cpu_seconds = 0;
  /// The largest resident memory that was seen, of the program itself.
  std::int64_t peak_kibibytes = 0;
  /// The last line that it wrote to standard error, printable ASCII, cut where it is long; empty if none.
  std::string last_error{};
};

/// Runs the program (looked for in PATH if its name has no slash), with empty input and its output thrown away, in a
/// process group of its own, of which nothing is left afterwards. It does not outlive this process. Throws InputError
/// if it cannot be started.
ProcessOutcome run_process(const std::vector<std::string>& words, const ProcessOptions& options);

}  // namespace remora::bench
