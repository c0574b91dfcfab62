// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "engine/baselines/chains/rotor.hpp"
#include "tests/support/chain_oracle.hpp"

namespace remora {
namespace {

std::int64_t draw(std::mt19937& random, std::int64_t least, std::int64_t most) {
  return least + static_cast<std::int64_t>(random() % static_cast<unsigned>(most - least + 1));
}

/// What backward runs read: always their input, as in the papers, or not.
enum class Reads { input, anything };

BlockOption random_option(std::mt19937& random, Bytes output, Reads reads) {
  BlockOption option;
  option.reads_input = reads == Reads::input || draw(random, 0, 2) > 0;
  option.reads_output = draw(random, 0, 1) > 0;
  option.saved = Bytes(draw(random, 0, 4));
  if (option.reads_output) option.saved += output;
  option.forward = {Duration(draw(random, 0, 5)), option.saved + output + Bytes(draw(random, 0, 2))};
  option.alone = {Duration(draw(random, 0, option.forward.duration.count())),
                  option.forward.peak - Bytes(draw(random, 0, output.count()))};
  option.backward = {Duration(draw(random, 0, 5)), Bytes(draw(random, 0, 8))};
  return option;
}

/// Sizes and durations of a few units; the last block writes nothing.
Chain random_chain(std::mt19937& random, int blocks, int most_options, Reads reads = Reads::anything) {
  Chain chain;
  chain.gradient = Bytes(draw(random, 0, 1));
  for (int b = 0; b < blocks; ++b) {
    chain.blocks.push_back({.input = Bytes(draw(random, b == 0 ? 0 : 1, 3)), .gradient = Bytes(draw(random, 0, 2))});
  }
  for (std::size_t b = 0; b < chain.blocks.size(); ++b) {
    ChainBlock& block = chain.blocks[b];
    const Bytes output = b + 1 < chain.blocks.size() ? chain.blocks[b + 1].input : Bytes(0);
    block.pass = {Duration(draw(random, 0, 5)), output + Bytes(draw(random, 0, 2))};
    const std::int64_t options = draw(random, 1, most_options);
    for (std::int64_t o = 0; o < options; ++o) block.options.push_back(random_option(random, output, reads));
  }
  return chain;
}

/// The schedule is one, takes the time that the table says, and fits.
void expect_schedule(const Chain& chain, const RotorTable& table, Bytes memory, int most_runs) {
  const auto time = table.duration(memory);
  const auto run = test::replay(chain, table.schedule(memory));
  ASSERT_EQ(time.has_value(), run.has_value());
  if (!run) return;
  EXPECT_EQ(run->duration, *time);
  EXPECT_LE(run->peak, memory);
  EXPECT_TRUE(most_runs == 0 || run->most_runs <= most_runs);
}

/// Compares with the truth on random chains, and counts on all kinds of them.
void compare_with_truth(unsigned seed, Reads reads, const test::ChainSearch& search) {
  std::mt19937 random(seed);
  int feasible = 0;
  int infeasible = 0;
  int recomputing = 0;
  for (int round = 0; round < 2500; ++round) {
    const int blocks = static_cast<int>(draw(random, 1, 5));
    const Chain chain = random_chain(random, blocks, blocks > 4 ? 2 : 3, reads);
    const Bytes most(40);
    const RotorTable table(chain, most, {});
    ASSERT_TRUE(table.is_exact());
    const Bytes memory(draw(random, 4, 25));
    const auto truth = test::chain_optimum(chain, memory, search);
    ASSERT_EQ(table.duration(memory), truth) << "round " << round << ", memory " << memory.count();
    expect_schedule(chain, table, memory, 0);
    truth ? ++feasible : ++infeasible;
    if (truth && *truth > *table.duration(most)) ++recomputing;
  }
  EXPECT_GT(feasible, 500);
  EXPECT_GT(infeasible, 200);
  EXPECT_GT(recomputing, 200);
}

TEST(RotorTable, IsTheShortestPersistentScheduleWhereBackwardRunsReadTheirInput) {
  compare_with_truth(1, Reads::input, {});
}

// Where they need not, running a block twice on the way forward can be shorter: to swap its input for what it saves,
// once the block behind has run.
TEST(RotorTable, IsTheShortestNestedPersistentScheduleOfAnyChain) {
  compare_with_truth(2, Reads::anything, {.nested = true});
}

TEST(RotorTable, IsTheShortestUnderALimitOnRuns) {
  std::mt19937 random(2);
  int longer = 0;
  for (int round = 0; round < 600; ++round) {
    const Chain chain = random_chain(random, static_cast<int>(draw(random, 2, 5)), 1);
    const int most_runs = static_cast<int>(draw(random, 1, 3));
    const Bytes memory(draw(random, 4, 20));
    const RotorTable table(chain, memory, {.most_runs = most_runs});
    ASSERT_EQ(table.duration(memory), test::chain_optimum(chain, memory, {most_runs, true})) << "round " << round;
    expect_schedule(chain, table, memory, most_runs);
    if (table.duration(memory) != RotorTable(chain, memory, {}).duration(memory)) ++longer;
  }
  EXPECT_GT(longer, 50);
}

TEST(RotorTable, RoundsUpWhereSlotsAreCoarse) {
  std::mt19937 random(3);
  int longer = 0;
  for (int round = 0; round < 1000; ++round) {
    const Chain chain = random_chain(random, static_cast<int>(draw(random, 2, 6)), 3);
    const RotorTable exact(chain, Bytes(30), {});
    const RotorTable coarse(chain, Bytes(30), {.slots = static_cast<int>(draw(random, 3, 12))});
    const Bytes memory(draw(random, 4, 30));
    expect_schedule(chain, coarse, memory, 0);
    if (!coarse.duration(memory)) continue;
    ASSERT_TRUE(exact.duration(memory));
    EXPECT_GE(*coarse.duration(memory), *exact.duration(memory));
    if (*coarse.duration(memory) > *exact.duration(memory)) ++longer;
  }
  EXPECT_GT(longer, 10);
}

TEST(RotorTable, BreakpointsAreWhereTheTimeFalls) {
  std::mt19937 random(4);
  for (int round = 0; round < 300; ++round) {
    const Chain chain = random_chain(random, static_cast<int>(draw(random, 1, 6)), 3);
    const RotorTable table(chain, Bytes(40), {});
    std::vector<Bytes> falls;
    for (std::int64_t memory = 0; memory <= 40; ++memory) {
      const auto now = table.duration(Bytes(memory));
      const auto before = memory == 0 ? std::nullopt : table.duration(Bytes(memory - 1));
      if (now && (!before || *now < *before)) falls.push_back(Bytes(memory));
    }
    EXPECT_EQ(table.breakpoints(), falls);
  }
}

/// Equal blocks that write their output over their input, save nothing, and whose backward run reads the input and is
/// free: the steps of Griewank and Walther.
Chain uniform_chain(int blocks) {
  Chain chain;
  for (int b = 0; b < blocks; ++b) {
    ChainBlock block{.input = Bytes(1), .pass = {Duration(1), Bytes(0)}};
    block.options.push_back({.forward = block.pass, .alone = {}, .backward = {}});
    chain.blocks.push_back(block);
  }
  return chain;
}

// Griewank and Walther 2000, proposition 1: with c states kept, and r the least number for which a chain of l blocks is
// no longer than (c + r choose c), reversing it takes r l - (c + r choose c + 1) forward runs.
TEST(RotorTable, ReversesUniformChainsAsBinomialCheckpointingDoes) {
  const auto binomial = [](int n, int k) {
    std::int64_t value = 1;
    for (int i = 1; i <= k; ++i) value = value * (n - k + i) / i;
    return value;
  };
  for (int kept = 1; kept <= 5; ++kept) {
    for (int blocks = 1; blocks <= 40; ++blocks) {
      int runs = 0;
      while (binomial(kept + runs, kept) < blocks) ++runs;
      const std::int64_t expected = runs * blocks - binomial(kept + runs, kept + 1);
      // Beside the states kept, x_0 among them, the current one.
      const RotorTable table(uniform_chain(blocks), Bytes(kept + 1), {});
      ASSERT_TRUE(table.duration(Bytes(kept + 1))) << kept << " kept, " << blocks << " blocks";
      EXPECT_EQ(table.duration(Bytes(kept + 1))->count(), expected) << kept << " kept, " << blocks << " blocks";
    }
  }
}

}  // namespace
}  // namespace remora
