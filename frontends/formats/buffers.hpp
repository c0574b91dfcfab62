// SPDX-License-Identifier: Apache-2.0
//
// Buffers and where they lie as CSV, as google/minimalloc (Moffitt 2023) reads and writes it (README.md and
// src/converter.cc there):
//
//     id,lower,upper,size,alignment,gaps,offset
//     a,0,9,4096,64,2-4 6-7,0
//
// Alive from `lower` up to but without `upper`, but for the gaps. The first four columns must be there, in any order;
// `begin` and `start` are other names of lower, `buffer` and `buffer_id` of id, and `end` is the last time of life: upper
// is one more, of gaps too. An offset that is not empty is where the buffer has to lie.
#pragma once

#include <iosfwd>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/graph.hpp"
#include "model/placement.hpp"
#include "model/schedule.hpp"

namespace remora::interchange {

/// Other columns are left out. Throws InputError with the line: a column that is missing or there twice, a row with more or
/// fewer fields, what is no whole number, a gap that is not FROM-TO, or one with a window (FROM-TO@LOW:HIGH), in which a
/// part of the buffer stays alive; and as check_buffers does.
std::vector<Buffer> read_buffers(std::string_view text, const std::string& source);

/// The header, a buffer a line, names quoted by RFC 4180, lines that end in LF. (minimalloc's own reader knows no quotes:
/// it takes names without commas only.) Alignments and gaps have columns where there are any; without `offsets` there is no
/// such column, else one for each buffer.
void write_buffers(std::ostream& out, std::span<const Buffer> buffers, std::span<const Bytes> offsets = {});

/// The buffers of a schedule (model/schedule_buffers.hpp). Throws InputError for a schedule without a solution.
void write_minimalloc(std::ostream& out, const Graph& graph, const Schedule& schedule);

}  // namespace remora::interchange
