// SPDX-License-Identifier: Apache-2.0
#include "engine/base/options.hpp"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "model/error.hpp"
#include "tests/support/refusal.hpp"

namespace remora {
namespace {

/// What a refused option says; "" where it is taken.
std::string refusal(const std::string& name, const std::string& text) {
  SolveOptions options;
  return remora::test::refusal_of([&] {
    set_option(options, name, text);
    check_options(options);
  });
}

TEST(Options, EveryRowCanBeSetFromItsOwnDefaultAndRoundTrips) {
  SolveOptions options;
  for (const OptionRow& row : option_rows()) set_option(options, row.name, row.initial);
  check_options(options);
  const auto described = describe_options(options);
  ASSERT_EQ(described.size(), option_rows().size());
  for (std::size_t i = 0; i < described.size(); ++i) {
    EXPECT_EQ(described[i].first, option_rows()[i].name);
    EXPECT_EQ(described[i].second, option_rows()[i].initial);
  }
}

TEST(Options, AreSoFewThatAUserCanReadThem) {
  EXPECT_LE(option_rows().size(), 16U);
}

TEST(Options, NamesMayBeSpelledAsOnTheCommandLine) {
  SolveOptions options;
  set_option(options, "time-limit", "2.5");
  set_option(options, "strategy", "cp");
  set_option(options, "group-size", "12");
  EXPECT_EQ(options.time_limit, 2.5);
  EXPECT_EQ(options.strategy, Strategy::cp);
  EXPECT_EQ(options.group_size, 12);
}

TEST(Options, AChoiceIsReadAsItIsWritten) {
  for (const OptionRow& row : option_rows()) {
    if (row.type.find('|') == std::string::npos) continue;
    for (std::size_t begin = 0; begin < row.type.size();) {
      const std::size_t end = std::min(row.type.find('|', begin), row.type.size());
      const std::string name = row.type.substr(begin, end - begin);
      SolveOptions options;
      set_option(options, row.name, name);
      bool is_echoed = false;
      for (const auto& [option, text] : describe_options(options))
        is_echoed = is_echoed || (option == row.name && text == name);
      EXPECT_TRUE(is_echoed) << row.name << " " << name;
      begin = end + 1;
    }
    EXPECT_NE(refusal(row.name, "magic").find("'magic' is not one of "), std::string::npos);
  }
}

TEST(Options, WithoutLeavesOutWhatItNamesAndNothingElse) {
  SolveOptions options;
  set_option(options, "without", "nogoods,cover_bound,later-recompute");
  EXPECT_FALSE(options.nogoods || options.cover_bound || options.later_recompute);
  EXPECT_TRUE(options.forced_recompute && options.segments && options.period_bound);
  EXPECT_EQ(describe_options(options).back().second, "later-recompute,cover-bound,nogoods");
  set_option(options, "without", "segments");
  EXPECT_TRUE(options.nogoods && !options.segments);
  set_option(options, "without", "nothing");
  EXPECT_TRUE(options.segments);
  EXPECT_NE(refusal("without", "nogoods,magic").find("'magic' is not one of reduced-costs, "), std::string::npos);
  EXPECT_NE(refusal("without", "nogoods,"), "");
}

TEST(Options, PartsOfAWholeMayBeSaidInPerCent) {
  SolveOptions options;
  set_option(options, "gap", "5%");
  EXPECT_EQ(options.gap, 0.05);
  EXPECT_NE(refusal("stall", "5%"), "");
  EXPECT_NE(refusal("group_size", "5%"), "");
}

TEST(Options, WrongTextsAndRangesAreRefusedByName) {
  EXPECT_EQ(refusal("threads", "two"), "threads: expected an integer, got 'two'");
  EXPECT_NE(refusal("threads", "2x"), "");
  EXPECT_NE(refusal("threads", "-1"), "");
  EXPECT_NE(refusal("time_limit", "nan"), "");
  EXPECT_EQ(refusal("colour", "blue"), "colour: there is no such option");
}

TEST(Options, WhatTheStrategyWouldTakeNoNoticeOfIsRefused) {
  SolveOptions options;
  options.strategy = Strategy::rotor;
  check_options(options);
  options.groups = GroupStart::on;
  EXPECT_THROW(check_options(options), InputError);
  options.strategy = Strategy::cp;
  check_options(options);
  options.workers = Workers::ruin;
  EXPECT_THROW(check_options(options), InputError);
}

TEST(Options, MethodsAreGivenTheirProblem) {
  EXPECT_EQ(default_computes(Strategy::automatic), 2);
  EXPECT_EQ(default_computes(Strategy::greedy), 2);
  EXPECT_EQ(default_computes(Strategy::rotor), 64);
}

}  // namespace
}  // namespace remora
