// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace remora::cli {

/// What `remora` returns to the shell.
enum ExitCode : int {
  kSuccess = 0,
  kInfeasible = 20,  ///< proved: no schedule holds the budget
  kNoSchedule = 21,  ///< none found within the limits
  kUsage = 64,       ///< bad command line
  kBadInput = 65,    ///< a file or value that is wrong, or a schedule that is not valid
  kInternalError = 70,
  kIncomplete = 75  ///< a batch that is to be run again: interrupted, or with tasks that have no result (EX_TEMPFAIL)
};

}  // namespace remora::cli
