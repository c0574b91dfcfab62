// SPDX-License-Identifier: Apache-2.0
#include "engine/base/options.hpp"

#include <gtest/gtest.h>

#include "model/error.hpp"

namespace remora {
namespace {

TEST(Options, EveryRowCanBeSetFromItsOwnDefaultAndRoundTrips) {
  SolveOptions options;
  for (const OptionRow& row : option_rows()) set_option(options, row.name, row.initial);
  check_options(options);
  const auto described = describe_options(options);
  // Strategy and grouping come first.
  ASSERT_EQ(described.size(), option_rows().size() + 2);
  EXPECT_EQ(described[0].first, "strategy");
  EXPECT_EQ(described[1].first, "grouping");
  for (std::size_t i = 0; i < option_rows().size(); ++i) EXPECT_EQ(described[i + 2].second, option_rows()[i].initial);
}

TEST(Options, NamesMayBeSpelledAsOnTheCommandLine) {
  SolveOptions options;
  set_option(options, "time-limit", "2.5");
  set_option(options, "strategy", "cp");
  set_option(options, "grouping", "chain");
  EXPECT_EQ(options.time_limit, 2.5);
  EXPECT_EQ(options.strategy, Strategy::cp);
  EXPECT_EQ(options.grouping, Grouping::chain);
  EXPECT_THROW(set_option(options, "strategy", "magic"), InputError);
}

TEST(Options, GroupingsAreNamedAsTheyAreRead) {
  for (const Grouping grouping : {Grouping::h_partition, Grouping::chain, Grouping::intervals}) {
    EXPECT_EQ(grouping_from_name(grouping_name(grouping)), grouping);
  }
  EXPECT_THROW(grouping_from_name("colour"), InputError);
}

TEST(Options, WrongTextsAndRangesAreRefusedByName) {
  SolveOptions options;
  EXPECT_THROW(set_option(options, "threads", "two"), InputError);
  EXPECT_THROW(set_option(options, "threads", "2x"), InputError);
  EXPECT_THROW(set_option(options, "cover_bound", "yes"), InputError);
  EXPECT_THROW(set_option(options, "colour", "blue"), InputError);
  options.threads = -1;
  EXPECT_THROW(check_options(options), InputError);
  options.threads = 2;
  options.time_limit = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(check_options(options), InputError);
}

TEST(Options, MethodsAreGivenTheirProblem) {
  EXPECT_EQ(default_problem(Strategy::automatic).max_computes, 2);
  EXPECT_EQ(default_problem(Strategy::automatic).order, OrderMode::input);
  EXPECT_EQ(default_problem(Strategy::checkmate).max_computes, 2);
  EXPECT_EQ(default_problem(Strategy::rotor).max_computes, 64);
  EXPECT_EQ(default_problem(Strategy::rotor).order, OrderMode::input);
  EXPECT_EQ(default_problem(Strategy::twremat).max_computes, 64);
  EXPECT_EQ(default_problem(Strategy::twremat).order, OrderMode::free);
}

TEST(Options, StrategyNamesRoundTrip) {
  for (const Strategy strategy : {Strategy::automatic, Strategy::cp, Strategy::complete, Strategy::lns, Strategy::local,
                                  Strategy::ruin, Strategy::anneal, Strategy::none, Strategy::greedy, Strategy::sqrt,
                                  Strategy::rotor, Strategy::twremat, Strategy::checkmate, Strategy::checkmate_lp}) {
    EXPECT_EQ(strategy_from_name(strategy_name(strategy)), strategy);
  }
  EXPECT_THROW(strategy_from_name("magic"), InputError);
}

}  // namespace
}  // namespace remora
