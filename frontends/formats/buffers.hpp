// SPDX-License-Identifier: Apache-2.0
//
// A schedule as buffers with lifespans, what a static allocator places at offsets: the CSV that google/minimalloc
// (Moffitt 2023) reads, `id,lower,upper,size` (README.md and src/converter.cc there).
//
//     steps   A      B      C, frees a   D, frees b c        id,lower,upper,size
//     a       |--------------|                               a#0,0,3,1           step i is [i, i + 1)
//     b              |---------------------|                 b#0,1,4,1
//     ...
//
// The steps are followed as they are written, by the rules of remora-schedule: a tensor's buffer begins with the step
// that computes it while it is not resident and ends with the step that releases it, or with the last step. So a
// schedule that releases late has longer buffers than the evaluator would give it. Graph inputs last from the first to
// the last step; an op's workspace is a buffer of one step; buffers of size 0 are left out, for they need no place; the
// fixed memory is no buffer, for it is never placed anew. Hence, of a schedule with steps,
//
//     peak_memory = fixed_memory + the largest sum of sizes over all buffers alive at one time.
//
// The k-th buffer of a tensor is TENSOR#k, the workspace of an op's k-th compute OP#k workspace, k from 0: no two are
// alike.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "model/graph.hpp"
#include "model/schedule.hpp"

namespace remora::interchange {

/// Memory that one value holds over the steps [first_step, end_step), which are one or more.
struct Buffer {
  std::string id{};
  std::int64_t first_step = 0;
  std::int64_t end_step = 0;
  /// More than 0.
  Bytes size{};

  friend bool operator==(const Buffer&, const Buffer&) = default;
};

/// The buffers by their first step, those of one step by their end. The schedule must be one that `verify` finds
/// valid for the graph. Throws InputError for a schedule without a solution. O(steps + their outputs and releases +
/// tensors), and sorting.
std::vector<Buffer> buffers_of(const Graph& graph, const Schedule& schedule);

/// The same as CSV: the header, a buffer a line, names quoted by RFC 4180, lines that end in LF. (minimalloc's own
/// reader knows no quotes: it takes names without commas only.)
void write_minimalloc(std::ostream& out, const Graph& graph, const Schedule& schedule);

}  // namespace remora::interchange
