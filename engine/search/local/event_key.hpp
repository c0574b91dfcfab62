// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>

#include "model/recompute_plan.hpp"

namespace remora {

/// Event (k, j) of the staged form, computing op j in stage k, as one number that grows with time.
class EventKey {
 public:
  constexpr EventKey() = default;
  constexpr EventKey(Stage stage, std::int32_t op) : value_((std::int64_t{stage} << 32) + op) {}
  constexpr explicit EventKey(const Recompute& recompute) : EventKey(recompute.stage, recompute.op) {}

  /// Of the op's first compute.
  static constexpr EventKey first_compute(std::int32_t op) { return {op, op}; }
  /// The schedule's end, to which `keep` tensors are retained.
  static constexpr EventKey end(std::int32_t op_count) { return {op_count, op_count}; }

  [[nodiscard]] constexpr Stage stage() const { return static_cast<Stage>(value_ >> 32); }
  [[nodiscard]] constexpr OpId op() const { return OpId(static_cast<std::int32_t>(value_ & 0xffffffff)); }
  /// The least key after this one; as the exclusive end of a stretch it takes this one in.
  [[nodiscard]] constexpr EventKey just_after() const {
    EventKey key = *this;
    ++key.value_;
    return key;
  }

  friend constexpr auto operator<=>(EventKey, EventKey) = default;

 private:
  std::int64_t value_ = -1;
};

}  // namespace remora
