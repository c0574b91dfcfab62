// SPDX-License-Identifier: Apache-2.0
//
// Which tasks of a manifest are this process's.
//
// Of n shards, number i takes every n-th task from the i-th on, so that neighbours in the manifest, which are often
// alike, go to different shards, and no shard has more than one task more than another:
//
//     tasks      a b c d e f g h
//     --shard 1/3  a     d     g
//     --shard 2/3    b     e     h
//     --shard 3/3      c     f
//
// Shards are numbered from 1 on the command line (as test runners do: Jest, Playwright, cargo-nextest), and from 0 in
// JOB_COMPLETION_INDEX. A Slurm array may begin and step as it likes.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace remora::batch {

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

}  // namespace remora::batch
