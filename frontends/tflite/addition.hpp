// SPDX-License-Identifier: Apache-2.0
//
// New parts before an old flatbuffer, which they may refer to:
//
//     | root, identifier | new tables, vectors, texts ... | all bytes of the old one but its first eight |
//
// References go forward only, so a part refers to parts that are added behind it, and to old ones. What moves the old
// ones is known only at the end, so such references are noted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "frontends/tflite/flatbuffer.hpp"
#include "frontends/tflite/model.hpp"

namespace remora::tflite {

class Addition {
 public:
  using Position = flatbuffer::Position;

  Addition() { bytes_.resize(kHeader); }

  [[nodiscard]] Position end() const { return bytes_.size(); }

  void pad(std::size_t alignment, std::size_t after = 0) {
    while ((bytes_.size() + after) % alignment != 0) bytes_.push_back('\0');
  }

  template <class Number>
  Position put(Number value) {
    const Position at = end();
    bytes_.append(sizeof(Number), '\0');
    set(at, value);
    return at;
  }

  void put_text(std::string_view text) {
    put(static_cast<std::uint32_t>(text.size()));
    bytes_.append(text).push_back('\0');
    pad(sizeof(std::uint32_t));
  }

  void put_numbers(std::span<const std::int32_t> numbers) {
    put(static_cast<std::uint32_t>(numbers.size()));
    for (const std::int32_t number : numbers) put(number);
  }

  /// A vector of so many references; the positions of these.
  std::vector<Position> put_references(std::size_t count) {
    put(static_cast<std::uint32_t>(count));
    std::vector<Position> places;
    for (std::size_t i = 0; i < count; ++i) places.push_back(put(std::uint32_t{0}));
    return places;
  }

  /// A table of four bytes a field: 0 where a field is left out. Returns its position, and those of its fields.
  template <std::size_t n>
  std::pair<Position, std::array<Position, n>> put_table(const std::array<bool, n>& present) {
    constexpr std::size_t kVtable = 4 + 2 * n;
    pad(4, kVtable);
    const Position vtable = put(static_cast<std::uint16_t>(kVtable));
    std::uint16_t offset = 4;
    const Position size = put(std::uint16_t{0});
    for (const bool is_there : present) {
      put(is_there ? offset : std::uint16_t{0});
      if (is_there) offset = static_cast<std::uint16_t>(offset + 4);
    }
    set(size, offset);
    const Position table = put(static_cast<std::int32_t>(end() - vtable));
    std::array<Position, n> places{};
    for (std::size_t i = 0; i < n; ++i) places[i] = present[i] ? put(std::uint32_t{0}) : table;
    return {table, places};
  }

  /// A buffer's table with its data. Returns the position of the table.
  Position put_buffer(std::span<const std::int32_t> words) {
    constexpr std::size_t kAlignmentOfData = 16;
    const auto [table, fields] = put_table<1>({true});
    pad(kAlignmentOfData, sizeof(std::uint32_t));
    refer(fields[0], end());
    put(static_cast<std::uint32_t>(words.size_bytes()));
    for (const std::int32_t word : words) put(word);
    return table;
  }

  template <class Number>
  void set(Position at, Number value) {
    std::memcpy(bytes_.data() + at, &value, sizeof(Number));
  }

  void refer(Position at, Position added) { set(at, static_cast<std::uint32_t>(added - at)); }
  void refer_to_old(Position at, Position old) { old_.emplace_back(at, old); }

  /// Appends to the new parts everything behind the header of the old flatbuffer, whose identifier stays.
  std::string finish(std::string_view old) {
    constexpr std::size_t kLargest = 64;  // no alignment inside a model is larger
    pad(kLargest, kLargest - kHeader);
    const std::size_t moved = end() - kHeader;
    for (const auto& [at, target] : old_) refer(at, target + moved);
    const std::string_view identifier = old.substr(sizeof(std::uint32_t), kHeader - sizeof(std::uint32_t));
    bytes_.replace(sizeof(std::uint32_t), identifier.size(), identifier);
    return bytes_.append(old.substr(kHeader));
  }

 private:
  static constexpr std::size_t kHeader = 8;

  std::string bytes_;
  std::vector<std::pair<Position, Position>> old_{};
};

/// The root: a model's table with the fields of an old one, which it refers to but for those in `anew`. The positions
/// of all fields; the version is set.
std::array<flatbuffer::Position, field::model::count> put_model(Addition& added, const Model& model,
                                                                std::initializer_list<std::size_t> anew);

/// A vector of references to the old tables, and so many more; the positions of the latter.
std::vector<flatbuffer::Position> put_tables(Addition& added, const Tables& old, std::size_t more);

/// Throws InputError for data outside of the flatbuffer, whose positions would change.
void expect_movable(const Model& model);

}  // namespace remora::tflite
