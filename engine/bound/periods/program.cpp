// SPDX-License-Identifier: Apache-2.0
#include "engine/bound/periods/program.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <set>
#include <utility>

namespace remora {
namespace {

/// The number of bits, of 127, for a sum, and the largest shift of a price: 2^kMaxShift.
constexpr int kBitsOfSums = 120;
constexpr int kMaxShift = 70;

bool is_one(double value) {
  return value > 0.5;
}

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
  result.shift = std::min(kMaxShift, kBitsOfSums - exponent);
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

// Rounding.

/// Columns nearer to 0 or 1 are taken for whole.
constexpr double kNearlyWhole = 1e-6;
/// By how much of its length a row must be violated.
constexpr double kMinViolation = 1e-4;
/// Rows with larger factors are rounded, and by these parts of theirs.
constexpr std::int64_t kLargeFactor = 1;
constexpr std::array<std::int64_t, 3> kParts{1, 2, 4};
constexpr std::size_t kMaxOfRow = 20;
/// Amounts beyond this are not rounded.
constexpr Wide kMaxAmount = Wide{1} << 61;

std::int64_t divided_down(std::int64_t amount, std::int64_t divisor) {
  return amount / divisor - (amount % divisor < 0 ? 1 : 0);
}

struct RoundedRow {
  ProgramRow row{};
  /// Along the row's normal.
  double violation = 0;
};

/// With z(j) = x(j), or 1 - x(j) where the solution is above a half, the row says: sum of a(j) z(j) >= b. For a divisor d let r be
/// the remainder of b, above 0. Then  F(a) = r floor(a / d) + min(a mod d, r)  does not decrease, F(a + b) <= F(a) + F(b), and
/// F(0) = 0, so that for whole z  sum of F(a(j)) z(j) >= F(b).
std::optional<RoundedRow> round_row(const ProgramRow& row, std::int64_t divisor, std::span<const double> solution) {
  const auto is_turned = [&](const ProgramTerm& term) { return solution[static_cast<std::size_t>(term.column)] > 0.5; };
  Wide asked = row.least;
  for (const ProgramTerm& term : row.terms) asked -= is_turned(term) ? term.factor : 0;
  if (asked > kMaxAmount || asked < -kMaxAmount) return std::nullopt;
  const auto least = static_cast<std::int64_t>(asked);
  const std::int64_t down = divided_down(least, divisor);
  const std::int64_t remainder = least - down * divisor;
  if (remainder == 0) return std::nullopt;
  RoundedRow result;
  Wide sum = Wide{remainder} * (down + 1);
  double missing = 0;
  double square = 0;
  for (const ProgramTerm& term : row.terms) {
    const std::int64_t factor = is_turned(term) ? -term.factor : term.factor;
    const std::int64_t times = divided_down(factor, divisor);
    std::int64_t rounded = remainder * times + std::min(factor - times * divisor, remainder);
    if (rounded == 0) continue;
    if (is_turned(term)) sum -= std::exchange(rounded, -rounded);
    result.row.terms.push_back({term.column, rounded});
    missing -= static_cast<double>(rounded) * solution[static_cast<std::size_t>(term.column)];
    square += static_cast<double>(rounded) * static_cast<double>(rounded);
  }
  if (sum > kMaxAmount || sum < -kMaxAmount || square == 0) return std::nullopt;
  result.row.least = static_cast<std::int64_t>(sum);
  result.violation = (missing + static_cast<double>(result.row.least)) / std::sqrt(square);
  return result;
}

/// Divisors worth trying: coefficients of columns that are neither 0 nor 1, and parts of them.
std::set<std::int64_t> divisors_of(const ProgramRow& row, std::span<const double> solution) {
  std::set<std::int64_t> divisors;
  for (const ProgramTerm& term : row.terms) {
    const double value = solution[static_cast<std::size_t>(term.column)];
    if (value < kNearlyWhole || value > 1 - kNearlyWhole) continue;
    for (const std::int64_t part : kParts) divisors.insert(std::abs(term.factor) / part);
  }
  divisors.erase(divisors.begin(), divisors.upper_bound(kLargeFactor));
  return divisors;
}

}  // namespace

std::vector<ProgramRow> rounded_rows(const Program& program, std::size_t rows, std::span<const double> solution) {
  std::vector<ProgramRow> found;
  for (std::size_t r = 0; r < rows; ++r) {
    std::vector<RoundedRow> candidates;
    for (const std::int64_t divisor : divisors_of(program.rows[r], solution)) {
      auto rounded = round_row(program.rows[r], divisor, solution);
      if (rounded && rounded->violation > kMinViolation) candidates.push_back(*std::move(rounded));
    }
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const RoundedRow& a, const RoundedRow& b) { return a.violation > b.violation; });
    candidates.resize(std::min(candidates.size(), kMaxOfRow));
    for (RoundedRow& candidate : candidates) found.push_back(std::move(candidate.row));
  }
  return found;
}

std::vector<ProgramRow> violated_rows(const Program& program, std::span<const double> solution) {
  std::vector<ProgramRow> found;
  for (const ProgramRow& row : program.more) {
    double sum = 0;
    for (const ProgramTerm& term : row.terms) sum += static_cast<double>(term.factor) * solution[at(term.column)];
    if (sum < static_cast<double>(row.least) - kMinViolation) found.push_back(row);
  }
  return found;
}

ProgramBound program_bound(const Program& program, std::span<const double> prices) {
  const WholePrices rounded = round_prices(program, prices);
  const std::vector<Wide> reduced = reduced_costs(program, rounded, true);
  const Wide sum = least_sum(program, rounded, reduced);
  // Costs are not negative: neither is the bound, from which the penalties are counted.
  const Wide whole = std::max(Wide{0}, cutoff(sum, rounded.shift));
  ProgramBound result{Duration(static_cast<std::int64_t>(whole)), {}};
  constexpr Wide kMaximum = Duration::max().count() / 4;
  for (const Wide more : reduced) {
    const Wide with = cutoff(sum + std::max(Wide{0}, more), rounded.shift) - whole;
    result.penalties.emplace_back(static_cast<std::int64_t>(std::clamp(with, Wide{0}, kMaximum)));
  }
  return result;
}

bool proves_no_solution(const Program& program, std::span<const double> prices) {
  const WholePrices rounded = round_prices(program, prices);
  return least_sum(program, rounded, reduced_costs(program, rounded, false)) > 0;
}

RestrictedProgram restricted(const Program& program, const std::vector<bool>& open, std::span<const double> solution) {
  RestrictedProgram result;
  std::vector<int> numbers(open.size(), -1);
  for (std::size_t j = 0; j < open.size(); ++j) {
    if (!open[j]) {
      if (is_one(solution[j])) result.cost += program.costs[j];
      continue;
    }
    numbers[j] = result.program.add_column(program.costs[j]);
    result.program.out.back() = program.out[j];
    result.columns.push_back(static_cast<int>(j));
  }
  for (const ProgramRow& row : program.rows) {
    ProgramRow left{.least = row.least};
    std::int64_t fewest = 0;
    for (const ProgramTerm& term : row.terms) {
      const auto j = static_cast<std::size_t>(term.column);
      if (open[j]) {
        left.terms.push_back({numbers[j], term.factor});
        fewest += std::min<std::int64_t>(0, term.factor);
      } else if (is_one(solution[j])) {
        left.least -= term.factor;
      }
    }
    if (fewest < left.least) result.program.rows.push_back(std::move(left));
  }
  return result;
}

bool holds(const Program& program, std::span<const double> solution) {
  return std::all_of(program.rows.begin(), program.rows.end(), [&](const ProgramRow& row) {
    std::int64_t sum = 0;
    for (const ProgramTerm& term : row.terms) {
      if (is_one(solution[static_cast<std::size_t>(term.column)])) sum += term.factor;
    }
    return sum >= row.least;
  });
}

std::int64_t cost_of(const Program& program, std::span<const double> solution) {
  std::int64_t cost = 0;
  for (std::size_t j = 0; j < solution.size(); ++j) cost += is_one(solution[j]) ? program.costs[j] : 0;
  return cost;
}

}  // namespace remora
