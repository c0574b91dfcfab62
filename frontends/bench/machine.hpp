// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace remora::bench {

/// The machine that this process runs on and the program that it is, as name and value: processor, cores, memory,
/// system, compiler, version, commit. What cannot be found out is "unknown".
std::vector<std::pair<std::string, std::string>> describe_machine();

/// The commit that this program was built from, "+" behind it if the tree had changes; "unknown" outside a repository.
std::string built_commit();

/// Now, UTC, ISO 8601.
std::string now_text();

}  // namespace remora::bench
