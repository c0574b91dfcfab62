// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/api.hpp"

namespace remora {

/// The project's version, "major.minor.patch".
REMORA_API const char* version();

}  // namespace remora
