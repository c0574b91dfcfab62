// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <source_location>
#include <stdexcept>
#include <string>

namespace remora {

/// An assertion that also runs in optimised builds: throws std::logic_error, which `remora` reports as an internal
/// error (exit 70). For broken invariants only; bad input is an InputError.
inline void ensure(bool holds, const char* what, std::source_location where = std::source_location::current()) {
  if (!holds) [[unlikely]] {
    throw std::logic_error(std::string(where.file_name()) + ":" + std::to_string(where.line()) + ": " + what);
  }
}

}  // namespace remora
