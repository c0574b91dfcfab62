// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include <gtest/gtest.h>

#include "frontends/batch/runner.hpp"
#include "model/error.hpp"

namespace remora::batch {
namespace {

using Variables = std::map<std::string, std::string>;

Shard find(const Variables& variables, const std::optional<std::string>& shard = std::nullopt,
           const std::optional<std::string>& count = std::nullopt) {
  return find_shard(shard, count, [&](const char* name) {
    const auto at = variables.find(name);
    return at == variables.end() ? nullptr : at->second.c_str();
  });
}

Variables slurm(int id, int least, int most, int step, int count) {
  return {{"SLURM_ARRAY_TASK_ID", std::to_string(id)},
          {"SLURM_ARRAY_TASK_MIN", std::to_string(least)},
          {"SLURM_ARRAY_TASK_MAX", std::to_string(most)},
          {"SLURM_ARRAY_TASK_STEP", std::to_string(step)},
          {"SLURM_ARRAY_TASK_COUNT", std::to_string(count)}};
}

TEST(Shard, TogetherTheyTakeEveryTaskOnceAndNoneHasMoreThanOneTaskMore) {
  for (std::size_t count = 1; count <= 40; ++count) {
    for (const std::size_t tasks : {0UL, 1UL, 7UL, 40UL, 201UL}) {
      std::vector<std::size_t> taken(tasks, 0);
      std::vector<std::size_t> sizes(count, 0);
      for (std::size_t i = 1; i <= count; ++i) {
        const Shard shard = find({}, std::to_string(i) + "/" + std::to_string(count));
        for (std::size_t position = 0; position < tasks; ++position) {
          if (!shard.takes(position)) continue;
          ++taken[position];
          ++sizes[i - 1];
        }
      }
      EXPECT_TRUE(std::all_of(taken.begin(), taken.end(), [](std::size_t times) { return times == 1; }));
      EXPECT_LE(*std::max_element(sizes.begin(), sizes.end()), *std::min_element(sizes.begin(), sizes.end()) + 1);
    }
  }
}

TEST(Shard, WithoutAWordItTakesAll) {
  const Shard shard = find({});
  EXPECT_EQ(shard.count, 1U);
  EXPECT_TRUE(shard.source.empty());
  EXPECT_TRUE(shard.takes(17));
}

TEST(Shard, ASlurmArrayMayBeginAndStepAsItLikes) {
  for (const auto& [least, step, count] : {std::array{0, 1, 8}, std::array{1, 1, 3}, std::array{10, 5, 4}}) {
    const int most = least + step * (count - 1);
    for (int i = 0; i < count; ++i) {
      const Shard shard = find(slurm(least + i * step, least, most, step, count));
      EXPECT_EQ(shard.index, static_cast<std::size_t>(i));
      EXPECT_EQ(shard.count, static_cast<std::size_t>(count));
      EXPECT_EQ(shard.source, "SLURM_ARRAY_TASK_ID");
      EXPECT_EQ(shard.text(), std::to_string(i + 1) + "/" + std::to_string(count));
    }
  }
}

TEST(Shard, OneElementOfAnArrayCanBeSubmittedAgain) {
  const Shard shard = find(slurm(3, 3, 3, 1, 1), std::nullopt, "8");
  EXPECT_EQ(shard.index, 3U);
  EXPECT_EQ(shard.count, 8U);
  EXPECT_THROW(find(slurm(8, 8, 8, 1, 1), std::nullopt, "8"), InputError);
}

TEST(Shard, AnArrayThatIsNoRangeIsRefused) {
  // --array=1,3,7
  for (const int id : {1, 3, 7}) EXPECT_THROW(find(slurm(id, 1, 7, 1, 3)), InputError);
  EXPECT_THROW(find(slurm(1, 1, 7, 0, 3)), InputError);
  Variables cut = slurm(1, 0, 7, 1, 8);
  cut.erase("SLURM_ARRAY_TASK_COUNT");
  EXPECT_THROW(find(cut), InputError);
  EXPECT_EQ(find(cut, "2/8").index, 1U);
}

TEST(Shard, AnIndexedJobNeedsItsCount) {
  const Variables job{{"JOB_COMPLETION_INDEX", "2"}};
  EXPECT_THROW(find(job), InputError);
  EXPECT_EQ(find(job, std::nullopt, "5").index, 2U);
  Variables counted = job;
  counted["JOB_COMPLETIONS"] = "4";
  const Shard shard = find(counted);
  EXPECT_EQ(shard.index, 2U);
  EXPECT_EQ(shard.count, 4U);
  EXPECT_EQ(shard.source, "JOB_COMPLETION_INDEX");
  counted["JOB_COMPLETION_INDEX"] = "4";
  EXPECT_THROW(find(counted), InputError);
}

TEST(Shard, TheCommandLineGoesBeforeTheEnvironment) {
  Variables both = slurm(3, 0, 7, 1, 8);
  EXPECT_EQ(find(both, "1/2").text(), "1/2");
  EXPECT_EQ(find(both, "1/2").source, "--shard");
  both["JOB_COMPLETION_INDEX"] = "1";
  EXPECT_THROW(find(both), InputError);
  EXPECT_EQ(find(both, "2/2").index, 1U);
}

TEST(Shard, WhatIsNoShardIsRefused) {
  for (const char* text : {"", "1", "0/3", "4/3", "1/0", "a/3", "1/b", "-1/3", "1/3/5", " 1/3", "1.0/3", "/3", "1/",
                           "99999999999999999999/99999999999999999999"}) {
    EXPECT_THROW(find({}, text), InputError) << text;
  }
  EXPECT_THROW(find({}, std::nullopt, "3"), InputError);
  EXPECT_THROW(find({}, "1/3", "3"), InputError);
  EXPECT_THROW(find({{"JOB_COMPLETION_INDEX", "0"}}, std::nullopt, "0"), InputError);
}

}  // namespace
}  // namespace remora::batch
