// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <utility>

#include "frontends/cli/reading/arguments.hpp"

namespace remora::cli {

/// The value that stands for `word` in a table of words, or a UsageError that lists them.
template <class T, std::size_t N>
T choose(const std::string& option, const std::string& word, const std::array<std::pair<const char*, T>, N>& table) {
  std::string words;
  for (const auto& [name, value] : table) {
    if (word == name) return value;
    words += words.empty() ? name : std::string(", ") + name;
  }
  throw UsageError("--" + option + ": '" + word + "' is none of " + words);
}

}  // namespace remora::cli
