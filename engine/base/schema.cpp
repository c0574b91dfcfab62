// SPDX-License-Identifier: Apache-2.0
#include "engine/base/schema.hpp"

#include <array>

#include "engine/base/options.hpp"

namespace remora {
namespace {

/// One for each number, the first one 1. Lines are added, never changed: stores elsewhere hold the numbers.
constexpr std::array<std::uint64_t, 8> kAnswers{
    0xb9f743a4de291464, 0x5b965e8ab0bfa424, 0xc981249f0e219149, 0xd782f0ed8f2b8592,
    0xd69a6374c26e606b, 0xc9eba66e841dda1f, 0xb5256d75c5f7cb3f, 0x0f3a97069d0860d9,
};

}  // namespace

std::string engine_schema() {
  return std::string(version()) + ", answers " + std::to_string(kAnswers.size());
}

std::uint64_t recorded_answers() {
  return kAnswers.back();
}

}  // namespace remora
