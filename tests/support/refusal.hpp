// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "model/error.hpp"

namespace remora::test {

/// What the InputError says that the call throws; `otherwise` if it throws none.
template <class Call>
std::string refusal_of(const Call& call, const char* otherwise = "") {
  try {
    call();
  } catch (const InputError& error) {
    return error.what();
  }
  return otherwise;
}

}  // namespace remora::test
