// SPDX-License-Identifier: Apache-2.0
//
// The way to the engine: a graph in, a schedule or a line of explanation out; buffers in, their offsets out. Nothing of MLIR is here, and no exception
// comes out, for MLIR knows none.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "frontends/mlir/options.hpp"
#include "model/graph.hpp"
#include "model/placement.hpp"
#include "model/schedule.hpp"

namespace remora::mlir_frontend {

struct Plan {
  /// Verified; with steps, unless `error` says why there are none.
  Schedule schedule{};
  /// The units in the order of the steps.
  Sequence sequence{};
  int recomputes = 0;
  /// True if the sequence is another than the input order.
  bool changes = false;
  /// "peak 4194304 -> 3145728 bytes (budget 3355443), work 1,000 flop -> ...": statistics before and after.
  std::string summary{};
  /// Why the function is left as it is, one line: a percentage of a peak that one op alone needs. There are no steps then.
  std::string nothing_to_gain{};
  /// One line; empty if all went well.
  std::string error{};
};

/// Error in the options, whatever the graph; empty if there is none. The budget may be empty here.
std::string check_options(const RematerializeOptions& options);

/// No schedule's op runs more often. The options must be right.
int most_computes(const RematerializeOptions& options);

/// Solves and verifies. The budget must not be empty. A schedule that is not found, proved impossible or not, is an
/// error, which names a budget that works where one is found in some seconds: a budget that is not held must be noticed.
/// `report_name`: what stands for NAME in the report's files, in parts: the names of what encloses the function, and
/// its own.
Plan make_plan(const Graph& graph, const RematerializeOptions& options,
               std::span<const std::string> report_name = {}) noexcept;

struct ArenaPlan {
  /// One for each buffer; none where `error` says why.
  std::vector<Bytes> offsets{};
  Bytes size{};
  /// No arena is smaller.
  Bytes bound{};
  /// One line; empty if all went well.
  std::string error{};
};

/// Offsets in the smallest arena that a fixed amount of work finds, the same ones every time. More than `most` bytes is an
/// error.
ArenaPlan plan_arena(std::span<const Buffer> buffers, Bytes most) noexcept;

/// Error in an alignment of allocations, for MLIR a power of two of at most 2^30; empty if there is none.
std::string alignment_fault(std::int64_t alignment);

}  // namespace remora::mlir_frontend
