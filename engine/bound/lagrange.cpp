// SPDX-License-Identifier: Apache-2.0
#include "engine/bound/lagrange.hpp"

#include <algorithm>
#include <cmath>

#include "model/table.hpp"

namespace remora {
namespace {

/// Prices become integers of at most this many bits. With sizes and durations within 50 bits, sums stay within 127.
constexpr int kPriceBits = 38;
constexpr int kMostShift = 60;

struct IntegerPrices {
  std::vector<std::int64_t> prices{};
  /// A price of 1 means 2^-shift durations a byte.
  int shift = 0;
};

/// Events that hold the budget ask for nothing, whatever their price.
IntegerPrices round_prices(const CoverProblem& problem, std::span<const double> prices) {
  double largest = 0;
  for (const double price : prices) largest = std::max(largest, price);
  IntegerPrices result;
  if (largest > 0) {
    int exponent = 0;
    std::frexp(largest, &exponent);
    result.shift = std::clamp(kPriceBits - exponent, 0, kMostShift);
  }
  for (const double price : prices) {
    const double scaled = std::ldexp(std::max(0.0, price), result.shift);
    // A price out of all proportion is cut off; any price is valid.
    const bool asks = problem.excess[result.prices.size()] > Bytes(0);
    result.prices.push_back(asks ? static_cast<std::int64_t>(std::min(scaled, std::ldexp(1.0, kPriceBits + 1))) : 0);
  }
  return result;
}

Wide demand(const CoverProblem& problem, const IntegerPrices& rounded) {
  Wide total = 0;
  for (std::size_t k = 0; k < problem.excess.size(); ++k) {
    total += Wide{rounded.prices[k]} * problem.excess[k].count();
  }
  return total;
}

/// What each item earns at the prices; no more at an event than its excess asks for.
std::vector<Wide> rewards(const CoverProblem& problem, const IntegerPrices& rounded) {
  std::vector<Stage> priced;
  for (std::size_t k = 0; k < rounded.prices.size(); ++k) {
    if (rounded.prices[k] > 0) priced.push_back(static_cast<Stage>(k));
  }
  std::vector<Wide> result;
  for (const CoverItem& item : problem.items) {
    Wide reward = 0;
    item.for_each_stretch([&](Stage first, Stage last) {
      for (auto k = std::lower_bound(priced.begin(), priced.end(), first); k != priced.end() && *k <= last; ++k) {
        const auto event = at(*k);
        reward += Wide{rounded.prices[event]} * std::min(item.gain(*k), problem.excess[event]).count();
      }
    });
    result.push_back(reward);
  }
  return result;
}

Wide ceiling(Wide value, int shift) {
  const Wide unit = Wide{1} << shift;
  const Wide quotient = value / unit;
  return value % unit > 0 ? quotient + 1 : quotient;
}

}  // namespace

PricedBound priced_bound(const CoverProblem& problem, std::span<const double> prices) {
  const IntegerPrices rounded = round_prices(problem, prices);
  const auto earned = rewards(problem, rounded);
  const auto reduced = [&](std::size_t i) {
    return (Wide{problem.items[i].cost.count()} << rounded.shift) - earned[i];
  };
  Wide bound = demand(problem, rounded);
  std::vector<Wide> extra(problem.items.size(), 0);
  std::vector<Wide> sorted;
  problem.for_each_op([&](std::size_t begin, std::size_t end, std::size_t limit) {
    sorted.clear();
    for (std::size_t i = begin; i < end; ++i) sorted.push_back(std::min(Wide{0}, reduced(i)));
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t n = 0; n < limit; ++n) bound += sorted[n];
    // With item i in, the best limit - 1 of the others: the one that makes room is the last of the best `limit`.
    const Wide last_in = limit > 0 ? sorted[limit - 1] : Wide{0};
    for (std::size_t i = begin; i < end; ++i) extra[i] = std::max(Wide{0}, reduced(i) - last_in);
  });
  PricedBound result;
  // Costs are not negative: neither is the bound, from which the penalties are counted.
  const Wide whole = std::max(Wide{0}, ceiling(bound, rounded.shift));
  result.bound = Duration(static_cast<std::int64_t>(whole));
  for (const Wide more : extra) {
    const Wide with = std::max(Wide{0}, ceiling(bound + more, rounded.shift) - whole);
    result.penalties.emplace_back(static_cast<std::int64_t>(std::min(with, Wide{Duration::max().count()} / 4)));
  }
  return result;
}

bool proves_infeasible(const CoverProblem& problem, std::span<const double> prices) {
  const IntegerPrices rounded = round_prices(problem, prices);
  const auto earned = rewards(problem, rounded);
  Wide most = 0;
  std::vector<Wide> sorted;
  problem.for_each_op([&](std::size_t begin, std::size_t end, std::size_t limit) {
    sorted.assign(earned.begin() + static_cast<std::ptrdiff_t>(begin),
                  earned.begin() + static_cast<std::ptrdiff_t>(end));
    std::sort(sorted.rbegin(), sorted.rend());
    for (std::size_t n = 0; n < limit; ++n) most += sorted[n];
  });
  return most < demand(problem, rounded);
}

}  // namespace remora
