// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/types.hpp"

namespace remora::report {

/// A unit that axes of memory are labelled in.
struct MemoryUnit {
  const char* name = "B";
  double bytes = 1;

  [[nodiscard]] double amount(Bytes count) const { return static_cast<double>(count.count()) / bytes; }
};

/// The largest of B, KiB, … EiB of which `most` makes at least one.
MemoryUnit memory_unit_for(Bytes most);

}  // namespace remora::report
