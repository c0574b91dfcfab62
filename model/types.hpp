// SPDX-License-Identifier: Apache-2.0
//
// The vocabulary of the project as types of their own.
//
// Quantities (Bytes, Duration) add and compare only with their like, so a size can never be mistaken for a time.
// Identifiers (OpId, TensorId) are built explicitly, and compared and used as an index only with their like: an OpId
// can be neither passed nor compared where a TensorId is wanted, and tables indexed by id (model/table.hpp) reject it.
#pragma once

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

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

/// The number of one thing among its like, from 0; `Tag` names the kind. Default-constructed it means "none".
template <class Tag>
class Id {
 public:
  constexpr Id() = default;
  constexpr explicit Id(std::int32_t index) : index_(index) {}
  constexpr explicit Id(std::size_t index) : index_(static_cast<std::int32_t>(index)) {}

  // NOLINTNEXTLINE(google-explicit-constructor): an id is a number in sums and comparisons with numbers.
  constexpr operator std::int32_t() const { return index_; }

  [[nodiscard]] constexpr bool valid() const { return index_ >= 0; }
  /// Position of a valid id in a vector.
  [[nodiscard]] constexpr std::size_t index() const { return static_cast<std::size_t>(index_); }

  static constexpr Id none() { return Id(); }

  /// None comes before all others.
  friend constexpr auto operator<=>(Id, Id) = default;

 private:
  std::int32_t index_ = -1;
};

template <class A, class B>
requires(!std::same_as<A, B>) bool operator==(Id<A>, Id<B>) = delete;
template <class A, class B>
requires(!std::same_as<A, B>) std::strong_ordering operator<=>(Id<A>, Id<B>) = delete;

/// An op's number: its position in the input topological order, from 0.
using OpId = Id<struct OpTag>;

/// A tensor's number: its position in the graph's table of tensors, from 0.
using TensorId = Id<struct TensorTag>;

/// Ops in the order in which they run; an op that is recomputed occurs again. A plain vector of ops need not be in such
/// an order.
class Sequence : public std::vector<OpId> {
 public:
  using std::vector<OpId>::vector;
  explicit Sequence(std::vector<OpId> ops) : std::vector<OpId>(std::move(ops)) {}
};

/// A sequence in which every op stands once.
class Order : public Sequence {
 public:
  using Sequence::Sequence;
  explicit Order(Sequence sequence) : Sequence(std::move(sequence)) {}
};

/// Wide enough for the product of two 64-bit amounts.
__extension__ using Wide = __int128;

/// value / 2^shift, rounded up.
constexpr Wide cutoff(Wide value, int shift) {
  const Wide unit = Wide{1} << shift;
  const Wide quotient = value / unit;
  return value % unit > 0 ? quotient + 1 : quotient;
}

/// Stage k: what runs after the first compute of op k-1, up to and including the first compute of op k. Stage n, with n
/// the number of ops, holds recomputes only (Moccasin, section 2.3, with one more stage at the end). Built from an op
/// it is the stage that ends with the op's first compute.
class Stage {
 public:
  constexpr Stage() = default;
  constexpr explicit Stage(std::integral auto number) : number_(static_cast<std::int32_t>(number)) {}
  constexpr explicit Stage(OpId op) : number_(op) {}

  // NOLINTNEXTLINE(google-explicit-constructor): like an id, a number in comparisons with numbers.
  constexpr operator std::int32_t() const { return number_; }
  /// Position of an existing stage in a vector.
  [[nodiscard]] constexpr std::size_t index() const { return static_cast<std::size_t>(number_); }

  constexpr Stage& operator++() {
    ++number_;
    return *this;
  }
  constexpr Stage& operator--() {
    --number_;
    return *this;
  }
  friend constexpr Stage operator+(Stage stage, std::int32_t count) { return Stage(stage.number_ + count); }
  friend constexpr Stage operator-(Stage stage, std::int32_t count) { return Stage(stage.number_ - count); }
  /// The number of stages from b to a.
  friend constexpr std::int32_t operator-(Stage a, Stage b) { return a.number_ - b.number_; }
  friend constexpr auto operator<=>(Stage, Stage) = default;

 private:
  std::int32_t number_ = 0;
};

/// An op is no stage: `Stage(op)` says which one is meant.
bool operator==(Stage, OpId) = delete;
std::strong_ordering operator<=>(Stage, OpId) = delete;

}  // namespace remora

template <class Tag>
struct std::hash<remora::Id<Tag>> {
  std::size_t operator()(remora::Id<Tag> id) const noexcept { return std::hash<std::int32_t>{}(id); }
};

// Sums and products of unchecked amounts: beyond the limit they saturate, and two such amounts still add up within 64
// bits.

namespace remora {

inline constexpr std::int64_t kSaturated = std::int64_t{1} << 62;

/// The sum of amounts that are not negative, or the limit.
constexpr std::int64_t saturating_sum(std::int64_t a, std::int64_t b) {
  return b > kSaturated || a > kSaturated - b ? kSaturated : a + b;
}

constexpr std::int64_t saturating_product(std::int64_t a, std::int64_t b) {
  if (a == 0 || b == 0) return 0;
  return a > kSaturated / b ? kSaturated : a * b;
}

}  // namespace remora
