// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "engine/base/options.hpp"

namespace remora::test {

/// Options of a solve that ends by its work alone, so that it is the same on any machine; the others as given.
inline SolveOptions work_limited(std::int64_t work, SolveOptions options) {
  options.work_limit = work;
  options.time_limit = kNoTimeLimit;
  options.threads = 2;
  return options;
}
inline SolveOptions work_limited(std::int64_t work, int threads = 2) {
  SolveOptions options = work_limited(work, SolveOptions{});
  options.threads = threads;
  return options;
}

}  // namespace remora::test
