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
