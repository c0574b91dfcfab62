// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace remora::test {

/// How many random cases of so many a test draws: all, but under sanitizers, where each takes ten times as long, a
/// quarter. For tests with thousands of cases, and for what they expect to have counted.
template <class Number>
constexpr Number fewer(Number all) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return all / 4;
#else
  return all;
#endif
}

}  // namespace remora::test
