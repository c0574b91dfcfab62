// SPDX-License-Identifier: Apache-2.0
//
// Pipelines: the textbook's makespans, and choices of modes against all of them.
#include "model/pipeline.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <iostream>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "engine/pipeline/solve.hpp"
#include "model/error.hpp"
#include "tests/support/fewer.hpp"
#include "tests/support/pipeline_oracle.hpp"

namespace remora {
namespace {

StageMode mode(std::int64_t forward, std::int64_t backward, std::int64_t weights, std::int64_t saved) {
  return {.forward = Duration(forward),
          .backward = Duration(backward),
          .weight_gradient = Duration(weights),
          .saved = Bytes(saved),
          .held = Bytes(saved)};
}

Pipeline pipeline_of(std::size_t stages, std::size_t devices, int microbatches, PipelineOrder order,
                     const std::vector<StageMode>& modes) {
  Pipeline pipeline{.devices = devices, .microbatches = microbatches, .order = order};
  for (std::size_t s = 0; s < stages; ++s) pipeline.stages.push_back({.modes = modes});
  pipeline.budget.assign(devices, std::nullopt);
  validate(pipeline);
  return pipeline;
}

/// (M + P - 1)(F + B) of 1F1B and GPipe (Narayanan et al. 2021), M(F + B + W) + (P - 1)(F + B - W) of ZB-H1 (Qi et al. 2024, table 1), and a
/// bubble that v chunks make v times shorter in interleaved order.
TEST(Pipeline, TakesWhatTheTextbookSays) {
  for (const int devices : {1, 2, 4, 8}) {
    for (const int microbatches : {devices, 2 * devices, 4 * devices}) {
      SCOPED_TRACE(std::to_string(devices) + " devices, " + std::to_string(microbatches) + " microbatches");
      const auto p = static_cast<std::size_t>(devices);
      const auto makespan = [&](PipelineOrder order, std::size_t stages, const StageMode& one) {
        const Pipeline pipeline = pipeline_of(stages, p, microbatches, order, {one});
        return replay(pipeline, ModeChoice(stages, 0)).makespan.count();
      };
      EXPECT_EQ(makespan(PipelineOrder::one_f_one_b, p, mode(2, 3, 1, 1)), (microbatches + devices - 1) * 6);
      EXPECT_EQ(makespan(PipelineOrder::gpipe, p, mode(2, 3, 1, 1)), (microbatches + devices - 1) * 6);
      EXPECT_EQ(makespan(PipelineOrder::zero_bubble, p, mode(2, 3, 1, 1)), microbatches * 6 + (devices - 1) * 4);
      EXPECT_EQ(makespan(PipelineOrder::zero_bubble, p, mode(1, 1, 1, 1)), microbatches * 3 + (devices - 1));
      if (devices > 1) {
        EXPECT_EQ(makespan(PipelineOrder::interleaved, 2 * p, mode(1, 2, 0, 1)), microbatches * 6 + (devices - 1) * 3);
      }
    }
  }
}

/// 1F1B has as many in flight as devices are left, zero bubble as many as there are devices, GPipe all.
TEST(Pipeline, HoldsWhatIsInFlight) {
  const auto peaks = [](PipelineOrder order) {
    std::vector<std::int64_t> bytes;
    for (const Bytes peak : replay(pipeline_of(4, 4, 8, order, {mode(1, 1, 1, 10)}), ModeChoice(4, 0)).peak) {
      bytes.push_back(peak.count());
    }
    return bytes;
  };
  EXPECT_EQ(peaks(PipelineOrder::one_f_one_b), (std::vector<std::int64_t>{40, 30, 20, 10}));
  EXPECT_EQ(peaks(PipelineOrder::gpipe), (std::vector<std::int64_t>{80, 80, 80, 80}));
  EXPECT_EQ(peaks(PipelineOrder::zero_bubble), (std::vector<std::int64_t>{40, 40, 40, 40}));
}

/// Recompute where it hides: the first of four stages has no room for four microbatches, the others have; the choice takes the first stage's
/// slow mode for one microbatch of two, and is faster than the slow mode everywhere.
TEST(Pipeline, RecomputesWhereMemoryIsShort) {
  Pipeline pipeline = pipeline_of(4, 4, 8, PipelineOrder::one_f_one_b, {mode(2, 4, 0, 10), mode(2, 6, 0, 2)});
  pipeline.budget.assign(4, Bytes(30));
  pipeline.classes = 2;
  const PipelinePlan plan = solve(pipeline, {});
  ASSERT_EQ(plan.status, Status::optimal);
  EXPECT_EQ(plan.uniform, 1);
  EXPECT_LT(plan.makespan, plan.uniform_makespan);
  EXPECT_EQ(plan.lower_bound, plan.makespan);
  pipeline.budget.assign(4, Bytes(7));
  const PipelinePlan none = solve(pipeline, {});
  EXPECT_EQ(none.status, Status::infeasible);
  EXPECT_EQ(none.reason, "device 0 needs at least 8 bytes (mode 1), and has 7");
}

int drawn(std::mt19937& random, int least, int most) {
  return least + static_cast<int>(random() % static_cast<unsigned>(most - least + 1));
}

Pipeline random_pipeline(std::mt19937& random) {
  const auto order = static_cast<PipelineOrder>(drawn(random, 0, 3));
  const bool interleaved = order == PipelineOrder::interleaved;
  const int devices = drawn(random, 1, 3);
  const int stages = devices * (interleaved ? drawn(random, 1, 2) : 1);
  Pipeline pipeline{.devices = static_cast<std::size_t>(devices),
                    .microbatches = interleaved ? devices * drawn(random, 1, 2) : drawn(random, 1, 5),
                    .order = order,
                    .send = Duration(drawn(random, 0, 2))};
  pipeline.classes = std::min(pipeline.microbatches, stages > 3 ? 1 : drawn(random, 1, 2));
  const bool alike = drawn(random, 0, 1) == 0;
  const int modes = drawn(random, 1, 3);
  for (int s = 0; s < stages; ++s) {
    PipelineStage stage{.fixed_memory = Bytes(drawn(random, 0, 3))};
    for (int i = alike ? modes : drawn(random, 1, 3); i > 0; --i) {
      StageMode made = mode(drawn(random, 0, 5), drawn(random, 0, 9), drawn(random, 0, 4), drawn(random, 0, 9));
      made.held = Bytes(drawn(random, 0, 9));
      made.forward_transient = Bytes(drawn(random, 0, 3));
      made.backward_transient = Bytes(drawn(random, 0, 5));
      made.weight_transient = Bytes(drawn(random, 0, 3));
      stage.modes.push_back(made);
    }
    pipeline.stages.push_back(std::move(stage));
  }
  for (int d = 0; d < devices; ++d) {
    pipeline.budget.push_back(std::nullopt);
    if (drawn(random, 0, 9) > 0) pipeline.budget.back() = Bytes(drawn(random, 2, 40));
  }
  validate(pipeline);
  return pipeline;
}

/// The page's order, times and memory are the engine's, for each schedule; also where there are more devices than microbatches.
TEST(Pipeline, RunsAsThePageSays) {
  const auto order = [](const Pipeline& pipeline, std::size_t device) {
    std::string text;
    for (const PipelineTask& task : tasks_of(pipeline, device)) {
      text += (text.empty() ? "" : " ") + std::string(1, "FBW"[static_cast<int>(task.kind)]);
      text += std::to_string(task.microbatch);
      if (pipeline.order == PipelineOrder::interleaved) text += "." + std::to_string(task.stage);
    }
    return text;
  };
  std::mt19937 random(11);
  std::set<PipelineOrder> seen;
  for (int round = 0; round < test::fewer(4000); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    Pipeline pipeline = random_pipeline(random);
    seen.insert(pipeline.order);
    ModeChoice choice;
    for (const PipelineStage& stage : pipeline.stages) {
      for (int k = 0; k < pipeline.classes; ++k)
        choice.push_back(drawn(random, 0, static_cast<int>(stage.modes.size()) - 1));
    }
    for (std::size_t d = 0; d < pipeline.devices; ++d) {
      ASSERT_EQ(order(pipeline, d), test::pipeline_order_by_the_page(pipeline, static_cast<int>(d)));
    }
    const test::PipelineOutcome page = test::pipeline_by_the_page(pipeline, choice);
    const PipelineRun run = replay(pipeline, choice);
    ASSERT_EQ(run.makespan.count(), page.makespan);
    for (std::size_t d = 0; d < pipeline.devices; ++d) ASSERT_EQ(run.peak[d].count(), page.peak[d]) << "device " << d;
  }
  EXPECT_EQ(seen.size(), 4U);
}

TEST(Pipeline, IsTheBestOfAllChoices) {
  std::mt19937 random(7);
  int optimal = 0;
  int infeasible = 0;
  for (int round = 0; round < test::fewer(8000); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const Pipeline pipeline = random_pipeline(random);
    const std::optional<std::int64_t> truth = test::enumerate_choices(pipeline).makespan;
    const PipelinePlan plan = solve(pipeline, {});
    ASSERT_EQ(plan.status, truth ? Status::optimal : Status::infeasible);
    ++(truth ? optimal : infeasible);
    if (!truth) continue;
    ASSERT_EQ(plan.makespan.count(), *truth);
    ASSERT_EQ(plan.lower_bound.count(), *truth);
    const PipelineRun run = replay(pipeline, plan.choice);
    ASSERT_EQ(run.makespan, plan.makespan);
    ASSERT_EQ(run.peak, plan.peak);
    if (plan.uniform) {
      ASSERT_LE(plan.makespan, plan.uniform_makespan);
    }
  }
  std::cout << optimal << " optimal, " << infeasible << " infeasible\n";
  EXPECT_GT(optimal, 300);
  EXPECT_GT(infeasible, 100);
}

/// Every device that lacks memory is named with the minimum of all its choices: that is enough, and a byte less is not.
TEST(Pipeline, NamesWhatEachDeviceNeeds) {
  std::mt19937 random(19);
  int refused = 0;
  std::set<PipelineOrder> seen;
  for (int round = 0; refused < test::fewer(2400); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    Pipeline pipeline = random_pipeline(random);
    const std::vector<std::int64_t> minimum = test::enumerate_choices(pipeline).minimum;
    const PipelinePlan plan = solve(pipeline, {});
    if (plan.status != Status::infeasible) continue;
    ++refused;
    seen.insert(pipeline.order);
    std::size_t named = 0;
    for (std::size_t d = 0; d < pipeline.devices; ++d) {
      if (!pipeline.budget[d] || minimum[d] <= pipeline.budget[d]->count()) continue;
      ASSERT_LT(named, plan.needs.size());
      const DeviceNeed& need = plan.needs[named++];
      ASSERT_EQ(need.device, d);
      ASSERT_EQ(need.least.count(), minimum[d]);
      ASSERT_EQ(need.enough, need.least);
      const std::string text =
          "device " + std::to_string(d) + " needs at least " + std::to_string(minimum[d]) + " bytes (";
      ASSERT_NE(plan.reason.find(text), std::string::npos) << plan.reason;
      // The modes reach it, whatever the other devices run.
      ModeChoice choice(pipeline.stages.size() * static_cast<std::size_t>(pipeline.classes), 0);
      auto mode = need.modes.begin();
      for (std::size_t s = d; s < pipeline.stages.size(); s += pipeline.devices) {
        for (int k = 0; k < pipeline.classes; ++k) choice[choice_index(pipeline, StageId(s), k)] = *mode++;
      }
      ASSERT_EQ(mode, need.modes.end());
      ASSERT_EQ(test::pipeline_by_the_page(pipeline, choice).peak[d], minimum[d]);
    }
    ASSERT_EQ(named, plan.needs.size());
    for (const DeviceNeed& need : plan.needs) pipeline.budget[need.device] = need.enough;
    ASSERT_EQ(solve(pipeline, {}).status, Status::optimal);
    const std::size_t last = plan.needs.back().device;
    pipeline.budget[last] = plan.needs.back().enough - Bytes(1);
    const PipelinePlan again = solve(pipeline, {});
    ASSERT_EQ(again.status, Status::infeasible);
    ASSERT_EQ(again.needs.front().device, last);
  }
  EXPECT_EQ(seen.size(), 4U);
}

/// A published case: two of four devices lack memory, and 17 GiB were named for the last although no mode fits there.
TEST(Pipeline, TakesNoMinimaOfDifferentModes) {
  Pipeline pipeline = pipeline_of(2, 2, 4, PipelineOrder::zero_bubble, {mode(2, 4, 1, 100), mode(2, 6, 1, 10)});
  for (PipelineStage& stage : pipeline.stages) stage.modes[1].backward_transient = Bytes(150);
  pipeline.budget.assign(2, Bytes(160));
  const PipelinePlan plan = solve(pipeline, {});
  EXPECT_EQ(plan.status, Status::infeasible);
  EXPECT_EQ(plan.reason,
            "device 0 needs at least 170 bytes (mode 1), and has 160; device 1 needs at least 170 bytes (mode 1), and "
            "has 160");
}

/// Without a task of its own, the weight gradient is a part of the backward task, and so is its memory.
TEST(Pipeline, CountsTheWeightGradientsMemoryInEverySchedule) {
  StageMode one = mode(1, 1, 5, 1);
  one.held = Bytes(0);
  one.weight_transient = Bytes(100);
  for (const auto& [order, peak] :
       {std::pair(PipelineOrder::one_f_one_b, 101), std::pair(PipelineOrder::gpipe, 101),
        std::pair(PipelineOrder::interleaved, 101), std::pair(PipelineOrder::zero_bubble, 100)}) {
    Pipeline pipeline = pipeline_of(1, 1, 1, order, {one});
    EXPECT_EQ(replay(pipeline, {0}).peak.front(), Bytes(peak));
    pipeline.budget.front() = Bytes(peak - 1);
    EXPECT_EQ(solve(pipeline, {}).status, Status::infeasible);
    pipeline.budget.front() = Bytes(peak);
    EXPECT_EQ(solve(pipeline, {}).status, Status::optimal);
  }
  one.backward_transient = Bytes(70);
  EXPECT_EQ(replay(pipeline_of(1, 1, 1, PipelineOrder::one_f_one_b, {one}), {0}).peak.front(), Bytes(101));
}

/// Where the limit comes first, the text says that the number is a lower bound, and both numbers are right.
TEST(Pipeline, SaysWhereALimitLeftTheMinimumOpen) {
  std::mt19937 random(3);
  std::vector<StageMode> modes;
  for (int i = 0; i < 6; ++i) {
    modes.push_back(mode(2, 4 + i, 0, drawn(random, 0, 90)));
    modes.back().backward_transient = Bytes(drawn(random, 0, 400));
  }
  Pipeline pipeline = pipeline_of(8, 2, 8, PipelineOrder::interleaved, modes);
  pipeline.classes = 4;
  pipeline.budget.assign(2, Bytes(1));
  const PipelinePlan soon = solve(pipeline, {.work_limit = 4});
  const PipelinePlan later = solve(pipeline, {.work_limit = 4000});
  ASSERT_EQ(soon.status, Status::infeasible);
  ASSERT_EQ(soon.needs.size(), 2U);
  ASSERT_LT(soon.needs[0].least, soon.needs[0].enough);
  EXPECT_NE(soon.reason.find("(a lower bound; "), std::string::npos) << soon.reason;
  for (std::size_t d = 0; d < 2; ++d) {
    EXPECT_LE(soon.needs[d].least, later.needs[d].least);
    EXPECT_LE(later.needs[d].enough, soon.needs[d].enough);
    pipeline.budget[d] = soon.needs[d].enough;
  }
  EXPECT_FALSE(solve(pipeline, {.work_limit = 100}).choice.empty());
}

/// A thousand times too many classes, and somebody who no longer waits.
TEST(Pipeline, EndsWhenItIsStoppedWhateverItsSize) {
  Pipeline pipeline =
      pipeline_of(2, 2, 20000, PipelineOrder::gpipe, {mode(1, 1, 0, 3), mode(1, 2, 0, 2), mode(1, 3, 0, 1)});
  pipeline.classes = 20000;
  pipeline.budget.assign(2, Bytes(45000));
  const std::atomic<bool> stopped{true};
  const PipelinePlan plan = solve(pipeline, {}, &stopped);
  EXPECT_NE(plan.status, Status::infeasible);
  pipeline.budget.assign(2, Bytes(19000));
  EXPECT_EQ(solve(pipeline, {}, &stopped).status, Status::infeasible);
}

TEST(Pipeline, EndsAtItsLimits) {
  std::vector<StageMode> modes;
  for (int i = 0; i < 12; ++i) modes.push_back(mode(20, 40 + 7 * i % 31 + i, 9, 200 - 15 * i));
  Pipeline pipeline = pipeline_of(12, 12, 24, PipelineOrder::one_f_one_b, modes);
  pipeline.classes = 3;
  pipeline.budget.assign(12, Bytes(1000));
  const PipelinePlan plan = solve(pipeline, {.work_limit = 20});
  EXPECT_LE(plan.work, 40);
  EXPECT_LE(plan.lower_bound, plan.makespan);
  EXPECT_EQ(solve(pipeline, {.work_limit = 20}).choice, plan.choice);
}

TEST(Pipeline, NamesThePlaceOfEveryFault) {
  const auto place = [](const auto& change) {
    Pipeline pipeline = pipeline_of(4, 2, 4, PipelineOrder::interleaved, {mode(1, 2, 0, 1)});
    change(pipeline);
    try {
      validate(pipeline);
    } catch (const InputError& error) {
      return std::string(error.what()).substr(0, std::string(error.what()).find(':'));
    }
    return std::string("none");
  };
  EXPECT_EQ(place([](Pipeline&) {}), "none");
  EXPECT_EQ(place([](Pipeline& p) { p.devices = 3; }), "devices");
  EXPECT_EQ(place([](Pipeline& p) { p.order = PipelineOrder::gpipe; }), "devices");
  EXPECT_EQ(place([](Pipeline& p) { p.microbatches = 3; }), "microbatches");
  EXPECT_EQ(place([](Pipeline& p) { p.classes = 5; }), "classes");
  EXPECT_EQ(place([](Pipeline& p) { p.microbatches = 1 << 20; }), "none");
  EXPECT_EQ(place([](Pipeline& p) { p.microbatches = (1 << 20) + 2; }), "microbatches");
  EXPECT_EQ(place([](Pipeline& p) {
              while (p.stages.size() < 10) p.stages.push_back(p.stages.front());
              p.microbatches = 1 << 20;
            }),
            "microbatches");
  EXPECT_EQ(place([](Pipeline& p) { p.budget.pop_back(); }), "budget");
  EXPECT_EQ(place([](Pipeline& p) { p.stages[StageId(1)].modes.clear(); }), "stages[1].modes");
  EXPECT_EQ(place([](Pipeline& p) { p.stages[StageId(1)].modes[0].saved = Bytes(-1); }), "stages[1].modes[0].saved");
  EXPECT_EQ(place([](Pipeline& p) { p.stages[StageId(2)].modes[0].forward = Duration::max(); }), "stages[2]");
}

}  // namespace
}  // namespace remora
