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
/// An integer program begins again where the gap below its ceiling is no more than so many parts of one more.
constexpr std::int64_t kMuchLower = 4;
/// Between two looks at the ceiling.
constexpr std::chrono::milliseconds kPause{20};
/// Between two looks at what the thread has used.
constexpr double kSecondsOfLook = 2e-3;
/// CPU seconds that it may use at once, and no more than so many that it did not use are kept for later.
constexpr double kCredit = 0.2;

/// CPU seconds of the first integer program that does not end.
constexpr double kPatience = 2;
/// HiGHS comes to an end where CBC does not.
constexpr double kPatienceOfHighs = 30;

}  // namespace

/// What the calling thread may still use of its core.
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
  // While there is a thread, finished_ is its own.
  if (thread_.joinable() || finished_) return;
  idle_ = false;
  thread_ = std::thread([this, &deadline] {
    try {
      run(deadline);
    } catch (const std::bad_alloc&) {
      // The search goes on without it.
      finished_ = true;
    } catch (const std::system_error&) {
      // So it does where there are no more threads for HiGHS.
      finished_ = true;
    }
    works_ = false;
    const std::lock_guard lock(mutex_);
    idle_ = true;
    changed_.notify_all();
  });
}

void Prover::pause() {
  wish(Wish::ends);
  if (thread_.joinable()) thread_.join();
}

void Prover::rest() {
  if (!rests_) return pause();
  if (!thread_.joinable()) return;
  wish(Wish::rests);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return idle_; });
}

void Prover::wish(Wish wish) {
  const std::lock_guard lock(mutex_);
  wish_ = wish;
  changed_.notify_all();
}

bool Prover::ends(const Deadline& deadline) {
  for (;;) {
    const Wish now = wish_.load(std::memory_order_relaxed);
    if (now == Wish::goes_on && !deadline.reached()) return false;
    if (now == Wish::ends || !rests_) return true;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] {
      if (wish_ == Wish::rests && !std::exchange(idle_, true)) changed_.notify_all();
      return wish_ == Wish::ends || (wish_ == Wish::goes_on && idle_);
    });
    idle_ = false;
  }
}

std::vector<ProofNews> Prover::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(news_, {});
}

void Prover::run(const Deadline& deadline) {
  Ration ration(deadline);
  const double patience = find_highs().name.empty() ? kPatience : kPatienceOfHighs;
  const auto interrupted = [&] {
    ration.wait(share_.load(std::memory_order_relaxed));
    return ends(deadline);
  };
  while (!finished_ && !interrupted()) {
    const Duration ceiling(ceiling_.load());
    const auto outdated = [&](const ProofLimits& limits, Duration bound) {
      const Duration now(ceiling_.load(std::memory_order_relaxed));
      return now < limits.ceiling &&
             (now - bound).count() / kMuchLower < (limits.ceiling - bound).count() / (kMuchLower + 1);
    };
    works_ = true;
    ProofNews news =
        proof_.step({.ceiling = ceiling, .seconds = patience, .interrupted = interrupted, .outdated = outdated});
    const bool proved = news.infeasible || news.bound >= ceiling;
    const bool is_done = news.finished;
    {
      const std::lock_guard lock(mutex_);
      news_.push_back(std::move(news));
    }
    finished_ = is_done && proved && !interrupted();
    const bool waits = is_done && !proved;
    works_ = !is_done;
    // A better incumbent rules out more.
    while (waits && !interrupted() && Duration(ceiling_.load()) >= ceiling) std::this_thread::sleep_for(kPause);
  }
}

std::vector<ProofNews> Prover::take_steps(Duration ceiling, Work most, const Deadline& deadline) {
  std::vector<ProofNews> found;
  for (int step = 0; step < kSteps && !finished_ && most > Work(0) && !deadline.reached(); ++step) {
    // Nothing begins that could take much more than is left.
    found.push_back(proof_.step(
        {.ceiling = ceiling, .nodes = kNodesOfStep, .choices = kChoicesOfStep, .work = most, .interrupted = [&] {
           return deadline.reached();
         }}));
    most -= found.back().work;
    finished_ = found.back().finished;
  }
  return found;
}

}  // namespace remora
