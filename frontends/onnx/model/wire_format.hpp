// SPDX-License-Identifier: Apache-2.0
//
// Protobuf's wire format, as far as telling ONNX files from others and finding the damage in one needs it: a message is
// a row of fields, each a tag (field number and wire type) and a number or a length with so many bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace remora::onnx_frontend {

struct WireField {
  std::uint64_t number = 0;
  /// 0: a number, 1: 8 bytes, 2: bytes with their length, 5: 4 bytes.
  int type = 0;
  /// Where the field begins, its tag included.
  std::size_t start = 0;
  /// What follows the tag and the length; cut short at the end of the content.
  std::string_view payload{};
  /// The content ends before the payload does.
  bool cut = false;
};

/// Reads one field after the other.
class WireReader {
 public:
  explicit WireReader(std::string_view content) : content_(content) {}

  [[nodiscard]] bool at_end() const { return place_ == content_.size(); }
  /// The next field; none if what stands here is no field.
  std::optional<WireField> next();
  /// Where the next field begins; after a failure, where the faulty one does.
  [[nodiscard]] std::size_t place() const { return place_; }

 private:
  std::optional<std::uint64_t> varint();

  std::string_view content_;
  std::size_t place_ = 0;
};

/// Where a model that protobuf refuses is damaged: "graph.node[12], byte 3021 of 15618". O(size).
std::string damage_place(std::string_view content);

}  // namespace remora::onnx_frontend
