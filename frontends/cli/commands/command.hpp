// SPDX-License-Identifier: Apache-2.0
//
// The commands of `remora`. Each takes the words after its name and returns the exit code; errors are exceptions that
// run_remora turns into one line and a code.
#pragma once

#include <array>
#include <atomic>
#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include "frontends/cli/reading/memory_limit.hpp"

namespace remora {
struct Request;
}

namespace remora::cli {
class Arguments;
using Words = std::vector<std::string>;

/// Exit codes of `remora`.
enum ExitCode : int {
  kSuccess = 0,
  kInfeasible = 20,  ///< proved: no schedule holds the budget
  kNoSchedule = 21,  ///< none found within the limits
  kUsage = 64,       ///< bad command line
  kBadInput = 65,    ///< a file or value that is wrong, or a schedule that is not valid
  kInternalError = 70,
  kIncomplete = 75  ///< a batch that is to be run again: interrupted, or with tasks that have no result (EX_TEMPFAIL)
};

int solve_command(const Words& words);
int sweep_command(const Words& words);
int verify_command(const Words& words);
int order_command(const Words& words);
int place_command(const Words& words);
int pipeline_command(const Words& words);
int fit_command(const Words& words);
int info_command(const Words& words);
int convert_command(const Words& words);
int generate_command(const Words& words);
int batch_command(const Words& words);
int merge_command(const Words& words);
int report_command(const Words& words);
int rewrite_command(const Words& words);

/// `remora sweep MODEL --batch-size DIM --budget B`: prints a line a size, writes the answer as JSON and the largest batch's
/// schedule; the exit code. Throws UsageError and InputError.
int find_batch_size(const Arguments& arguments, const Request& request);

/// The whole program: finds the command, runs it, and catches what it throws. Returns the exit code.
int run_remora(const Words& words);

/// Writes "out of memory" and ends the process at once, with exit code 70. Allocates nothing.
[[noreturn]] void end_out_of_memory() noexcept;

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

  /// From now on little memory (MemoryWatch) is a signal, too, of which a line on standard error tells.
  void watch_memory();

 private:
  static constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP, SIGPIPE};
  std::array<struct sigaction, kSignals.size()> former_{};
  std::optional<MemoryWatch> memory_{};
};

}  // namespace remora::cli
