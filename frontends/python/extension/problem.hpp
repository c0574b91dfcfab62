// SPDX-License-Identifier: Apache-2.0
//
// From what a Python call asks for to the engine's Request.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/ask/ask.hpp"
#include "engine/base/options.hpp"
#include "frontends/python/extension/graph.hpp"

namespace remora::python {

// Several ways to run an op (model/modes.hpp), as Python gives them: numbers in tuples, which remora/modes.py makes.

/// Workspace in bytes, which may be negative; the tensors that are freed before.
using InnerPeakRow = std::tuple<Bytes, std::vector<TensorId>>;
/// Duration, workspace, output sizes, unread inputs, weight, inner peaks.
using ModeRow = std::tuple<Duration, Bytes, std::vector<Bytes>, std::vector<TensorId>, int, std::vector<InnerPeakRow>>;
/// Op, further modes, the op that it follows or none, then of mode 0 unread inputs, weight, inner peaks; the most that its
/// computes may weigh, or none.
using OpModesRow = std::tuple<OpId, std::vector<std::optional<ModeRow>>, OpId, std::vector<TensorId>, int,
                              std::vector<InnerPeakRow>, std::optional<int>>;

// The problem and the options.

/// Names and values as `set_option` takes them.
using OptionTexts = std::vector<std::pair<std::string, std::string>>;

/// Throws InputError for a name that is none, and for a value out of its range.
SolveOptions options_from(const OptionTexts& texts);

/// The cost of slices (model/slices.hpp): overhead, bandwidth, temporaries, copies.
using SliceRunRow = std::tuple<Duration, Bytes, bool, bool>;

/// Question of a call about a graph as it is now: as Python's Request all but the budget and what only one call takes.
struct Asked {
  Request request{};
  std::string graph_sha256{};
};

/// Adds the class to the module. Its constructor throws InputError for a name or a value that is none, and for what no graph
/// could mend.
void bind_request(nanobind::module_& module);

/// The amount that a text names ("60%", "12GiB", "123"), of the request's graph. Throws InputError of the argument.
Bytes amount_from(const std::string& text, const Request& request, const std::string& argument);

}  // namespace remora::python
