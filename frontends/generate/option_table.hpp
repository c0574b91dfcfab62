// SPDX-License-Identifier: Apache-2.0
//
// The options of a family of generated graphs. A row of the family's table makes the range check here, and the option
// and its help on the command line (frontends/cli/commands/generate_command.cpp); the default is the field's own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include "model/error.hpp"
#include "model/quote.hpp"

namespace remora::generate {

/// One option of a family whose options are the struct `Options`. Without a value, an optional field means that the
/// family chooses.
template <class Options>
struct OptionRow {
  /// As the command line spells it, without the dashes.
  const char* name;
  std::variant<std::int64_t Options::*, std::optional<std::int64_t> Options::*, std::optional<double> Options::*,
               std::string Options::*>
      field;
  /// The range of a number, closed.
  std::int64_t least;
  std::int64_t most;
  /// One line, with the unit.
  const char* help;
  /// What a word can be.
  std::span<const std::string_view> words{};
};

/// The row of an option that is one of `words`, which must outlive it.
template <class Options>
constexpr OptionRow<Options> word_row(const char* name, std::string Options::*field,
                                      std::span<const std::string_view> words, const char* help) {
  return {name, field, 0, 0, help, words};
}

/// "2 to 200000" or "none, some, all".
template <class Options>
std::string range_text(const OptionRow<Options>& row) {
  if (row.words.empty()) return std::to_string(row.least) + " to " + std::to_string(row.most);
  std::string text;
  for (const std::string_view word : row.words) text += (text.empty() ? "" : ", ") + std::string(word);
  return text;
}

/// Throws InputError, placed at "--name", for a word that the row doesn't have.
template <class Options>
void check_word(const OptionRow<Options>& row, const std::string& word) {
  if (std::find(row.words.begin(), row.words.end(), word) != row.words.end()) return;
  throw InputError(std::string("--") + row.name, quote(word) + " is not one of " + range_text(row));
}

/// Throws InputError, placed at "--name", for an option out of its row's range.
template <class Options>
void check_options(const Options& options, std::span<const OptionRow<std::type_identity_t<Options>>> table) {
  const auto check = [](const auto& row, auto value) {
    using Number = decltype(value);
    // Written so that NaN fails too.
    if (value >= static_cast<Number>(row.least) && value <= static_cast<Number>(row.most)) return;
    std::ostringstream text;
    text << value << " is outside " << range_text(row);
    throw InputError(std::string("--") + row.name, std::move(text).str());
  };
  for (const OptionRow<Options>& row : table) {
    std::visit(
        [&](auto field) {
          using Field = std::remove_cvref_t<decltype(options.*field)>;
          if constexpr (std::is_same_v<Field, std::string>) {
            check_word(row, options.*field);
          } else if constexpr (std::is_arithmetic_v<Field>) {
            check(row, options.*field);
          } else if (options.*field) {
            check(row, *(options.*field));
          }
        },
        row.field);
  }
}

}  // namespace remora::generate
