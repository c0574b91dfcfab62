// SPDX-License-Identifier: Apache-2.0
//
// How CBC and Clp are given Checkmate's programs. Only for builds with CBC.
#pragma once

#include <span>

#include "engine/baselines/checkmate/program.hpp"
#include "engine/bound/cbc.hpp"

namespace remora::checkmate {

/// Fills the solver, silent and without a hand on signals. Costs are in multiples of `unit`.
void load(const Program& program, std::int64_t unit, OsiClpSolverInterface& solver);

/// What the prices of a program's rows prove: no solution of the linear program costs less, in multiples of `unit`. For
/// each price, sum over rows of price * side + sum over columns of the least of reduced cost * value (weak duality), so
/// that it holds whatever the tolerances of the solver, up to rounding.
double priced_bound(const Program& program, std::int64_t unit, std::span<const double> prices);

}  // namespace remora::checkmate
