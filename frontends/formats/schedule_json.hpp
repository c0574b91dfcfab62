// SPDX-License-Identifier: Apache-2.0
//
// Reading and writing remora-schedule 1 and, with addresses, 2 (docs/formats.md).
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "frontends/formats/file.hpp"
#include "model/api.hpp"
#include "model/graph.hpp"
#include "model/schedule.hpp"

namespace remora::json {

/// The schedule in `text`, its ops and tensors looked up in `graph`. Throws InputError with the JSON path of the first
/// fault. Whether the steps are right is the business of `verify`, and so is whether the figures fit them. `solver`
/// and all inside it may be missing; unknown keys are ignored.
REMORA_API Schedule read_schedule(Text text, const Graph& graph);

/// Schedule::reading of a schedule, or of a curve, before its graph is there. Only a text with that word is parsed: throws
/// InputError if it is not JSON; of other JSON there is none.
REMORA_API std::vector<std::string> read_reading(Text text);

/// Writes the schedule as one JSON object, one line per step. Its seconds and statistics must be
/// finite, and the latter's names distinct; only the time limit may be infinite, which is written as null.
/// Throws InputError for an id that `graph` does not have and for a string that is not UTF-8; then nothing has been written.
REMORA_API void write_schedule(std::ostream& out, const Schedule& schedule, const Graph& graph);

}  // namespace remora::json
