// SPDX-License-Identifier: Apache-2.0
//
// A manifest: one task a line, each a JSON object.
//
//     {"id": "unet-80", "graph": "unet.json", "sha256": "9f86...", "budget": "80%", "options": {"time_limit": 5}}
//
// `id` and `graph` are required, everything else may be missing. `budget` is a string or a whole number of bytes.
// `options` are those of `remora solve`, with underscores or dashes; a value is a string, a number, true, false, or a
// list of these. Blank lines are skipped; an unknown key is a fault.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/batch/task.hpp"

namespace remora::batch {

struct Manifest {
  std::vector<Task> tasks{};
  /// A line for each line of the manifest that is no task: "line 3: ...".
  std::vector<std::string> faults{};
};

/// Adds what the line left out and refuses, by an exception, what cannot be: an unknown option, a missing budget.
using TaskCheck = std::function<void(Task&)>;

/// The tasks in the order of `text`. A graph's path is taken from `folder` on. Faults are collected, not thrown.
Manifest read_manifest(std::string_view text, const std::string& folder, const TaskCheck& check);

/// The tasks as a manifest that means the same wherever it stands and whatever the defaults.
std::string manifest_text(const std::vector<Task>& tasks);

}  // namespace remora::batch
