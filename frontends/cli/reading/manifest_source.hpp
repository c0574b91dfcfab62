// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "frontends/batch/task.hpp"

namespace remora::cli {

/// The tasks of a manifest, complete; - for standard input. Throws InputError with a line for each faulty line of the
/// file.
std::vector<batch::Task> load_manifest(const std::string& path, const batch::TaskOptions& defaults);

}  // namespace remora::cli
