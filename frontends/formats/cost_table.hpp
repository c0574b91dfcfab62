// SPDX-License-Identifier: Apache-2.0
//
// Measured costs of ops, as CSV (RFC 4180) with a header; other columns may follow, in any order:
//
//     name,device,duration,workspace,energy
//     conv1,cpu,120500,,                        empty: not measured, the graph's own figure stays
//     relu1_out,cpu,3000,4096,                  by the name of an op, or of what it writes
//
// Durations are in the graph's unit (nanoseconds for ONNX models), workspace in bytes. All rows are of one device.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/graph.hpp"
#include "model/types.hpp"

namespace remora::interchange {

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

/// What names stand for: an op, or none for something of the model that no op stands for (a view, a constant).
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
