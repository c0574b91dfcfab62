// SPDX-License-Identifier: Apache-2.0
#include "engine/bound/highs.hpp"

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/lingering.hpp"
#include "engine/bound/counted_seconds.hpp"
#include "engine/bound/cpu_seconds.hpp"
#include "tests/support/fewer.hpp"

namespace remora {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();

int random_below(std::mt19937& random, int end) {
  return static_cast<int>(random() % static_cast<unsigned>(end));
}

/// A BinaryProgram that owns what it says.
struct OwnedProgram {
  std::vector<double> costs{};
  std::vector<double> highest{};
  std::vector<int> begins{0};
  std::vector<int> columns{};
  std::vector<double> factors{};
  std::vector<double> least{};

  [[nodiscard]] BinaryProgram view() const { return {costs, highest, begins, columns, factors, least}; }
  void end_row(double at_least) {
    begins.push_back(static_cast<int>(columns.size()));
    least.push_back(at_least);
  }
  [[nodiscard]] bool holds(unsigned choice) const {
    for (std::size_t r = 0; r < least.size(); ++r) {
      double sum = 0;
      for (int k = begins[r]; k < begins[r + 1]; ++k) {
        const auto entry = static_cast<std::size_t>(k);
        sum += (choice >> static_cast<unsigned>(columns[entry])) % 2 * factors[entry];
      }
      if (sum < least[r]) return false;
    }
    return true;
  }
  [[nodiscard]] std::optional<double> optimum() const {
    std::optional<double> best;
    for (unsigned choice = 0; choice < 1U << costs.size(); ++choice) {
      double cost = 0;
      bool allowed = true;
      for (std::size_t j = 0; j < costs.size(); ++j) {
        if ((choice >> j) % 2 == 0) continue;
        cost += costs[j];
        allowed = allowed && highest[j] > 0;
      }
      if (allowed && (!best || cost < *best) && holds(choice)) best = cost;
    }
    return best;
  }
};

OwnedProgram random_program(std::mt19937& random) {
  OwnedProgram program;
  const int columns = 1 + random_below(random, 8);
  for (int j = 0; j < columns; ++j) {
    program.costs.push_back(random_below(random, 10));
    program.highest.push_back(random_below(random, 6) > 0 ? 1 : 0);
  }
  for (int rows = 1 + random_below(random, 6); rows > 0; --rows) {
    int reach = 0;
    for (int j = 0; j < columns; ++j) {
      if (random_below(random, 2) == 0) continue;
      const int factor = random_below(random, 19) - 9;
      if (factor == 0) continue;
      program.columns.push_back(j);
      program.factors.push_back(factor);
      reach += std::max(0, factor);
    }
    program.end_row(random_below(random, reach + 2));
  }
  return program;
}

/// Equations of which nobody knows whether they have a solution before seconds are over (Cornuéjols and Dawande 1998).
OwnedProgram market_split(std::mt19937& random) {
  constexpr int kColumns = 50;
  OwnedProgram program;
  program.costs.assign(kColumns, 1);
  program.highest.assign(kColumns, 1);
  for (int row = 0; row < 6; ++row) {
    std::vector<int> factors;
    int sum = 0;
    for (int j = 0; j < kColumns; ++j) sum += factors.emplace_back(random_below(random, 100));
    for (const int sign : {1, -1}) {
      for (int j = 0; j < kColumns; ++j) {
        program.columns.push_back(j);
        program.factors.push_back(sign * factors[static_cast<std::size_t>(j)]);
      }
      program.end_row(sign * (sum / 2));
    }
  }
  return program;
}

/// Covering, which takes some hundredths of a second.
OwnedProgram covering_program(std::mt19937& random) {
  constexpr int kColumns = 30;
  OwnedProgram program;
  for (int j = 0; j < kColumns; ++j) program.costs.push_back(10 + random_below(random, 10));
  program.highest.assign(kColumns, 1);
  for (int row = 0; row < 30; ++row) {
    int reach = 0;
    for (int j = 0; j < kColumns; ++j) {
      if (random_below(random, 6) > 0) continue;
      program.columns.push_back(j);
      program.factors.push_back(1 + random_below(random, 9));
      reach += static_cast<int>(program.factors.back());
    }
    program.end_row(reach / 4);
  }
  return program;
}

#define NEEDS_HIGHS() \
  if (find_highs().name.empty()) GTEST_SKIP() << "HiGHS is not there: " << find_highs().why_not

TEST(Highs, SolvesSmallProgramsAsBruteForceDoes) {
  NEEDS_HIGHS();
  std::mt19937 random(5);
  int solved = 0;
  int without = 0;
  for (int round = 0; round < test::fewer(4000); ++round) {
    SCOPED_TRACE(round);
    const OwnedProgram program = random_program(random);
    const std::optional<double> best = program.optimum();
    const double most = random_below(random, 2) == 0 ? kNone : random_below(random, 20);
    const HighsAnswer answer = run_highs(program.view(), most, {});
    ASSERT_TRUE(answer.complete);
    if (!best || *best > most) {
      ++without;
      ASSERT_TRUE(answer.solution.empty());
      continue;
    }
    ++solved;
    ASSERT_EQ(answer.solution.size(), program.costs.size());
    unsigned choice = 0;
    double cost = 0;
    for (std::size_t j = 0; j < answer.solution.size(); ++j) {
      const bool chosen = answer.solution[j] > 0.5;
      choice += (chosen ? 1U : 0U) << j;
      cost += chosen ? program.costs[j] : 0;
      ASSERT_TRUE(!chosen || program.highest[j] > 0);
    }
    ASSERT_TRUE(program.holds(choice));
    ASSERT_EQ(cost, *best);
    ASSERT_GT(answer.bound, *best - 1);
    ASSERT_LT(answer.bound, *best + 1e-6);
  }
  EXPECT_GT(solved, test::fewer(500));
  EXPECT_GT(without, test::fewer(400));
}

TEST(Highs, FindsTheOptimumThatItsVersionsFrom1Point12OnLose) {
  NEEDS_HIGHS();
  // Of the period relaxation of six ops. HiGHS 1.12.0, 1.13.0, 1.13.1 and 1.15.1 call a solution of 17 the optimum.
  struct Row {
    std::vector<std::pair<int, double>> terms;
    double least;
  };
  const std::vector<Row> rows{
      {{{0, 1}, {6, 1}, {7, -1}}, 0},  {{{0, -1}, {1, -1}}, -1},
      {{{2, -1}, {8, -1}}, -1},        {{{0, 1}, {2, -1}, {6, 1}}, 0},
      {{{0, 1}, {2, -1}, {5, 1}}, 0},  {{{3, -1}, {9, -1}}, -1},
      {{{3, 1}, {9, 1}, {10, -1}}, 0}, {{{4, -1}, {10, -1}}, -1},
      {{{4, 1}, {10, 1}}, 1},          {{{3, -1}, {4, -1}}, -1},
      {{{0, 1}, {3, -1}, {6, 1}}, 0},  {{{1, 1}, {4, -1}, {7, 1}}, 0},
      {{{6, 1}, {11, -1}}, 0},         {{{0, 1}, {3, -1}, {11, 1}, {12, -1}}, 0},
      {{{7, 1}, {12, -1}}, 0},         {{{1, 1}, {4, -1}, {12, 1}}, 0},
      {{{0, 1}, {6, 1}}, 1},           {{{0, 1}, {5, 1}}, 1},
      {{{2, 1}, {8, 1}}, 1},           {{{5, -1}, {8, -2}, {9, -6}}, -2},
  };
  OwnedProgram program;
  program.costs = {3, 3, 8, 9, 9, 0, 0, 0, 0, 0, 0, 0, 0};
  program.highest.assign(program.costs.size(), 1);
  for (const Row& row : rows) {
    for (const auto& [column, factor] : row.terms) {
      program.columns.push_back(column);
      program.factors.push_back(factor);
    }
    program.end_row(row.least);
  }
  constexpr double kOptimum = 12;
  ASSERT_EQ(program.optimum(), kOptimum);
  const HighsAnswer answer = run_highs(program.view(), kNone, {});
  EXPECT_TRUE(answer.complete);
  EXPECT_NEAR(answer.bound, kOptimum, 1e-6);
}

TEST(Highs, EndsAtOnceWhenItIsAskedToAndItsSecondsCount) {
  NEEDS_HIGHS();
  std::mt19937 random(7);
  const OwnedProgram program = market_split(random);
  for (const double seconds : {0.0, 0.02, 0.3}) {
    const double before = cpu_seconds_of_thread();
    const HighsAnswer answer =
        run_highs(program.view(), kNone, [&] { return cpu_seconds_of_thread() - before >= seconds; });
    EXPECT_FALSE(answer.complete);
    EXPECT_TRUE(answer.solution.empty());
    EXPECT_GE(cpu_seconds_of_thread() - before, seconds);
  }
  while (has_background_threads()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

TEST(Highs, KnowsABoundOfWhatWasEndedThatIsNeverAboveTheOptimum) {
  NEEDS_HIGHS();
  std::mt19937 random(9);
  int known = 0;
  for (int round = 0; round < test::fewer(160); ++round) {
    SCOPED_TRACE(round);
    const OwnedProgram program = covering_program(random);
    const double begin = cpu_seconds_of_thread();
    const HighsAnswer whole = run_highs(program.view(), kNone, {});
    ASSERT_TRUE(whole.complete && !whole.solution.empty());
    double best = 0;
    for (std::size_t j = 0; j < whole.solution.size(); ++j) best += std::round(whole.solution[j]) * program.costs[j];
    const double middle = cpu_seconds_of_thread();
    const double half = (middle - begin) / 2;
    const HighsAnswer part = run_highs(program.view(), kNone, [&] { return cpu_seconds_of_thread() - middle >= half; });
    known += !part.complete && part.bound > 0 ? 1 : 0;
    ASSERT_LE(part.bound, best + 1e-6);
  }
  EXPECT_GT(known, test::fewer(16));
}

/// What a run says that ends after so many counted milliseconds: its bound, and how much it had counted.
std::pair<double, std::int64_t> counted_run(const OwnedProgram& program, std::int64_t milliseconds) {
  const std::int64_t begin = counted_nanoseconds();
  const auto interrupted = [&] { return counted_nanoseconds() - begin >= 1'000'000 * milliseconds; };
  const HighsAnswer answer = run_highs(program.view(), kNone, interrupted, [] { return false; });
  return {answer.bound, counted_nanoseconds() - begin};
}

TEST(Highs, EndsAtTheSameStepWhereItsStepsAreCounted) {
  NEEDS_HIGHS();
  std::mt19937 random(11);
  int ended = 0;
  for (int round = 0; round < test::fewer(24); ++round) {
    SCOPED_TRACE(round);
    const OwnedProgram program = round % 2 == 0 ? covering_program(random) : market_split(random);
    const auto alone = counted_run(program, 5 * round);
    // The same beside threads that take the cores.
    std::atomic<bool> is_over = false;
    std::vector<std::thread> others;
    for (int i = 0; i < 4; ++i)
      others.emplace_back([&] {
        while (!is_over) {
        }
      });
    const auto beside = counted_run(program, 5 * round);
    is_over = true;
    for (std::thread& other : others) other.join();
    EXPECT_EQ(alone, beside);
    ended += alone.second >= 5'000'000 * round ? 1 : 0;
  }
  EXPECT_GT(ended, test::fewer(8));
}

TEST(Highs, WhoseStepsAreCountedEndsAtOnceWhenItIsStopped) {
  NEEDS_HIGHS();
  std::mt19937 random(7);
  const OwnedProgram program = market_split(random);
  int asked = 0;
  const HighsAnswer answer = run_highs(
      program.view(), kNone, [] { return false; }, [&] { return ++asked > 3; });
  EXPECT_FALSE(answer.complete);
  EXPECT_GT(asked, 3);
}

TEST(Highs, AForkedProcessEndsWithoutTheThreadsOfItsParent) {
  NEEDS_HIGHS();
  std::mt19937 random(8);
  const OwnedProgram program = market_split(random);
  run_highs(program.view(), kNone, [] { return true; });
  const pid_t child = fork();
  if (child == 0) {
    const bool lingers = has_background_threads();
    std::exit(lingers ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(Highs, SolvesForSeveralThreadsAtOnce) {
  NEEDS_HIGHS();
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (std::size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([t, &wrong] {
      std::mt19937 random(static_cast<unsigned>(100 + t));
      for (int round = 0; round < test::fewer(400); ++round) {
        const OwnedProgram program = random_program(random);
        const HighsAnswer answer = run_highs(program.view(), kNone, {});
        double cost = 0;
        for (std::size_t j = 0; j < answer.solution.size(); ++j)
          cost += std::round(answer.solution[j]) * program.costs[j];
        const std::optional<double> best = program.optimum();
        const bool right = best ? !answer.solution.empty() && cost == *best : answer.solution.empty();
        wrong[t] += right ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

}  // namespace
}  // namespace remora
