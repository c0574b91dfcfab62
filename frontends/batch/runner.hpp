// SPDX-License-Identifier: Apache-2.0
//
// One process's part of a batch: its tasks, one after the other.
#pragma once

#include <atomic>
#include <cstddef>
#include <iosfwd>
#include <map>
#include <string>
#include <vector>

#include "frontends/batch/manifest.hpp"
#include "frontends/batch/shard.hpp"
#include "frontends/batch/solver.hpp"
#include "frontends/batch/store.hpp"

namespace remora::batch {

struct RunnerOptions {
  Shard shard{};
  /// True: the task in work is to be saved and no other begun. May be null.
  const std::atomic<bool>* cancel = nullptr;
  /// A line for each task. May be null.
  std::ostream* log = nullptr;
};

struct RunSummary {
  std::size_t tasks = 0;
  /// They had a result before.
  std::size_t skipped = 0;
  std::size_t errors = 0;
  /// Cancelled: there are tasks without a result or an error.
  bool interrupted = false;
  /// New results by status.
  std::map<std::string, std::size_t> solved{};
};

/// Solves those of `tasks`, the whole manifest's, that are the shard's and have no result. A task that cannot be solved
/// is filed as an error, which the next run tries again, and the rest goes on. What an earlier run was killed at comes
/// last. Throws InputError where the store cannot
/// be written.
RunSummary run_batch(const std::vector<Task>& tasks, const Store& store, Solver& solver, const RunnerOptions& options);

}  // namespace remora::batch
