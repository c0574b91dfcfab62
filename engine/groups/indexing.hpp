// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace remora {

/// A number that is known not to be negative, as an index.
inline std::size_t at(std::int32_t i) {
  return static_cast<std::size_t>(i);
}

}  // namespace remora
