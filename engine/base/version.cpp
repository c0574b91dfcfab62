// SPDX-License-Identifier: Apache-2.0
#include "engine/base/version.hpp"

namespace remora {

const char* version() {
  return REMORA_VERSION;
}

}  // namespace remora
