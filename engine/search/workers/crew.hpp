// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/options.hpp"
#include "engine/search/mix.hpp"
#include "model/instance.hpp"

namespace remora {

/// The workers that a strategy which searches sends into a phase (1 or 2).
Mix make_mix(const Instance& instance, const SolveOptions& options, int phase);

}  // namespace remora
