// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "engine/search/worker.hpp"
#include "tests/support/random_graph.hpp"

namespace remora {
namespace {

class Idle : public Worker {
 public:
  explicit Idle(std::string name, bool ready = true) : name_(std::move(name)), ready_(ready) {}
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] Source source() const override { return Source::start; }
  [[nodiscard]] bool ready(const RoundInput& /*input*/) override { return ready_; }
  RoundResult run(const RoundInput& /*input*/) override { return {}; }

 private:
  std::string name_;
  bool ready_;
};

const std::string& name_of(const Worker& worker) {
  return dynamic_cast<const Idle&>(worker).name();
}

constexpr int kRounds = 2000;

class MixTest : public testing::Test {
 protected:
  /// Workers "0", "1", ...; those of `idle` are never ready.
  static Mix mix(int workers, std::size_t exempt = 0, const std::set<int>& idle = {}, std::uint64_t seed = 3) {
    std::vector<std::unique_ptr<Worker>> crew;
    for (int i = 0; i < workers; ++i) crew.push_back(std::make_unique<Idle>(std::to_string(i), !idle.contains(i)));
    return {std::move(crew), exempt, seed};
  }

  /// How often each worker runs; `winner` brings the outcome of every round in which it takes part.
  std::map<std::string, int> runs(Mix& mix, const std::string& winner = "") {
    std::map<std::string, int> counts;
    for (int round = 0; round < kRounds; ++round) {
      std::vector<Mix::Outcome> outcome;
      std::string before;
      for (Worker* worker : mix.draw(input_)) {
        const std::string& name = name_of(*worker);
        EXPECT_LT(before, name);
        before = name;
        ++counts[name];
        outcome.push_back({worker, name == winner ? 2.0 : 0.0, 0.0});
      }
      EXPECT_LE(outcome.size(), 4U);
      mix.learn(outcome);
    }
    return counts;
  }

  Instance instance_{test::figure_1(), {}};
  Solution incumbent_;
  CoverFacts cover_;
  std::function<bool()> interrupted_ = [] { return false; };
  RoundInput input_{instance_, incumbent_, Duration(0), cover_, interrupted_};
};

TEST_F(MixTest, FewWorkersAllRunInEveryRound) {
  Mix few = mix(3);
  const auto counts = runs(few);
  ASSERT_EQ(counts.size(), 3U);
  for (const auto& [name, count] : counts) EXPECT_EQ(count, kRounds) << name;
}

TEST_F(MixTest, WithoutNewsEverybodyRunsAlike) {
  Mix many = mix(8);
  const auto counts = runs(many);
  ASSERT_EQ(counts.size(), 8U);
  for (const auto& [name, count] : counts) EXPECT_NEAR(count, kRounds / 2, kRounds / 10) << name;
}

TEST_F(MixTest, WhoBringsNewsRunsMoreOftenAndNobodyNever) {
  Mix many = mix(8);
  const auto counts = runs(many, "5");
  ASSERT_EQ(counts.size(), 8U);
  for (const auto& [name, count] : counts) {
    EXPECT_GT(count, kRounds / 10) << name;
    if (name != "5") {
      EXPECT_LT(count, counts.at("5")) << name;
    }
  }
  EXPECT_GT(counts.at("5"), kRounds * 8 / 10);
}

TEST_F(MixTest, WhoIsNotReadyIsNotDrawnAndWhoIsExemptAlwaysIs) {
  Mix some = mix(8, 1, {2, 3});
  const auto counts = runs(some, "5");
  EXPECT_EQ(counts.at("0"), kRounds);
  EXPECT_FALSE(counts.contains("2"));
  EXPECT_FALSE(counts.contains("3"));
}

TEST_F(MixTest, TheSameSeedDrawsTheSameAndAnotherSomethingElse) {
  const auto draws = [&](std::uint64_t seed) {
    Mix drawn = mix(8, 0, {}, seed);
    std::string names;
    for (int round = 0; round < 50; ++round) {
      for (const Worker* worker : drawn.draw(input_)) names += name_of(*worker);
    }
    return names;
  };
  EXPECT_EQ(draws(3), draws(3));
  EXPECT_NE(draws(3), draws(4));
}

}  // namespace
}  // namespace remora
