// SPDX-License-Identifier: Apache-2.0
//
// The covering relaxation of the free order. At op k's first compute everything is resident that k reads and writes;
// moreover each tensor that an ancestor of k computes and some descendant of k reads (or that must be kept), unless its
// producer runs again later. That holds in whatever order, because ancestors come before k and descendants after it. An
// op that gives way at several events may do so with a single recompute, so it is paid once.
#pragma once

#include "engine/bound/covering.hpp"

namespace remora {

/// Graphs with more ops get no items: the bound is 0 then, and only an event that exceeds the budget anyway is seen.
inline constexpr int kMostOpsOfFreeRelaxation = 2'000;

CoverProblem free_order_relaxation(const Instance& instance);

}  // namespace remora
