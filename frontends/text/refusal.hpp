// SPDX-License-Identifier: Apache-2.0
//
// Why there is no schedule, in words: the same sentences in every front end, with options as each of them spells them.
//
//     no schedule stays within 2 B (2 bytes): 'D' alone needs 3 B (3 bytes) at once, 1 B more, in any order and however often ops run;
//     the minimum budget is 3 B (3 bytes); try a larger budget, a smaller batch, splitting the op, or offloading its tensors
#pragma once

#include <functional>
#include <string>

#include "engine/ask/ask.hpp"
#include "model/api.hpp"
#include "model/devices/schedule.hpp"
#include "model/graph.hpp"
#include "model/schedule.hpp"
#include "model/types.hpp"

namespace remora::text {

/// How a front end writes what stands in the sentences.
struct RefusalStyle {
  /// "60.0 MiB (62914560 bytes)".
  std::function<std::string(Bytes)> amount;
  /// A name from the graph: "'D'".
  std::function<std::string(const std::string&)> name;
  /// An option by its name ("time_limit"), with its value if it is to have a certain one, as the front end spells it: "--order free".
  std::function<std::string(const std::string& option, const std::string& value)> option;
};

/// "op", "kept", "no_way", "event", "search", "packing", "limits"; empty where there is a schedule.
REMORA_API const char* reason_word(Refusal::Cause cause);

/// Parts of a sentence, any but the first perhaps empty.
struct RefusalText {
  /// "no schedule stays within BUDGET".
  std::string what;
  /// "'D' alone needs ...".
  std::string because;
  /// Which budget is needed at least, and which is enough.
  std::string budgets;
  /// "a larger budget, ...".
  std::string suggestions;

  /// All of it.
  [[nodiscard]] REMORA_API std::string line() const;
};

/// `budget`: what the sentence calls it: "the budget", "2 B (2 bytes)".
REMORA_API RefusalText refusal_text(const Graph& graph, const Schedule& schedule, const Refusal& refusal,
                                    const std::string& budget, const RefusalStyle& style);
/// The same over several devices; `because` names each of them with what it needs.
REMORA_API RefusalText refusal_text(const DeviceGraph& graph, const DeviceSchedule& schedule, const Refusal& refusal,
                                    const RefusalStyle& style);

/// All of it as C and C++ programs report it, with options by their names; empty if there is a schedule.
REMORA_API std::string refusal_line(const Graph& graph, const Schedule& schedule, const Refusal& refusal);
/// The same of several devices; the note of a schedule from a file, which has no refusal.
REMORA_API std::string refusal_line(const DeviceGraph& graph, const DeviceSchedule& schedule, const Refusal& refusal);

}  // namespace remora::text
