// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>

namespace remora::test {

/// How many random cases of so many a test draws: an eighth, or all if REMORA_ALL_CASES is set in the environment
/// (docs/develop/development.md). For tests with many cases, and for what they expect to have counted.
template <class Number>
Number fewer(Number all) {
  return std::getenv("REMORA_ALL_CASES") == nullptr ? all / 8 : all;
}

}  // namespace remora::test
