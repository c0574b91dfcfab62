// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "engine/ask/problem.hpp"
#include "engine/base/callbacks.hpp"
#include "engine/groups/block_schedule.hpp"
#include "engine/groups/hierarchical.hpp"
#include "model/evaluate.hpp"
#include "model/verify.hpp"
#include "tests/support/training_graphs.hpp"

namespace remora {
namespace {

Instance transformer(int layers) {
  const Instance unlimited(std::make_shared<const Graph>(test::generate_transformer({.layers = layers})), {});
  return unlimited.with_budget(Bytes(baseline_peak(unlimited).count() * 7 / 10));
}

SolveOptions reproducible() {
  SolveOptions options;
  options.groups = GroupStart::on;
  options.work_limit = 8'000;
  options.time_limit = kNoTimeLimit;
  options.threads = 2;
  options.group_size = 8;
  options.top_size = 6;
  options.grid_levels = 4;
  options.period_bound = false;
  return options;
}

double value_of(const Statistics& statistics, const std::string& name) {
  for (const Statistic& statistic : statistics) {
    if (statistic.name == name) return statistic.value;
  }
  return -1;
}

Groups groups_of(const Instance& instance, BlockStore* store) {
  const SolveOptions options = reproducible();
  return find_groups(instance, options, Deadline(options.time_limit, nullptr), store);
}

std::string text_of(const Groups& groups) {
  std::string text;
  for (const ClassSchedules& of_class : groups.hierarchy.schedules)
    text += text_of_schedules({of_class.schedules}) + "\n";
  return text;
}

TEST(ScheduleText, SaysAllThereIsToASchedule) {
  const Groups groups = groups_of(transformer(2), nullptr);
  std::size_t schedules = 0;
  for (const ClassSchedules& of_class : groups.hierarchy.schedules) {
    if (of_class.schedules.empty()) continue;
    schedules += of_class.schedules.size();
    const std::string text = text_of_schedules({of_class.schedules, 17});
    const auto found = schedules_of_text(text);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->work, 17);
    const auto* read = &found->schedules;
    ASSERT_EQ(read->size(), of_class.schedules.size());
    EXPECT_EQ(text_of_schedules(*found), text);
    for (std::size_t i = 0; i < read->size(); ++i) {
      EXPECT_EQ((*read)[i].forward, of_class.schedules[i].forward);
      EXPECT_EQ((*read)[i].backward, of_class.schedules[i].backward);
      EXPECT_EQ((*read)[i].saved, of_class.schedules[i].saved);
      EXPECT_EQ((*read)[i].reads, of_class.schedules[i].reads);
      EXPECT_EQ((*read)[i].duration(), of_class.schedules[i].duration());
      EXPECT_EQ((*read)[i].forward_cost.workspace(), of_class.schedules[i].forward_cost.workspace());
      EXPECT_EQ((*read)[i].peak, of_class.schedules[i].peak);
      EXPECT_EQ((*read)[i].repeatable, of_class.schedules[i].repeatable);
    }
  }
  EXPECT_GE(schedules, 10U);
}

TEST(OptionText, IsNotReadFromAnythingElse) {
  const Groups groups = groups_of(transformer(1), nullptr);
  const std::string text = text_of_schedules({groups.hierarchy.schedules.front().schedules});
  for (std::size_t length = 0; length < text.size(); ++length) {
    EXPECT_FALSE(schedules_of_text(std::string_view(text).substr(0, length)).has_value()) << length;
  }
  for (const char* other : {"", "x", "99999999999999999999 ", "1000000 ", "-1 ", "1 0 0 \n\n", "1 \n"}) {
    EXPECT_FALSE(schedules_of_text(other).has_value()) << other;
  }
}

TEST(BlockStore, GivesTheSameOptionsAsSolvingAgain) {
  const Instance instance = transformer(2);
  BlockMemory store;
  const Groups first = groups_of(instance, &store);
  const Groups second = groups_of(instance, &store);
  EXPECT_EQ(value_of(first.statistics, "known_groups"), 0);
  EXPECT_EQ(value_of(second.statistics, "known_groups"), value_of(second.statistics, "distinct_groups"));
  EXPECT_EQ(text_of(first), text_of(second));
  EXPECT_EQ(text_of(first), text_of(groups_of(instance, nullptr)));
}

TEST(BlockStore, MakesNoDifferenceToASolveUnderAWorkLimit) {
  BlockMemory store;
  bool seen = false;
  for (const int layers : {2, 3, 2}) {
    const Instance instance = transformer(layers);
    const Schedule alone = solve(instance, reproducible());
    const Schedule shared = solve(instance, reproducible(), {.blocks = &store});
    // Networks of two and of three layers have a group in common.
    EXPECT_EQ(value_of(shared.solver.statistics, "known_groups") > 0, seen) << layers << " layers";
    EXPECT_TRUE(alone.steps == shared.steps) << layers << " layers";
    seen = true;
    ASSERT_TRUE(shared.has_schedule());
    EXPECT_TRUE(verify(instance.graph(), shared).valid());
  }
}

TEST(BlockStore, IsSharedByNetworksOfOtherDepth) {
  // Under a time limit: under a work limit a deeper network gives its groups less, so that they are other schedules.
  SolveOptions options = reproducible();
  options.work_limit = 0;
  options.time_limit = 4;
  BlockMemory store;
  const auto find = [&](int layers) {
    return find_groups(transformer(layers), options, Deadline(options.time_limit, nullptr), &store);
  };
  EXPECT_EQ(value_of(find(3).statistics, "known_groups"), 0);
  EXPECT_GE(value_of(find(5).statistics, "known_groups"), 1);
}

/// Finds something under every key, and nothing that makes sense.
class Nonsense : public BlockStore {
 public:
  std::optional<std::string> find(const std::string& key) override { return "7 " + key; }
  void keep(const std::string&, const std::string&) override { ++kept_; }
  [[nodiscard]] int kept() const { return kept_; }

 private:
  int kept_ = 0;
};

/// Finds a schedule under every key that is one of another group.
class Foreign : public BlockStore {
 public:
  explicit Foreign(BlockSchedule schedule) : schedule_(std::move(schedule)) {}
  std::optional<std::string> find(const std::string&) override { return text_of_schedules({{schedule_}}); }
  void keep(const std::string&, const std::string&) override {}

 private:
  BlockSchedule schedule_;
};

TEST(BlockStore, IsNotBelievedWhereItMakesNoSense) {
  const Instance instance = transformer(1);
  const std::string truth = text_of(groups_of(instance, nullptr));
  Nonsense nonsense;
  EXPECT_EQ(text_of(groups_of(instance, &nonsense)), truth);
  EXPECT_GE(nonsense.kept(), 1);
  const BlockSchedule good = groups_of(instance, nullptr).hierarchy.schedules.front().schedules.front();
  std::vector<BlockSchedule> bad(6, good);
  bad[0].forward.push_back({OpId(1'000'000), 0});
  bad[1].forward.front().mode = 77;
  bad[2].reads.push_back(true);
  bad[3].forward_cost.peaks.clear();
  bad[4].forward_cost.peaks.front().freed.push_back(1'000);
  bad[5].computes = 0;
  for (BlockSchedule& schedule : bad) {
    Foreign foreign(std::move(schedule));
    EXPECT_EQ(text_of(groups_of(instance, &foreign)), truth);
  }
}

}  // namespace
}  // namespace remora
