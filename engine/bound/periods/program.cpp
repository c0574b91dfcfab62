// SPDX-License-Identifier: Apache-2.0
#include "engine/bound/periods/program.hpp"

#include <algorithm>
#include <cmath>

namespace remora {
namespace {

/// Of the 127 bits of a sum, and the most that a price is multiplied by: 2^kMostShift.
constexpr int kBitsOfSums = 120;
constexpr int kMostShift = 70;

struct WholePrices {
  std::vector<Wide> prices{};
  /// A price of 1 means 2^-shift.
  int shift = 0;
};

/// As fine as the sums below allow.
WholePrices round_prices(const Program& program, std::span<const double> prices) {
  double most = 1;
  for (const std::int64_t cost : program.costs) most += std::abs(static_cast<double>(cost));
  for (std::size_t r = 0; r < program.rows.size(); ++r) {
    double row = std::abs(static_cast<double>(program.rows[r].least));
    for (const ProgramTerm& term : program.rows[r].terms) row += std::abs(static_cast<double>(term.factor));
    most += std::max(0.0, prices[r]) * row;
  }
  int exponent = 0;
  std::frexp(most, &exponent);
  WholePrices result;
  if (!std::isfinite(most) || exponent > kBitsOfSums) {
    result.prices.assign(program.rows.size(), 0);
    return result;
  }
  result.shift = std::min(kMostShift, kBitsOfSums - exponent);
  for (const double price : prices) {
    result.prices.push_back(static_cast<Wide>(std::ldexp(std::max(0.0, price), result.shift)));
  }
  return result;
}

std::vector<Wide> reduced_costs(const Program& program, const WholePrices& rounded, bool with_costs) {
  std::vector<Wide> reduced(program.costs.size(), 0);
  for (std::size_t j = 0; with_costs && j < reduced.size(); ++j) {
    reduced[j] = Wide{program.costs[j]} << rounded.shift;
  }
  for (std::size_t r = 0; r < program.rows.size(); ++r) {
    if (rounded.prices[r] == 0) continue;
    for (const ProgramTerm& term : program.rows[r].terms) {
      reduced[static_cast<std::size_t>(term.column)] -= rounded.prices[r] * term.factor;
    }
  }
  return reduced;
}

Wide least_sum(const Program& program, const WholePrices& rounded, const std::vector<Wide>& reduced) {
  Wide sum = 0;
  for (std::size_t r = 0; r < program.rows.size(); ++r) sum += rounded.prices[r] * program.rows[r].least;
  for (std::size_t j = 0; j < reduced.size(); ++j) {
    if (!program.out[j]) sum += std::min(Wide{0}, reduced[j]);
  }
  return sum;
}

}  // namespace

ProgramBound program_bound(const Program& program, std::span<const double> prices) {
  const WholePrices rounded = round_prices(program, prices);
  const std::vector<Wide> reduced = reduced_costs(program, rounded, true);
  const Wide sum = least_sum(program, rounded, reduced);
  // Costs are not negative: neither is the bound, from which the penalties are counted.
  const Wide whole = std::max(Wide{0}, ceiling(sum, rounded.shift));
  ProgramBound result{Duration(static_cast<std::int64_t>(whole)), {}};
  constexpr Wide kMost = Duration::max().count() / 4;
  for (const Wide more : reduced) {
    const Wide with = ceiling(sum + std::max(Wide{0}, more), rounded.shift) - whole;
    result.penalties.emplace_back(static_cast<std::int64_t>(std::clamp(with, Wide{0}, kMost)));
  }
  return result;
}

bool proves_no_solution(const Program& program, std::span<const double> prices) {
  const WholePrices rounded = round_prices(program, prices);
  return least_sum(program, rounded, reduced_costs(program, rounded, false)) > 0;
}

}  // namespace remora
