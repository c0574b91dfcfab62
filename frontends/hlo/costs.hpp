// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "frontends/hlo/module.hpp"
#include "frontends/machine/machine.hpp"
#include "model/types.hpp"

namespace remora::hlo {

/// What one run of the instruction takes by the roofline, in nanoseconds, rounded up; of what calls computations, theirs included.
Duration duration_of(const Module& module, std::size_t computation, std::size_t instruction, const Machine& machine);

}  // namespace remora::hlo
