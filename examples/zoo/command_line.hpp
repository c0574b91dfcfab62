// SPDX-License-Identifier: Apache-2.0
//
// remora_zoo's command line: one table of parameters an architecture makes its options, their checks and the help.
#pragma once

#include <iosfwd>
#include <span>
#include <string>

namespace remora::zoo {

/// Does what `arguments` (without the program's name) ask: writes a model, or the list or the help to `out`. What was
/// written is told on `log`, one line. Throws UsageError on bad arguments, InputError if the file cannot be written.
void run(std::span<const std::string> arguments, std::ostream& out, std::ostream& log);

}  // namespace remora::zoo
