// SPDX-License-Identifier: Apache-2.0
#include "engine/search/prover.hpp"

#include <atomic>
#include <chrono>
#include <functional>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "engine/base/deadline.hpp"
#include "engine/base/options.hpp"
#include "engine/bound/cover_mip.hpp"
#include "engine/search/search.hpp"
#include "engine/search/workers/crew.hpp"
#include "model/evaluate.hpp"
#include "tests/support/random_graph.hpp"

namespace remora {
namespace {

using State = Prover::State;

void wait_until(const std::function<bool()>& holds) {
  while (!holds()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

/// Steps that end when they are to end, and so often are begun.
Prover::Step patient(std::atomic<int>& begun) {
  return [&begun](const ProofLimits& limits) {
    ++begun;
    wait_until([&] { return limits.is_interrupted(); });
    return ProofUpdate{};
  };
}

TEST(Prover, ThatMayRestGoesOnWithTheStepThatItIsAt) {
  std::atomic<int> begun = 0;
  const Deadline deadline(60, nullptr);
  Prover prover(patient(begun), true);
  EXPECT_EQ(prover.state(), State::absent);
  prover.start(deadline);
  wait_until([&] { return begun == 1; });
  EXPECT_EQ(prover.state(), State::works);
  for (int round = 0; round < 3; ++round) {
    prover.pause();
    EXPECT_EQ(prover.state(), State::rests);
    prover.start(deadline);
    wait_until([&] { return prover.state() == State::works; });
  }
  EXPECT_EQ(begun, 1);
  prover.stop();
  EXPECT_EQ(prover.state(), State::absent);
  prover.start(deadline);
  wait_until([&] { return begun == 2; });
}

TEST(Prover, ThatMayNotRestEndsItsStep) {
  std::atomic<int> begun = 0;
  const Deadline deadline(60, nullptr);
  Prover prover(patient(begun));
  for (int round = 1; round <= 3; ++round) {
    prover.start(deadline);
    wait_until([&] { return begun == round; });
    prover.pause();
    EXPECT_EQ(prover.state(), State::absent);
  }
}

TEST(Prover, WaitsForABetterScheduleAndIsDoneWhenNothingIsLeftBelowIt) {
  std::atomic<int> begun = 0;
  const Deadline deadline(60, nullptr);
  // Nothing costs less than 5.
  Prover prover([&begun](const ProofLimits&) {
    ++begun;
    return ProofUpdate{.bound = Duration(5), .finished = true};
  });
  prover.set_cutoff(Duration(7));
  prover.start(deadline);
  wait_until([&] { return prover.state() == State::waits; });
  EXPECT_EQ(begun, 1);
  prover.set_cutoff(Duration(5));
  wait_until([&] { return prover.state() == State::done; });
  EXPECT_EQ(begun, 2);
  EXPECT_EQ(prover.take().size(), 2U);
  prover.stop();
  prover.start(deadline);
  EXPECT_EQ(prover.state(), State::done);
}

/// What a thread dies of.
const std::vector<std::function<void()>>& causes() {
  static const std::vector<std::function<void()>> causes{
      [] { throw std::bad_alloc(); },
      [] { throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again)); }};
  return causes;
}

TEST(Prover, DiesWithoutMemoryOrThreadsAndStaysDead) {
  const Deadline deadline(60, nullptr);
  for (const auto& die : causes()) {
    std::atomic<int> begun = 0;
    Prover prover([&](const ProofLimits&) {
      if (++begun == 2) die();
      return ProofUpdate{.bound = Duration(begun)};
    });
    prover.start(deadline);
    wait_until([&] { return prover.state() == State::died; });
    prover.pause();
    prover.start(deadline);
    EXPECT_EQ(prover.state(), State::died);
    EXPECT_EQ(prover.take().size(), 1U);
    EXPECT_EQ(begun, 2);
  }
}

TEST(Prover, ThatHasDiedIsNotedInTheSchedule) {
  if (!cover_mip_available()) GTEST_SKIP() << "a build without COIN-OR CBC";
  const Instance unlimited(test::training_chain(20), {});
  const Instance instance = unlimited.with_budget(Bytes(baseline_peak(unlimited).count() * 6 / 10));
  for (const auto& die : causes()) {
    std::atomic<bool> is_dying = false;
    SearchParts parts{.crew = input_order_crew, .proves = true};
    parts.starts = {{When::at_once, [&](Search&) { wait_until([&] { return is_dying.load(); }); }}};
    parts.proof = [&](const ProofLimits&) {
      is_dying = true;
      die();
      return ProofUpdate{};
    };
    SolveOptions options;
    options.time_limit = 0.2;
    Search search(instance, options, parts);
    search.run_session({Deadline(options.time_limit, nullptr)});
    const Schedule schedule = search.answer();
    EXPECT_EQ(schedule.solver.note, "the proof ended early, for want of memory or threads");
    EXPECT_TRUE(schedule.has_steps());
  }
}

}  // namespace
}  // namespace remora
