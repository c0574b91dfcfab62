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
#include "engine/base/work.hpp"
#include "engine/bound/counted_seconds.hpp"
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
  Prover prover(patient(begun), {.may_rest = true});
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

/// Steps of so many questions, with so many counted nanoseconds before each. The bound is all that was counted.
Prover::Step counting(std::int64_t nanoseconds_of_question, int questions) {
  return [=, done = std::int64_t{0}](const ProofLimits& limits) mutable {
    for (int i = 0; i < questions; ++i) {
      counted_nanoseconds() += nanoseconds_of_question;
      done += nanoseconds_of_question;
      if (limits.is_interrupted()) break;
    }
    return ProofUpdate{.bound = Duration(done)};
  };
}

TEST(Prover, UnderAWorkLimitReportsWhatItIsGrantedAndOwesTheRest) {
  constexpr std::int64_t kQuestion = 5 * kNanosecondsOfWork;
  const Deadline deadline(60, nullptr);
  for (int repeat = 0; repeat < 20; ++repeat) {
    Prover prover(counting(kQuestion, 3), {.counts_work = true});
    prover.start(deadline);
    EXPECT_EQ(prover.settle(deadline), Work(0));
    Work granted{};
    Work paid{};
    Work done{};
    std::size_t steps = 0;
    for (const int more : {1, 1, 9, 0, 14, 100, 3}) {
      prover.grant(Work(more), Work::max());
      granted += Work(more);
      // It asks after every five units, and goes on once all that it has counted is granted, and more.
      if (granted.count() > (paid.count() + 4) / 5 * 5) paid = granted;
      done += prover.settle(deadline);
      EXPECT_EQ(prover.state(), State::spent);
      EXPECT_EQ(done, paid);
      steps += prover.take().size();
    }
    EXPECT_EQ(steps, at((done.count() - 1) / 15));
    prover.grant(Work(1000), Work::max());
    prover.settle(deadline);
    prover.pause();
    EXPECT_EQ(prover.state(), State::absent);
    const std::vector<ProofUpdate> last = prover.take();
    ASSERT_FALSE(last.empty());
    EXPECT_EQ(last.back().bound.count(), (done.count() + 1000 + 4) / 5 * kQuestion);
  }
}

TEST(Prover, UnderAWorkLimitSavesForALargeStepWithinTheRest) {
  const Deadline deadline(60, nullptr);
  Prover prover(counting(50 * kNanosecondsOfWork, 1), {.counts_work = true});
  prover.start(deadline);
  EXPECT_EQ(prover.grant(Work(10), Work::max()), Work(10));
  // It has counted a step of 50, which is not begun yet.
  EXPECT_EQ(prover.settle(deadline), Work(10));
  EXPECT_EQ(prover.grant(Work(25), Work(30)), Work(25));
  EXPECT_EQ(prover.settle(deadline), Work(0));
  EXPECT_EQ(prover.grant(Work(25), Work(30)), Work(30));
  EXPECT_EQ(prover.settle(deadline), Work(0));
  EXPECT_TRUE(prover.take().empty());
  EXPECT_EQ(prover.grant(Work(25), Work(100)), Work(55));
  EXPECT_EQ(prover.settle(deadline), Work(55));
  EXPECT_EQ(prover.take().size(), 1U);
}

TEST(Prover, UnderAWorkLimitUsesWhatItIsGrantedAlsoAfterARest) {
  const Deadline deadline(60, nullptr);
  Prover prover(counting(kNanosecondsOfWork, 3), {.may_rest = true, .counts_work = true});
  for (int repeat = 0; repeat < 50; ++repeat) {
    prover.start(deadline);
    prover.grant(Work(7), Work::max());
    EXPECT_EQ(prover.settle(deadline), Work(7));
    prover.pause();
    EXPECT_EQ(prover.state(), State::rests);
  }
}

TEST(Prover, UnderAWorkLimitIsSettledWhereNothingIsLeftBelowTheCutoff) {
  const Deadline deadline(60, nullptr);
  Prover prover(
      [](const ProofLimits&) {
        counted_nanoseconds() += 2 * kNanosecondsOfWork;
        return ProofUpdate{.bound = Duration(5), .finished = true};
      },
      {.counts_work = true});
  prover.set_cutoff(Duration(7));
  prover.start(deadline);
  prover.grant(Work(10), Work::max());
  EXPECT_EQ(prover.settle(deadline), Work(2));
  EXPECT_EQ(prover.state(), State::waits);
  EXPECT_FALSE(prover.grant(Work(10), Work::max()));
  prover.set_cutoff(Duration(5));
  EXPECT_EQ(prover.settle(deadline), Work(2));
  EXPECT_EQ(prover.state(), State::done);
  EXPECT_FALSE(prover.grant(Work(10), Work::max()));
}

TEST(Prover, UnderAWorkLimitEndsForTheDeadlineAllTheSame) {
  const Deadline deadline(0.05, nullptr);
  Prover prover(counting(0, 1'000'000'000), {.counts_work = true});
  prover.start(deadline);
  prover.grant(Work(1), Work::max());
  prover.settle(deadline);
  EXPECT_TRUE(deadline.reached());
  prover.stop();
  EXPECT_EQ(prover.state(), State::absent);
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
