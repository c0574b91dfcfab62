// SPDX-License-Identifier: Apache-2.0
#include "engine/search/prover.hpp"

#include <algorithm>
#include <chrono>
#include <new>
#include <system_error>
#include <utility>

#include "engine/bound/highs.hpp"

namespace remora {
namespace {

/// Under a work limit.
constexpr int kSteps = 12;
constexpr int kChoicesOfStep = 400;
constexpr std::int64_t kNodesOfStep = 200;
/// An integer program begins again where the gap below its cutoff is no more than so many parts of one more.
constexpr std::int64_t kMuchLower = 4;
/// Between two looks at the cutoff.
constexpr std::chrono::milliseconds kPause{20};
/// Between two looks at what the thread has used.
constexpr double kSecondsOfLook = 2e-3;
/// CPU seconds that it may use at once, and no more than so many that it did not use are kept for later.
constexpr double kCredit = 0.2;

/// CPU seconds of the first integer program that does not end.
constexpr double kFirstMipSeconds = 2;
/// HiGHS comes to an end where CBC does not.
constexpr double kFirstMipSecondsOfHighs = 30;

}  // namespace

/// The time that the calling thread may still use of its core.
class Prover::Ration {
 public:
  /// The deadline outlives this.
  explicit Ration(const Deadline& deadline) : deadline_(deadline) {}

  /// Sleeps a little if it has used too much. Cheap to ask.
  void wait(double share) {
    const double here = deadline_.elapsed();
    if (here < looked_ + kSecondsOfLook) return;
    const double used = cpu_seconds_of_thread();
    left_ = std::min(kCredit, left_ + share * (here - looked_) - (used - used_));
    looked_ = here;
    used_ = used;
    if (left_ < 0)
      std::this_thread::sleep_for(std::min<std::chrono::duration<double>>(kPause, -left_ / share * kSecond));
  }

 private:
  static constexpr std::chrono::duration<double> kSecond{1};

  const Deadline& deadline_;
  double looked_ = deadline_.elapsed();
  double used_ = cpu_seconds_of_thread();
  double left_ = kCredit;
};

void Prover::start(const Deadline& deadline) {
  wish(Wish::goes_on);
  if (thread_.joinable() || is_over()) return;
  enter(State::works);
  try {
    thread_ = std::thread([this, &deadline] { enter(live(deadline)); });
  } catch (const std::system_error&) {
    enter(State::died);
  }
}

void Prover::stop() {
  wish(Wish::ends);
  if (thread_.joinable()) thread_.join();
}

void Prover::pause() {
  if (!may_rest_) return stop();
  if (!thread_.joinable()) return;
  wish(Wish::rests);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return is_still(); });
}

void Prover::wish(Wish wish) {
  const std::lock_guard lock(mutex_);
  wish_ = wish;
  changed_.notify_all();
}

void Prover::enter(State state) {
  const std::lock_guard lock(mutex_);
  state_ = state;
  changed_.notify_all();
}

bool Prover::is_ended(const Deadline& deadline) {
  for (;;) {
    const Wish now = wish_.load(std::memory_order_relaxed);
    if (now == Wish::goes_on && !deadline.reached()) return false;
    if (now == Wish::ends || !may_rest_) return true;
    std::unique_lock lock(mutex_);
    const State before = state_;
    // At a deadline it rests when it is told to.
    changed_.wait(lock, [this] {
      if (wish_ == Wish::rests && !is_still()) {
        state_ = State::rests;
        changed_.notify_all();
      }
      return wish_ == Wish::ends || (wish_ == Wish::goes_on && state_ == State::rests);
    });
    state_ = before;
  }
}

std::vector<ProofUpdate> Prover::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(updates_, {});
}

Prover::State Prover::live(const Deadline& deadline) {
  try {
    return run(deadline);
  } catch (const std::bad_alloc&) {
    return State::died;
  } catch (const std::system_error&) {
    // There are no more threads for HiGHS.
    return State::died;
  }
}

Prover::State Prover::run(const Deadline& deadline) {
  Ration ration(deadline);
  const bool by_highs = mip_ == IntegerSolver::highs && !find_highs().name.empty();
  const double mip_seconds = by_highs ? kFirstMipSecondsOfHighs : kFirstMipSeconds;
  const auto interrupted = [&] {
    ration.wait(share_.load(std::memory_order_relaxed));
    return is_ended(deadline);
  };
  while (!interrupted()) {
    const Duration cutoff(cutoff_.load());
    const auto outdated = [&](const ProofLimits& limits, Duration bound) {
      const Duration now(cutoff_.load(std::memory_order_relaxed));
      return now < limits.cutoff &&
             (now - bound).count() / kMuchLower < (limits.cutoff - bound).count() / (kMuchLower + 1);
    };
    ProofUpdate update = step_(
        {.cutoff = cutoff, .seconds = mip_seconds, .mip = mip_, .interrupted = interrupted, .outdated = outdated});
    const bool is_proved = update.infeasible || update.bound >= cutoff;
    const bool is_finished = update.finished;
    {
      const std::lock_guard lock(mutex_);
      updates_.push_back(std::move(update));
    }
    if (!is_finished) continue;
    if (is_proved && !interrupted()) return State::done;
    if (is_proved) continue;
    // A better incumbent rules out more.
    enter(State::waits);
    while (!interrupted() && Duration(cutoff_.load()) >= cutoff) std::this_thread::sleep_for(kPause);
    enter(State::works);
  }
  return State::absent;
}

std::vector<ProofUpdate> Prover::take_steps(Duration cutoff, Work most, const Deadline& deadline) {
  std::vector<ProofUpdate> found;
  for (int step = 0; step < kSteps && !is_over() && most > Work(0) && !deadline.reached(); ++step) {
    // Nothing begins that could take much more than is left.
    found.push_back(step_({.cutoff = cutoff,
                           .nodes = kNodesOfStep,
                           .choices = kChoicesOfStep,
                           .work = most,
                           .mip = mip_,
                           .interrupted = [&] { return deadline.reached(); }}));
    most -= found.back().work;
    if (found.back().finished) enter(State::done);
  }
  return found;
}

}  // namespace remora
