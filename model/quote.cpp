// SPDX-License-Identifier: Apache-2.0
#include "model/quote.hpp"

#include <cstddef>

namespace remora {
namespace {

constexpr std::size_t kLongest = 80;

/// The length of the well-formed UTF-8 sequence that `text` (not empty) starts with, or 0 (RFC 3629, section 4).
std::size_t sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  const std::size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  // The second byte's range is narrower after these four: overlong forms, surrogates, beyond the last code point.
  if (first == 0xE0 && byte(1) < 0xA0) return 0;
  if (first == 0xED && byte(1) > 0x9F) return 0;
  if (first == 0xF0 && byte(1) < 0x90) return 0;
  if (first == 0xF4 && byte(1) > 0x8F) return 0;
  return length;
}

std::string hexadecimal(unsigned char byte) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  return {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
}

}  // namespace

std::string quote(std::string_view text) {
  std::string result = "\"";
  while (!text.empty()) {
    if (result.size() > kLongest) {
      result += "...";
      break;
    }
    const std::size_t length = sequence_length(text);
    const auto first = static_cast<unsigned char>(text.front());
    if (length == 0 || first < 0x20 || first == 0x7F) {
      result += hexadecimal(first);
      text.remove_prefix(1);
      continue;
    }
    if (first == '"' || first == '\\') result += '\\';
    result += text.substr(0, length);
    text.remove_prefix(length);
  }
  return result + '"';
}

std::string printable(std::string_view text) {
  const std::string quoted = quote(text);
  return quoted.substr(1, quoted.size() - 2);
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = sequence_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace remora
