// SPDX-License-Identifier: Apache-2.0
#include "frontends/formats/wire.hpp"

namespace remora::wire {
namespace {

void put_varint(std::string& message, std::uint64_t number) {
  while (number >= 0x80U) {
    message.push_back(static_cast<char>((number & 0x7fU) | 0x80U));
    number >>= 7U;
  }
  message.push_back(static_cast<char>(number));
}

}  // namespace

std::optional<std::uint64_t> Reader::varint() {
  constexpr unsigned kMaxVarintBytes = 10;
  std::uint64_t number = 0;
  for (unsigned k = 0; k < kMaxVarintBytes && place_ < content_.size(); ++k) {
    const auto byte = static_cast<unsigned char>(content_[place_++]);
    number |= std::uint64_t{byte & 0x7fU} << (7 * k);
    if ((byte & 0x80U) == 0) return number;
  }
  return std::nullopt;
}

std::optional<Field> Reader::next() {
  Field field{.start = place_};
  const auto fail = [&] {
    place_ = field.start;
    return std::nullopt;
  };
  const auto tag = varint();
  if (!tag) return fail();
  field.number = *tag >> 3U;
  field.type = static_cast<int>(*tag & 7U);
  std::uint64_t length = 0;
  switch (field.type) {
    case 0:
    case 2: {
      const auto number = varint();
      if (!number) return fail();
      field.value = *number;
      length = field.type == 2 ? *number : 0;
      break;
    }
    case 1:
      length = 8;
      break;
    case 5:
      length = 4;
      break;
    default:
      return fail();
  }
  if (field.number == 0) return fail();
  field.payload = content_.substr(place_, length);
  field.cut = length > content_.size() - place_;
  place_ += field.payload.size();
  return field;
}

void put_number(std::string& message, std::uint64_t field, std::uint64_t value) {
  put_varint(message, field << 3U);
  put_varint(message, value);
}

void put_bytes(std::string& message, std::uint64_t field, std::string_view bytes) {
  put_varint(message, (field << 3U) | 2U);
  put_varint(message, bytes.size());
  message += bytes;
}

}  // namespace remora::wire
