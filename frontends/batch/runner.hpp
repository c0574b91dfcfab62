// SPDX-License-Identifier: Apache-2.0
//
// One process's part of a batch: which tasks are its own, and how it solves them one after the other.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "frontends/batch/manifest.hpp"
#include "frontends/batch/question.hpp"
#include "frontends/batch/store.hpp"

namespace remora::batch {

// Which tasks of a manifest are this process's.
//
// Shard i of n takes every n-th task from the i-th on, so that neighbours in the manifest, which are often
// alike, go to different shards, and no shard has more than one task more than another:
//
//     tasks      a b c d e f g h
//     --shard 1/3  a     d     g
//     --shard 2/3    b     e     h
//     --shard 3/3      c     f
//
// Shards are numbered from 1 on the command line (as test runners do: Jest, Playwright, cargo-nextest), and from 0 in
// JOB_COMPLETION_INDEX. A Slurm array may begin and step as it likes.

struct Shard {
  /// From 0, less than `count`.
  std::size_t index = 0;
  std::size_t count = 1;
  /// Who said so: "--shard", "SLURM_ARRAY_TASK_ID"; empty where nobody did.
  std::string source{};

  [[nodiscard]] bool takes(std::size_t position) const { return position % count == index; }
  /// "3/8", from 1.
  [[nodiscard]] std::string text() const;
};

/// The value of an environment variable, or null.
using Environment = std::function<const char*(const char*)>;

/// `shard`: --shard, "i/n". `count`: --shard-count. What is said on the command line goes before the environment:
///
/// - SLURM_ARRAY_TASK_ID with _MIN, _STEP and _COUNT: the array must be a plain range;
/// - with `count`, SLURM_ARRAY_TASK_ID is the index itself, from 0: then one element of an array can be submitted again
///   by itself, which Slurm calls an array of one;
/// - JOB_COMPLETION_INDEX, from 0, with `count` or JOB_COMPLETIONS.
///
/// Nothing of these: one shard, which takes all. Throws InputError for what is no shard or not clear.
Shard find_shard(const std::optional<std::string>& shard, const std::optional<std::string>& count,
                 const Environment& environment);

// One process's part of a batch: its tasks, one after the other.

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
/// last. Where the disk is full, a result waits for room. Throws InputError where the store cannot be written otherwise,
/// or if it is cancelled while it waits.
RunSummary run_batch(const std::vector<Task>& tasks, const Store& store, Solver& solver, const RunnerOptions& options);

}  // namespace remora::batch
