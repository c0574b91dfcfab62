// SPDX-License-Identifier: Apache-2.0
//
// Version of stored answers: the keys of stores of groups' schedules, of batches and of remora.torch's caches hold it,
// so
// that an answer of another engine is never taken for one of this.
#pragma once

#include <cstdint>
#include <string>

#include "model/api.hpp"

namespace remora {

/// The version, and a number that goes up with every change of what the engine answers: "1.2.3, answers 4".
REMORA_API std::string engine_schema();

/// Digest of the answers of tests/engine/schema_test.cpp, as this number's engine gives them.
std::uint64_t recorded_answers();

}  // namespace remora
