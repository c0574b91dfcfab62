// SPDX-License-Identifier: Apache-2.0
#include "frontends/text/csv.hpp"

namespace remora::text {

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string field = "\"";
  for (const char character : text) {
    if (character == '"') field += '"';
    field += character;
  }
  return field + '"';
}

}  // namespace remora::text
