// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "frontends/formats/document.hpp"
#include "frontends/machine/machine.hpp"

namespace remora {

/// A device file for graphs' `meta`; power where `with_power`.
json::Document machine_document(const Machine& machine, bool with_power = false);

}  // namespace remora
