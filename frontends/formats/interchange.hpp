// SPDX-License-Identifier: Apache-2.0
//
// Tables of CSV: buffers as minimalloc reads them, and measured costs of ops.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/graph.hpp"
#include "model/placement.hpp"
#include "model/types.hpp"

namespace remora::interchange {

// Buffers and where they lie as CSV, as google/minimalloc (Moffitt 2023) reads and writes it (README.md and
// src/converter.cc there):
//
//     id,lower,upper,size,alignment,gaps,offset
//     a,0,9,4096,64,2-4 6-7,0
//
// Alive from `lower` up to but without `upper`, but for the gaps. The first four columns must be there, in any order;
// `begin` and `start` are other names of lower, `buffer` and `buffer_id` of id, and `end` is the last time of life: upper
// is one more, of gaps too. An offset that is not empty is where the buffer has to lie.

/// Other columns are left out. Throws InputError with the line: a column that is missing or there twice, a row with more or
/// fewer fields, what is no whole number, a gap that is not FROM-TO, or one with a window (FROM-TO@LOW:HIGH), in which a
/// part of the buffer stays alive; and as check_buffers does.
std::vector<Buffer> read_buffers(std::string_view text, const std::string& source);

/// The header, a buffer a line, names quoted by RFC 4180, lines that end in LF. (minimalloc's own reader knows no quotes:
/// it takes names without commas only.) Alignments and gaps have columns where there are any; without `offsets` there is no
/// such column, else one for each buffer.
void write_buffers(std::ostream& out, std::span<const Buffer> buffers, std::span<const Bytes> offsets = {});

// Measured costs of ops, as CSV (RFC 4180) with a header; other columns may follow, in any order:
//
//     name,device,duration,workspace,energy
//     conv1,cpu,120500,,                        empty: not measured, the graph's own figure stays
//     relu1_out,cpu,3000,4096,                  by the name of an op, or of what it writes
//
// Durations are in the graph's unit (nanoseconds for ONNX models), workspace in bytes. All rows are of one device.

struct OpCost {
  std::string name{};
  /// Where it is written, from 1.
  int line = 0;
  std::optional<Duration> duration{};
  std::optional<Bytes> workspace{};
  std::optional<std::int64_t> energy{};
};

struct CostTable {
  /// The file, for messages and the graph's meta.
  std::string source{};
  std::string device{};
  std::vector<OpCost> rows{};
};

/// Throws InputError with the line: no header with a name and a duration, a row with more or fewer fields, what is no
/// amount, rows of several devices, a name that is there twice.
CostTable read_costs(std::string_view text, const std::string& source);

/// Meaning of names: an op, or none for a part of the model without an op (a view, a constant).
using CostNames = std::unordered_map<std::string, OpId>;

/// The ops and what they write, by name; ops first.
CostNames cost_names(const Graph& graph);

/// How long a backward op takes for one unit of its forward op's time, where nothing was measured for it.
using BackwardRatio = std::function<double(OpId backward, OpId forward)>;

/// Puts the costs into the graph: durations and workspaces as measured, energy as a key of its own ("energy"). A backward
/// op without a duration of its own takes its forward op's measured one times the ratio. Everything else stays. Says in
/// one line how many ops have what. Throws InputError with the line for a name that stands for nothing, and for an op that
/// two rows mean. Expected O(ops + rows).
std::string apply_costs(Graph& graph, const CostTable& table, const CostNames& names, const BackwardRatio& ratio);

}  // namespace remora::interchange
