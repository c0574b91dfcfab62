// SPDX-License-Identifier: Apache-2.0
//
// The parameters of an architecture and the values that a user gave them.
//
// A Parameter is one row of an architecture's table: it makes the command-line option, the range check and the help.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace remora::zoo {

/// What the user asked for makes no sense: one line, exit code 64.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A whole number in [minimum, maximum].
struct Range {
  std::int64_t initial = 0;
  std::int64_t minimum = 1;
  std::int64_t maximum = 1;
};

/// One of these words; the first is the default.
using Choices = std::vector<std::string>;

/// Several whole numbers, with commas between: always as many as `initial` has, each in [minimum, maximum].
struct Ranges {
  std::vector<std::int64_t> initial{};
  std::int64_t minimum = 1;
  std::int64_t maximum = 1;
};

struct Parameter {
  std::string name{};
  std::variant<Range, Choices, Ranges> domain{};
  /// One line, with the unit.
  std::string help{};
};

/// The default as it would be typed.
std::string default_text(const Parameter& parameter);

/// The admissible values as help and errors show them: "1..64", "same|valid" or "1..9,1..9".
std::string domain_text(const Parameter& parameter);

/// A value for every parameter of one architecture.
class Settings {
 public:
  /// Defaults, replaced by `given` (name to text). Throws UsageError on a name that no parameter has, on a number out
  /// of range or followed by anything, on a wrong count of numbers, and on a word that is no choice.
  Settings(std::span<const Parameter> parameters, const std::map<std::string, std::string>& given);

  /// The value of a whole-number parameter. Throws std::logic_error if there is none of that name.
  [[nodiscard]] std::int64_t number(std::string_view name) const;

  /// The value of a choice. Throws std::logic_error if there is none of that name.
  [[nodiscard]] const std::string& choice(std::string_view name) const;

  /// The values of a parameter of several numbers. Throws std::logic_error if there is none of that name.
  [[nodiscard]] const std::vector<std::int64_t>& numbers(std::string_view name) const;

  /// Every value as text, by name.
  [[nodiscard]] std::map<std::string, std::string> texts() const;

 private:
  using Value = std::variant<std::int64_t, std::string, std::vector<std::int64_t>>;
  [[nodiscard]] const Value& value(std::string_view name) const;

  std::map<std::string, Value, std::less<>> values_;
};

/// Throws UsageError("`what`") unless `condition`: for conditions that tie several parameters together.
void require(bool condition, const std::string& what);

}  // namespace remora::zoo
