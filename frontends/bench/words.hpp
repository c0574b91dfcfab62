// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "frontends/formats/document.hpp"

namespace remora::bench {

/// The list of strings under the key; empty where it is missing. Throws InputError with the JSON path.
std::vector<std::string> read_words(const json::Node& node, std::string_view key);

/// Every `mark` in the text becomes `value`.
void replace_all(std::string& text, std::string_view mark, std::string_view value);

}  // namespace remora::bench
