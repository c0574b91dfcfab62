// SPDX-License-Identifier: Apache-2.0
#include "frontends/report/memory_unit.hpp"

#include <array>
#include <cstddef>

namespace remora::report {

MemoryUnit memory_unit_for(Bytes most) {
  constexpr std::array kNames{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  MemoryUnit unit;
  for (std::size_t i = 1; i < kNames.size() && unit.amount(most) >= 1024; ++i) {
    unit = {kNames[i], unit.bytes * 1024};
  }
  return unit;
}

}  // namespace remora::report
