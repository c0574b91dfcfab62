// SPDX-License-Identifier: Apache-2.0
//
// Protobuf's wire format: a message is a row of fields, each a tag (field number and wire type) and a number or a length with so many
// bytes. Enough to tell ONNX files from others and find the damage in one, and to read and write HLO modules without their schema.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace remora::wire {

struct Field {
  std::uint64_t number = 0;
  /// 0: a number, 1: 8 bytes, 2: bytes with their length, 5: 4 bytes.
  int type = 0;
  /// Where the field begins, its tag included.
  std::size_t start = 0;
  /// Bytes after the tag and the length; cut short at the end of the content. Empty for a number.
  std::string_view payload{};
  /// Value of type 0.
  std::uint64_t value = 0;
  /// The content ends before the payload does.
  bool cut = false;
};

/// Reads one field after the other.
class Reader {
 public:
  explicit Reader(std::string_view content) : content_(content) {}

  [[nodiscard]] bool at_end() const { return place_ == content_.size(); }
  /// The next field; none if what stands here is no field.
  std::optional<Field> next();
  /// Where the next field begins; after a failure, where the faulty one does.
  [[nodiscard]] std::size_t place() const { return place_; }
  /// The next number of a packed field; none if what stands here is none.
  std::optional<std::uint64_t> varint();

 private:
  std::string_view content_;
  std::size_t place_ = 0;
};

// Fields appended to a message.
void put_number(std::string& message, std::uint64_t field, std::uint64_t value);
void put_bytes(std::string& message, std::uint64_t field, std::string_view bytes);

}  // namespace remora::wire
