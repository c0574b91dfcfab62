// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

#include "model/api.hpp"

namespace remora {

/// Bad input: one line that says where (file, then the path inside it), what is wrong, and what to do. `remora` prints
/// it and exits with 65. Infeasibility and time-outs are statuses, never exceptions.
///
/// The place is one of an input ("$.ops[3].inputs[0]" of JSON, "ops[3].inputs[0]" of a Graph, "node conv1") or the name of an option or argument ("max_computes"),
/// which each front end spells in its own way.
class REMORA_API InputError : public std::runtime_error {
 public:
  enum class Place : std::uint8_t {
    input,   ///< of an input; it may be empty
    option,  ///< the name of an option or an argument
    name     ///< of an input, where the name of what is not there stands
  };

  InputError(std::string place, const std::string& what, Place kind = Place::input)
      : std::runtime_error(place.empty() ? what : place + ": " + what), place_(std::move(place)), kind_(kind) {}
  static InputError of_option(std::string name, const std::string& what) {
    return {std::move(name), what, Place::option};
  }

  [[nodiscard]] const std::string& place() const { return place_; }
  [[nodiscard]] Place kind() const { return kind_; }
  /// The description of the error, without the place.
  [[nodiscard]] std::string fault() const { return what() + (place_.empty() ? 0 : place_.size() + 2); }

 private:
  std::string place_;
  Place kind_;
};

/// An assertion that also runs in optimised builds: throws std::logic_error, which `remora` reports as an internal
/// error (exit 70). For broken invariants only; bad input is an InputError. The place is the caller's (by built-ins,
/// since clang-tidy 14 does not support std::source_location).
inline void ensure(bool holds, const char* what, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  if (!holds) [[unlikely]] {
    throw std::logic_error(std::string(file) + ":" + std::to_string(line) + ": " + what);
  }
}

}  // namespace remora
