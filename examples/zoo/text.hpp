// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sstream>
#include <string>
#include <utility>

namespace remora::zoo {

/// The parts one after the other: text("block", 3) is "block3". GCC 12 warns wrongly
/// (-Wrestrict, its bug 105651) of the same with operator+ and std::to_string.
template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream stream;
  (stream << ... << parts);
  return std::move(stream).str();
}

}  // namespace remora::zoo
