// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/model/network.hpp"

#include <limits>
#include <string>

#include "model/error.hpp"

namespace remora::onnx_frontend {

std::int64_t element_count(const Shape& shape) {
  constexpr std::int64_t kLimit = std::int64_t{1} << 62;
  std::int64_t count = 1;
  bool empty = false;
  for (const std::int64_t extent : shape) {
    if (extent < 0) throw InputError("", "a shape has the negative extent " + std::to_string(extent));
    if (extent == 0) {
      empty = true;
    } else if (count > kLimit / extent) {
      throw InputError("", "a shape has more than 2^62 elements");
    } else {
      count *= extent;
    }
  }
  return empty ? 0 : count;
}

std::optional<std::size_t> axis_of(std::int64_t axis, std::size_t rank) {
  const auto signed_rank = static_cast<std::int64_t>(rank);
  if (axis < -signed_rank || axis >= signed_rank) return std::nullopt;
  return static_cast<std::size_t>(axis < 0 ? axis + signed_rank : axis);
}

Bytes byte_size(const Shape& shape, ElementType type) {
  const std::int64_t count = element_count(shape);
  const std::int64_t bits = type.bits;
  // Whole bytes first, so that count * bits need not fit where the bytes do.
  const std::int64_t eights = count / 8;
  if (bits > 0 && eights > std::numeric_limits<std::int64_t>::max() / bits - 1) {
    throw InputError("", "a tensor is larger than 2^63 bytes");
  }
  return Bytes(eights * bits + (count % 8 * bits + 7) / 8);
}

Bytes sum_of(Bytes one, Bytes other, const std::string& place) {
  if (other > Bytes::max() - one) throw InputError(place, "sizes add up to more than 2^63 bytes");
  return one + other;
}

}  // namespace remora::onnx_frontend
