// SPDX-License-Identifier: Apache-2.0
//
// fuzz_retention SECONDS [FIRST_SEED]: the checks of optimum_test.cpp on fresh random problems until the time is over.
// Prints the first disagreement, with the seed that shows it again, and exits with 1.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>

#include "tests/cp/oracle_check.hpp"

namespace {

using remora::OrderMode;

constexpr remora::test::ProblemKind kKinds[] = {
    {.order = OrderMode::input},
    {.order = OrderMode::input, .least_ops = 7, .most_ops = 8},
    {.order = OrderMode::input, .with_modes = true, .most_ops = 5},
    {.order = OrderMode::free, .most_ops = 4},
    {.order = OrderMode::free, .least_ops = 5, .most_ops = 7, .most_computes = 2},
    {.order = OrderMode::free, .with_modes = true, .most_ops = 4},
    {.order = OrderMode::input, .in_place = true},
    {.order = OrderMode::input, .with_modes = true, .most_ops = 5, .in_place = true},
    {.order = OrderMode::free, .most_ops = 4, .in_place = true},
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::cerr << "usage: fuzz_retention SECONDS [FIRST_SEED]\n";
    return EXIT_FAILURE;
  }
  const std::chrono::duration<double> limit(std::stod(argv[1]));
  auto seed = static_cast<std::uint32_t>(argc > 2 ? std::stoul(argv[2]) : 1'000'000);
  const auto begin = std::chrono::steady_clock::now();
  remora::test::OracleTally tally;
  for (; std::chrono::steady_clock::now() - begin < limit && tally.failure.empty(); ++seed) {
    for (const auto& kind : kKinds) remora::test::check_random_graph(seed, kind, tally);
  }
  std::cout << tally.cases << " cases up to seed " << seed << ", " << tally.feasible << " feasible, "
            << tally.recomputing << " with recomputes\n";
  if (tally.failure.empty()) return EXIT_SUCCESS;
  std::cerr << tally.failure << "\n";
  return EXIT_FAILURE;
}
