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

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace remora::batch {

/// Options as the command line has them: the name with dashes inside and none before it ("time-limit"), and the values
/// that were given. Of a switch the value is "on".
using TaskOptions = std::map<std::string, std::vector<std::string>>;

/// One graph to be solved for one budget.
struct Task {
  /// Name given by the user; unique in a manifest.
  std::string id{};
  /// The file's path, absolute.
  std::string graph{};
  /// Hash of the file's bytes, in lower-case hexadecimal; empty if the manifest does not say.
  std::string sha256{};
  /// "80%", "12GiB", "123456".
  std::string budget{};
  TaskOptions options{};
  /// In the manifest, from 1.
  std::size_t line = 0;
};

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
