// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace remora {

/// `text` in double quotes, fit for a message of one line: control characters and bytes that are not UTF-8 appear as
/// \xHH, quotes and backslashes with a backslash, and what exceeds about 80 bytes is cut ("conv_1_very_lo..."). For the
/// eyes only: it is not JSON.
std::string quote(std::string_view text);

/// The same without the quotes, for columns of names.
std::string printable(std::string_view text);

/// The texts of `items` with ", " between them; `text_of` makes one of an item.
template <class Items, class TextOf>
std::string list_text(const Items& items, const TextOf& text_of) {
  std::string list;
  bool is_first = true;
  for (const auto& item : items) {
    list.append(is_first ? "" : ", ").append(text_of(item));
    is_first = false;
  }
  return list;
}
inline std::string list_text(const auto& names) {
  return list_text(
      names, [](const auto& name) -> const auto& { return name; });
}

/// True if `text` is well-formed UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF).
bool is_utf8(std::string_view text);

}  // namespace remora
