// SPDX-License-Identifier: Apache-2.0
//
// How this project runs CBC. Only for builds with it, and only for this engine's .cpp files.
#pragma once

// The other headers of CBC need its first one first.
// clang-format off
#include <CbcModel.hpp>
// clang-format on
#include <span>

#include <OsiClpSolverInterface.hpp>

#include "engine/bound/cover_mip.hpp"

namespace remora {

/// Makes the solver, and copies of it, silent and leave signals alone: Clp would catch SIGINT for itself.
void prepare(OsiClpSolverInterface& solver);

/// The kinds of cuts that CBC's own program looks for, each at the root and where it helps.
void add_cut_generators(CbcModel& model);

/// Solves the model with every column integer and whole costs, in silence, within the limits and `seconds`.
void run_cbc(CbcModel& model, const CoverMipLimits& limits, double seconds);

/// The greatest common divisor of the costs, at least 1.
std::int64_t common_unit(std::span<const std::int64_t> costs);

/// False where CBC's value is none, or where it calls the program infeasible.
bool says_something(const CbcModel& model, double value);

/// How often `unit` goes into the amount, rounded down.
inline double whole_units(std::int64_t amount, std::int64_t unit) {
  const std::int64_t units = amount / unit;
  return static_cast<double>(units);
}

/// The same, rounded up, for an amount of at least 1.
inline double whole_units_up(std::int64_t amount, std::int64_t unit) {
  return whole_units(amount - 1, unit) + 1;
}

/// The bound that a value of CBC's, in multiples of `unit`, stands for: costs are whole, so it is rounded up, after
/// what double precision and tolerances may have added is taken off.
Duration safe_bound(double units, std::int64_t unit);

}  // namespace remora
