// SPDX-License-Identifier: Apache-2.0
//
// A 0-1 program with whole costs, minimised by COIN-OR CBC, for its bound.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/bound/cover_mip.hpp"

namespace remora {

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

}  // namespace remora
