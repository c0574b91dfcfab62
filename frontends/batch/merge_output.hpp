// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <iosfwd>

#include "frontends/batch/merge.hpp"

namespace remora::batch {

/// For people: a line a task, then the figures, then what is missing and why.
void print_merged(std::ostream& out, const Merged& merged);
/// A line a task below a line of names; RFC 4180.
void write_csv(std::ostream& out, const Merged& merged);
/// The whole as one JSON object.
void write_summary(std::ostream& out, const Merged& merged);

}  // namespace remora::batch
