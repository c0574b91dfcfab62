// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace remora::cp {

/// How the search chooses what to decide next; branching.hpp explains each.
enum class BranchingRule {
  overload,     ///< by worst potential overload
  incumbent,    ///< by incumbent guidance
  domain_size,  ///< by domain size
};

}  // namespace remora::cp
