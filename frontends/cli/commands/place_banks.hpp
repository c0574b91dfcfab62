// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "frontends/cli/reading/arguments.hpp"
#include "frontends/cli/reading/solve_options.hpp"
#include "frontends/formats/file.hpp"
#include "model/types.hpp"

namespace remora::cli {

/// `remora place` of a remora-banks in the file; the exit code. `output` may be empty.
int place_in_banks(const Arguments& arguments, const SolveOptions& options, const FileText& file, Bytes alignment,
                   const std::string& output);

}  // namespace remora::cli
