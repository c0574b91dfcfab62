// SPDX-License-Identifier: Apache-2.0
//
// Texts that several tests read, and how they look at errors.
#pragma once

#include <sstream>
#include <string>
#include <string_view>

#include "frontends/formats/json.hpp"
#include "model/error.hpp"

namespace remora::json {

/// The five-op graph of the tree-width paper's figure 1, as the format's document gives it.
inline constexpr std::string_view kFigure1 = R"({"format": "remora-graph", "version": 1, "name": "figure-1",
 "tensors": [{"name": "a", "size": 1}, {"name": "b", "size": 1}, {"name": "c", "size": 1},
             {"name": "d", "size": 1}, {"name": "e", "size": 1, "keep": true}],
 "ops": [{"name": "A", "duration": 1, "inputs": [], "outputs": ["a"]},
         {"name": "B", "duration": 1, "inputs": ["a"], "outputs": ["b"]},
         {"name": "C", "duration": 1, "inputs": ["a"], "outputs": ["c"]},
         {"name": "D", "duration": 1, "inputs": ["b", "c"], "outputs": ["d"]},
         {"name": "E", "duration": 1, "inputs": ["a", "d"], "outputs": ["e"]}]})";

/// Every key of the format, and unknown ones at every level.
inline constexpr std::string_view kEveryKey = R"({
  "format": "remora-graph", "version": 1, "name": "every key", "fixed_memory": 7,
  "tensors": [
    {"name": "x", "size": 5},
    {"name": "h", "size": 6, "keep": false, "shape": [2, 3]},
    {"name": "gh", "size": 8, "keep": true}
  ],
  "ops": [
    {"name": "f", "type": "Relu", "duration": 11, "workspace": 12, "inputs": ["x"], "outputs": ["h"],
     "recompute": "allowed", "max_computes": 3, "phase": "forward"},
    {"name": "g", "duration": 13, "inputs": ["h", "h"], "outputs": ["gh"], "recompute": "never", "phase": "backward",
     "backward_of": "f", "after": ["f"], "z_note": {"k": [1, 2.5, null]}, "a_note": "\u00e9"}
  ],
  "meta": {"source": "by hand", "duration_unit": "ns"},
  "later": {"than": "version 1"}
})";

inline std::string written(const Graph& graph) {
  std::ostringstream out;
  write_graph(out, graph);
  return out.str();
}

/// `text` with its first `from` replaced; an empty string, which no reader accepts, if `from` does not occur.
inline std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string result(text);
  const std::size_t position = result.find(from);
  return position == std::string::npos ? "" : result.replace(position, from.size(), to);
}

struct Fault {
  std::string place{};
  std::string what{};
};

/// The InputError that `action` throws; empty if it throws none.
template <class Action>
Fault fault_of(const Action& action) {
  try {
    action();
  } catch (const InputError& error) {
    return {error.place(), error.what()};
  }
  return {};
}

/// A change to a valid text, and the place and a part of the message that must come of it.
struct Malformed {
  std::string_view from;
  std::string_view to;
  std::string_view place;
  std::string_view fragment;
};

}  // namespace remora::json
