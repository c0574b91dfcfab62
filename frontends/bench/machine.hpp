// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace remora::bench {

/// The machine that this process runs on: processor, cores that it may use, memory, system. What cannot be found out is
/// "unknown".
std::string machine_text();

/// How many cores this process may use; 0 if that cannot be found out.
int usable_cores();

/// The commit that this program was built from, "+" behind it if the tree had changes; "unknown" outside a repository.
std::string built_commit();

}  // namespace remora::bench
