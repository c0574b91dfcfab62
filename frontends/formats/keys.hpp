// SPDX-License-Identifier: Apache-2.0
//
// The words of remora-graph, remora-schedule and remora-curve.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/formats/document.hpp"
#include "frontends/formats/json_text.hpp"
#include "model/graph.hpp"
#include "model/quote.hpp"
#include "model/schedule.hpp"

namespace remora::json {

/// The latest version of remora-graph.
inline constexpr std::int64_t kLatestGraph = 4;

// The keys of remora-graph that a file of a version knows. Every other key is unknown, and kept.

/// Those of several devices in a graph of version 2.
inline constexpr std::array<std::string_view, 2> kDeviceGraphKeys = {"devices", "links"};
inline constexpr std::array<std::string_view, 2> kDeviceTensorKeys = {"copy", "home"};
inline constexpr std::array<std::string_view, 1> kDeviceOpKeys = {"on"};

/// Those of an op with modes.
inline constexpr std::array<std::string_view, 6> kModeKeys = {"modes",    "follows", "unread",
                                                              "computes", "inner",   "most_computes"};

inline std::span<const std::string_view> graph_keys(std::int64_t version) {
  static constexpr std::array<std::string_view, 10> kKeys = {
      "format", "version", "name", "fixed_memory", "tensors", "ops", "meta", "recompute_allocates", "devices", "links"};
  return std::span(kKeys).first(version == 1 ? 7 : 10);
}
inline std::span<const std::string_view> tensor_keys(std::int64_t version) {
  static constexpr std::array<std::string_view, 5> kKeys = {"name", "size", "keep", "copy", "home"};
  return std::span(kKeys).first(version == 1 ? 3 : 5);
}
inline std::span<const std::string_view> op_keys(std::int64_t version, bool has_devices) {
  // Those of version 4 are the first, so that each version has a stretch of them.
  static constexpr std::array<std::string_view, 22> kKeys = {
      "modes",       "follows",  "unread",    "computes", "inner",   "most_computes", "axes",         "name",
      "type",        "duration", "workspace", "inputs",   "outputs", "recompute",     "max_computes", "phase",
      "backward_of", "after",    "in_place",  "on",       "energy",  "lane"};
  const std::size_t end = version == 1 ? 18 : !has_devices ? 20 : version == 2 ? 21 : 22;
  const std::size_t begin = version < 4 ? 7 : 0;
  return std::span(kKeys).subspan(begin, end - begin);
}

template <class Value>
struct Word {
  Value value;
  std::string_view text;
};

inline constexpr std::array<Word<Status>, 4> kStatusWords = {{
    {Status::optimal, "optimal"},
    {Status::feasible, "feasible"},
    {Status::infeasible, "infeasible"},
    {Status::unknown, "unknown"},
}};

inline constexpr std::array<Word<OrderMode>, 2> kOrderWords = {{
    {OrderMode::input, "input"},
    {OrderMode::free, "free"},
}};

inline constexpr std::array<Word<Allocation>, 2> kAllocationWords = {{
    {Allocation::missing, "missing"},
    {Allocation::all, "all"},
}};

/// Phase::none is the absence of the key.
inline constexpr std::array<Word<Phase>, 3> kPhaseWords = {{
    {Phase::forward, "forward"},
    {Phase::loss, "loss"},
    {Phase::backward, "backward"},
}};

inline constexpr std::array<Word<Stop>, 9> kStopWords = {{
    {Stop::optimum, "optimum"},
    {Stop::infeasible, "infeasible"},
    {Stop::gap, "gap"},
    {Stop::stall, "stall"},
    {Stop::time, "time"},
    {Stop::work, "work"},
    {Stop::cancelled, "cancelled"},
    {Stop::callback, "callback"},
    {Stop::exhausted, "exhausted"},
}};

template <class Value, std::size_t count>
std::string_view word_of(Value value, const std::array<Word<Value>, count>& words) {
  return std::find_if(words.begin(), words.end(), [&](const Word<Value>& word) { return word.value == value; })->text;
}

/// Throws InputError for a text that is not one of the words.
template <class Value, std::size_t count>
Value read_word(const Node& node, const std::array<Word<Value>, count>& words) {
  const std::string& text = node.string();
  for (const Word<Value>& word : words) {
    if (word.text == text) return word.value;
  }
  node.fail("must be one of " + list_text(words, [](const Word<Value>& word) { return quote(word.text); }) + ", not " +
            quote(text));
}

/// How the key of a time ends.
inline constexpr std::string_view kSecondsEnd = "_seconds";

/// The key of a figure of a run: "levels", or "compose_seconds" of a time.
inline std::string statistic_key(const Statistic& statistic) {
  return statistic.unit == Statistic::Unit::seconds ? statistic.name + std::string(kSecondsEnd) : statistic.name;
}

inline Statistic statistic_of(std::string_view key, double value) {
  if (!key.ends_with(kSecondsEnd)) return {.name = std::string(key), .value = value};
  key.remove_suffix(kSecondsEnd.size());
  return {.name = std::string(key), .value = value, .unit = Statistic::Unit::seconds};
}

inline constexpr std::string_view kOptimalFor = "optimal_for_max_computes";
inline constexpr std::string_view kBoundForAny = "bound_for_any_number";

/// The number, null for any; absent where nothing is said.
inline void write_optimal_for(ObjectText& solver, const SolverReport& report) {
  if (report.optimal_for_max_computes == kAnyNumber) {
    solver.null(kOptimalFor);
  } else if (report.optimal_for_max_computes > 0) {
    solver.integer(kOptimalFor, report.optimal_for_max_computes);
  }
  if (report.bound_for_any_number) solver.boolean(kBoundForAny, true);
}

inline void read_optimal_for(const Node& solver, SolverReport& report) {
  report.bound_for_any_number = solver.has(kBoundForAny) && solver.at(kBoundForAny).boolean();
  if (!solver.has(kOptimalFor)) return;
  const Node number = solver.at(kOptimalFor);
  report.optimal_for_max_computes =
      number.value().is_null() ? kAnyNumber : static_cast<int>(number.integer(0, std::numeric_limits<int>::max()));
}

/// The words of the command line by which the graph was read.
inline std::vector<std::string> reading_of(const Node& root) {
  return strings(root, "reading");
}

/// "optimal", ...
inline std::string status_word(Status status) {
  return std::string(word_of(status, kStatusWords));
}

/// "optimum", ..., or "" where it is unknown.
inline std::string stop_word(Stop stop) {
  return stop == Stop::unknown ? "" : std::string(word_of(stop, kStopWords));
}

}  // namespace remora::json
