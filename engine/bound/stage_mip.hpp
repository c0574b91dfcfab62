// SPDX-License-Identifier: Apache-2.0
//
// A stronger bound from COIN-OR CBC: a 0-1 program with whole costs, and the covering relaxation with stages as one.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/bound/cover_mip.hpp"
#include "engine/bound/covering.hpp"
#include "model/instance.hpp"

namespace remora {

// A 0-1 program with whole costs, minimised by COIN-OR CBC, for its bound.

/// The sum of factor * column is at least `least`.
struct MipRow {
  std::vector<int> columns{};
  std::vector<double> factors{};
  double least = 0;

  void add(int column, double factor) {
    columns.push_back(column);
    factors.push_back(factor);
  }
};

struct MipProgram {
  /// By column, not negative.
  std::vector<std::int64_t> costs{};
  std::vector<MipRow> rows{};
};

struct MipBound {
  /// No solution costs less; 0 without CBC, or if nothing is known.
  Duration bound{};
  bool complete = false;
};

MipBound solve_mip(const MipProgram& program, const CoverMipLimits& limits);

// The covering relaxation with stages: each gap given up chooses the stage of its (last) recompute, and what the
// recompute itself needs has to be there (staged form).
//
//   x(i,k)  item i is given up, its op's last recompute in there is in stage k: the tensor may be away up to then
//   r(v,k)  op v, whose outputs nobody reads any more in the input order, is recomputed in stage k, for recomputes
//   h(v,k)  or its outputs are held beyond their last use, at least to the first compute of op k
//
//   first computes   what is away, less what is held, covers the excess
//   limits           an op is recomputed at most C_v - 1 times
//   inputs           a recompute in stage k whose input is naturally dead there needs it held or recomputed:
//                    x(i,k) <= h(u,k-1) + r(u,k); and what is held was there before: h(u,k) <= h(u,k-1) + r(u,k)
//   own memory       at the recompute itself its op's inputs, outputs and workspace are resident beside all that is not
//                    away there
//
// Every schedule gives a solution of no more cost, so the optimum is a lower bound. On dense graphs it is far above the
// plain relaxation's (docs/bounds.md), at the price of columns for all stages: it is for graphs of a hundred ops or
// two. Ops with several outputs and what is read of them are left as they are in the plain relaxation.

/// How many columns the program would have.
std::int64_t stage_mip_columns(const Instance& instance, const CoverProblem& problem);

struct StageMipResult {
  /// No schedule of the staged form that holds the budget has less extra duration.
  Duration bound{};
  /// Solved to the end.
  bool complete = false;
};

/// `limits.cuts` are not used. Without CBC the bound is 0.
StageMipResult solve_stage_mip(const Instance& instance, const CoverProblem& problem, const CoverMipLimits& limits);

}  // namespace remora
