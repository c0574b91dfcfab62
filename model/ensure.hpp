// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

namespace remora {

/// An assertion that also runs in optimised builds: throws std::logic_error, which `remora` reports as an internal
/// error (exit 70). For broken invariants only; bad input is an InputError. The place is the caller's (the built-ins
/// because clang-tidy 14 does not know std::source_location).
inline void ensure(bool holds, const char* what, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  if (!holds) [[unlikely]] {
    throw std::logic_error(std::string(file) + ":" + std::to_string(line) + ": " + what);
  }
}

}  // namespace remora
