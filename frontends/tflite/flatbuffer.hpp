// SPDX-License-Identifier: Apache-2.0
//
// A flatbuffer that nobody has checked, read in place: tables whose fields are found by number, vectors, texts.
//
//     table:   | i32 back to its vtable | fields ...          vtable:  | u16 its bytes | u16 | u16 where field i lies |
//     a field that refers to something holds the distance to it, forward from the field: u32
//     vector:  | u32 length | elements ...                    text: a vector of bytes
//
// (flatbuffers.dev, "FlatBuffer internals"; all numbers are little-endian.) No read leaves the bytes: each position is
// checked before it is read, and a vector with all its elements when it is found. Each answer takes constant time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "model/error.hpp"

namespace remora::flatbuffer {

/// A position, in bytes from the beginning.
using Position = std::size_t;

/// Elements of one size, one after the other.
struct Vector {
  Position first = 0;
  std::size_t length = 0;
};

class Reader {
 public:
  /// `bytes` outlives the reader; `source` names them in errors.
  Reader(std::string_view bytes, std::string source) : bytes_(bytes), source_(std::move(source)) {}

  [[nodiscard]] std::size_t size() const { return bytes_.size(); }
  [[nodiscard]] const std::string& source() const { return source_; }

  /// The number that lies there. Throws InputError beyond the end, as everything below does.
  template <class Number>
  [[nodiscard]] Number number(Position at) const {
    static_assert(std::is_arithmetic_v<Number>);
    expect_inside(at, sizeof(Number));
    Number value{};
    std::memcpy(&value, bytes_.data() + at, sizeof(Number));
    return value;
  }

  /// Target of the reference at this position.
  [[nodiscard]] Position target(Position at) const { return at + number<std::uint32_t>(at); }

  /// Where the table's field lies; nothing if it has none of that number.
  [[nodiscard]] std::optional<Position> field(Position table, std::size_t index) const {
    const Position vtable = vtable_of(table);
    const Position entry = vtable + 4 + 2 * index;
    if (entry + 2 > vtable + number<std::uint16_t>(vtable)) return {};
    const auto offset = number<std::uint16_t>(entry);
    return offset == 0 ? std::nullopt : std::optional(table + offset);
  }

  /// How many fields the table may have.
  [[nodiscard]] std::size_t field_count(Position table) const {
    const auto bytes = number<std::uint16_t>(vtable_of(table));
    return bytes < 4 ? 0 : (bytes - std::size_t{4}) / 2;
  }

  /// The field as a number; `usual` where the table has none.
  template <class Number>
  [[nodiscard]] Number number_in(Position table, std::size_t index, Number usual = 0) const {
    const auto at = field(table, index);
    return at ? number<Number>(*at) : usual;
  }

  /// The field as a vector of elements of so many bytes; an empty one where the table has none.
  [[nodiscard]] Vector vector_in(Position table, std::size_t index, std::size_t element = sizeof(std::uint32_t)) const {
    const auto at = field(table, index);
    if (!at) return {};
    const Position begin = target(*at);
    const Vector found{begin + sizeof(std::uint32_t), number<std::uint32_t>(begin)};
    expect_inside(found.first, found.length * element);
    return found;
  }

  /// The field as text; empty where the table has none.
  [[nodiscard]] std::string_view text_in(Position table, std::size_t index) const {
    const Vector found = vector_in(table, index, 1);
    return bytes_.substr(found.first, found.length);
  }

  [[noreturn]] void fail(const std::string& what) const { throw InputError(source_, what); }

 private:
  void expect_inside(Position at, std::size_t size) const {
    if (at > bytes_.size() || size > bytes_.size() - at) fail("refers to bytes beyond its end: cut short or damaged");
  }
  [[nodiscard]] Position vtable_of(Position table) const {
    const std::int64_t back = number<std::int32_t>(table);
    const std::int64_t at = static_cast<std::int64_t>(table) - back;
    if (at < 0) fail("refers to bytes before its beginning: damaged");
    return static_cast<Position>(at);
  }

  std::string_view bytes_;
  std::string source_;
};

}  // namespace remora::flatbuffer
