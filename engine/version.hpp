// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace remora {

/// The project's version, "major.minor.patch".
const char* version();

}  // namespace remora
