// SPDX-License-Identifier: Apache-2.0
//
// Reading and writing remora-curve 1 (docs/sweep.md).
#pragma once

#include <iosfwd>

#include "frontends/formats/file.hpp"
#include "model/api.hpp"
#include "model/curve.hpp"

namespace remora::json {

/// Throws InputError with the JSON path of the first fault: also for budgets that don't ascend, and for durations or
/// bounds that increase with the budget. Unknown keys are ignored.
REMORA_API Curve read_curve(Text text);

/// Whether `text` is JSON that calls itself remora-curve. Throws InputError for text that is not JSON.
REMORA_API bool is_curve(Text text);

/// Writes the curve as one JSON object, one line per point. Its seconds must be finite. Throws InputError for a string that
/// is not UTF-8; then nothing has been written.
REMORA_API void write_curve(std::ostream& out, const Curve& curve);

}  // namespace remora::json
