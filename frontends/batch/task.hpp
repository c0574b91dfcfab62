// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace remora::batch {

/// Options as the command line has them: the name with dashes inside and none before it ("time-limit"), and the values
/// that were given. Of a switch the value is "on".
using TaskOptions = std::map<std::string, std::vector<std::string>>;

/// One graph to be solved for one budget.
struct Task {
  /// What the user calls it; no two tasks of a manifest have the same.
  std::string id{};
  /// The file's path, absolute.
  std::string graph{};
  /// Of the file's bytes, in lower-case hexadecimal; empty where the manifest does not say.
  std::string sha256{};
  /// "80%", "12GiB", "123456".
  std::string budget{};
  TaskOptions options{};
  /// In the manifest, from 1.
  std::size_t line = 0;
};

}  // namespace remora::batch
