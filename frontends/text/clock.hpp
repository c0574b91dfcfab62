// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace remora::text {

/// Now, UTC, ISO 8601.
std::string now_text();

}  // namespace remora::text
