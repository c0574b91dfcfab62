// SPDX-License-Identifier: Apache-2.0
//
// Sums and products of amounts that nobody has checked yet: beyond the limit they stay there, and two such amounts
// still add up within 64 bits.
#pragma once

#include <cstdint>

namespace remora {

inline constexpr std::int64_t kSaturated = std::int64_t{1} << 62;

/// Of amounts that are not negative, or the limit.
constexpr std::int64_t saturating_sum(std::int64_t a, std::int64_t b) {
  return b > kSaturated || a > kSaturated - b ? kSaturated : a + b;
}

constexpr std::int64_t saturating_product(std::int64_t a, std::int64_t b) {
  if (a == 0 || b == 0) return 0;
  return a > kSaturated / b ? kSaturated : a * b;
}

}  // namespace remora
