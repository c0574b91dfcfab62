// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include "model/api.hpp"

namespace remora {

/// Bad input: one line that says where (file, then the path inside it), what is wrong, and what to do. `remora` prints
/// it and exits with 65. Infeasibility and time-outs are statuses, never exceptions.
class REMORA_API InputError : public std::runtime_error {
 public:
  /// `place`: where the value stands, for example "$.ops[3].inputs[0]" or "node conv1"; may be empty.
  InputError(std::string place, const std::string& what)
      : std::runtime_error(place.empty() ? what : place + ": " + what), place_(std::move(place)) {}

  [[nodiscard]] const std::string& place() const { return place_; }

 private:
  std::string place_;
};

/// An assertion that also runs in optimised builds: throws std::logic_error, which `remora` reports as an internal
/// error (exit 70). For broken invariants only; bad input is an InputError. The place is the caller's (the built-ins
/// because clang-tidy 14 does not know std::source_location).
inline void ensure(bool holds, const char* what, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  if (!holds) [[unlikely]] {
    throw std::logic_error(std::string(file) + ":" + std::to_string(line) + ": " + what);
  }
}

}  // namespace remora
