// SPDX-License-Identifier: Apache-2.0
//
// The options of a family of generated graphs. A row of the family's table makes the range check here, and the option
// and its help on the command line (frontends/cli/generate_command.cpp); the default is the field's own.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <type_traits>
#include <variant>

#include "model/error.hpp"

namespace remora::generate {

/// One option of a family whose options are the struct `Options`. Without a value, an optional field means that the
/// family chooses.
template <class Options>
struct OptionRow {
  /// As the command line spells it, without the dashes.
  const char* name;
  std::variant<std::int64_t Options::*, std::optional<std::int64_t> Options::*, std::optional<double> Options::*> field;
  /// The range, closed.
  std::int64_t least;
  std::int64_t most;
  /// One line, with the unit.
  const char* help;
};

/// "2 to 200000".
template <class Options>
std::string range_text(const OptionRow<Options>& row) {
  return std::to_string(row.least) + " to " + std::to_string(row.most);
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
          if constexpr (std::is_arithmetic_v<std::remove_cvref_t<decltype(options.*field)>>) {
            check(row, options.*field);
          } else if (options.*field) {
            check(row, *(options.*field));
          }
        },
        row.field);
  }
}

}  // namespace remora::generate
