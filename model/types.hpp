// SPDX-License-Identifier: Apache-2.0
//
// The vocabulary of the project as types of their own.
//
// Quantities (Bytes, Duration) add and compare only with their like, so a size can never be mistaken for a time.
// Identifiers (OpId, TensorId) are built explicitly and read implicitly as an index: an OpId cannot be passed where
// a TensorId is wanted, yet `sizes[tensor]` stays as short as it should be.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <limits>

namespace remora {

/// An exact signed 64-bit amount of one unit, named by `Tag`. Sums must not overflow: Instance proves that they can't.
template <class Tag>
class Quantity {
 public:
  constexpr Quantity() = default;
  constexpr explicit Quantity(std::int64_t count) : count_(count) {}

  [[nodiscard]] constexpr std::int64_t count() const { return count_; }

  constexpr Quantity& operator+=(Quantity other) {
    count_ += other.count_;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    count_ -= other.count_;
    return *this;
  }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity(a.count_ + b.count_); }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity(a.count_ - b.count_); }
  friend constexpr auto operator<=>(Quantity, Quantity) = default;

  static constexpr Quantity max() { return Quantity(std::numeric_limits<std::int64_t>::max()); }

 private:
  std::int64_t count_ = 0;
};

/// A size in memory, in bytes.
using Bytes = Quantity<struct BytesTag>;

/// A time in the unit of its graph (`meta.duration_unit`; nanoseconds where it is known).
using Duration = Quantity<struct DurationTag>;

/// An index into one kind of table, named by `Tag`. Default-constructed it means "none".
template <class Tag>
class Id {
 public:
  constexpr Id() = default;
  constexpr explicit Id(std::int32_t index) : index_(index) {}
  constexpr explicit Id(std::size_t index) : index_(static_cast<std::int32_t>(index)) {}

  // NOLINTNEXTLINE(google-explicit-constructor): reading an id as an index is the point of the type.
  constexpr operator std::int32_t() const { return index_; }

  [[nodiscard]] constexpr bool valid() const { return index_ >= 0; }

  static constexpr Id none() { return Id(); }

 private:
  std::int32_t index_ = -1;
};

/// An op's number: its position in the input topological order, from 0.
using OpId = Id<struct OpTag>;

/// A tensor's number: its position in the graph's table of tensors, from 0.
using TensorId = Id<struct TensorTag>;

/// Wide enough for the product of two 64-bit amounts.
__extension__ using Wide = __int128;

/// Stage k: what runs after the first compute of op k-1, up to and including the first compute of op k. Stage n, with n
/// the number of ops, holds recomputes only (Moccasin, section 2.3, with one more stage at the end).
using Stage = std::int32_t;

}  // namespace remora

template <class Tag>
struct std::hash<remora::Id<Tag>> {
  std::size_t operator()(remora::Id<Tag> id) const noexcept { return std::hash<std::int32_t>{}(id); }
};
