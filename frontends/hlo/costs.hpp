// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "frontends/hlo/module.hpp"
#include "frontends/machine/machine.hpp"
#include "model/types.hpp"

namespace remora::hlo {

/// Duration of one run of the instruction by the roofline, in nanoseconds, rounded up; called computations included.
Duration duration_of(const Module& module, std::size_t computation, std::size_t instruction, const Machine& machine);

}  // namespace remora::hlo
