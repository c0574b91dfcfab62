// SPDX-License-Identifier: Apache-2.0
//
// Options of both passes. Independent of MLIR and of Remora.
#pragma once

#include <cstdint>
#include <string>

namespace remora::mlir_frontend {

/// Alignment of the arena's offsets, in bytes: a cache line.
inline constexpr std::int64_t kDefaultAlignment = 64;

/// The options of `remora-rematerialize`. A wrong one fails the pipeline with an error at its start.
struct RematerializeOptions {
  /// Bytes ("12MiB") or a percentage of the peak ("80%"); empty where each function has its own.
  std::string budget{};
  /// "input", "free" or "auto".
  std::string order = "input";
  /// Seconds for each function.
  double time_limit = 10;
  /// Units of work for each function; 0 for no limit.
  std::int64_t work_limit = 0;
  std::int64_t seed = 1;
  /// For each function; 0 for one per core.
  int threads = 0;
  /// A number, or "auto": two, and more where they hold the budget or are shorter.
  std::string max_computes = "auto";
  /// True if the schedule's tensors must fit one arena within the budget, at multiples of `alignment` bytes; what lies
  /// elsewhere is the graph's fixed memory.
  bool arena = false;
  std::int64_t alignment = kDefaultAlignment;
  /// A folder for NAME.graph.json and NAME.schedule.json, or empty.
  std::string report{};
};

/// The options of `remora-arena`.
struct ArenaOptions {
  /// Alignment of offsets, in bytes: a power of two. A function's `remora.arena` overrides it.
  std::int64_t alignment = kDefaultAlignment;
  /// True if several returned buffers of one function lie in the arena, too; freeing one then frees all.
  bool share_results = false;
};

}  // namespace remora::mlir_frontend
