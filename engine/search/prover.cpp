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

/// An integer program begins again where the gap below its cutoff is no more than so many parts of one more.
constexpr std::int64_t kMuchLower = 4;
/// Between two looks at the cutoff.
constexpr std::chrono::milliseconds kPause{20};
/// Between two looks at what the thread has used.
constexpr double kSecondsOfLook = 2e-3;
/// CPU seconds that it may use at once, and no more than so many that it did not use are kept for later.
constexpr double kCredit = 0.2;

/// Seconds of the first integer program that does not end.
constexpr double kFirstMipSeconds = 2;
/// HiGHS comes to an end where CBC does not.
constexpr double kFirstMipSecondsOfHighs = 30;

}  // namespace

/// The time that the calling thread may still use of its core.
class Prover::Ration {
 public:
  /// The deadline outlives this.
  explicit Ration(const Deadline& deadline) : deadline_(deadline) {}

  /// Sleeps a little if it has used too much. Cheap to ask: false if it did not look.
  bool wait(double share) {
    const double here = deadline_.elapsed();
    if (here < looked_ + kSecondsOfLook) return false;
    const double used = cpu_seconds_of_thread();
    left_ = std::min(kCredit, left_ + share * (here - looked_) - (used - used_));
    looked_ = here;
    used_ = used;
    if (left_ < 0)
      std::this_thread::sleep_for(std::min<std::chrono::duration<double>>(kPause, -left_ / share * kSecond));
    return true;
  }

 private:
  static constexpr std::chrono::duration<double> kSecond{1};

  const Deadline& deadline_;
  double looked_ = deadline_.elapsed();
  double used_ = cpu_seconds_of_thread();
  double left_ = kCredit;
};

/// The work that the thread does, in counted nanoseconds; under a work limit, what it may still do. Under a time limit
/// solvers are interrupted in steps that they have counted before: there it is at most kMostOfCpu times its CPU time.
class Prover::Budget {
 public:
  explicit Budget(Prover& prover)
      : prover_(prover), end_(prover.settings_.counts_work ? counted_nanoseconds() - prover.debt_ : kNoEnd) {}
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;
  ~Budget() {
    const std::lock_guard lock(prover_.mutex_);
    report();
  }

  /// True if nothing is left. Cheap to ask.
  [[nodiscard]] bool is_used_up() const { return counted_nanoseconds() >= end_; }
  /// Waits for more, or for another wish than to go on.
  void wait() {
    std::unique_lock lock(prover_.mutex_);
    report();
    const State before = prover_.state_;
    prover_.state_ = State::spent;
    prover_.changed_.notify_all();
    prover_.changed_.wait(lock, [this] { return prover_.wish_ != Wish::goes_on || prover_.granted_ > prover_.debt_; });
    end_ += std::exchange(prover_.granted_, 0);
    prover_.state_ = before;
  }
  /// Says how much was used: no more than was granted, since what exceeds that is not begun with until it is granted.
  /// The lock is held.
  void report() {
    const std::int64_t most = end_ == kNoEnd ? begin_ + kMostOfCpu * nanoseconds_of_cpu() : end_;
    const std::int64_t used = std::max(reported_, std::min(counted_nanoseconds(), most));
    prover_.used_ += used - std::exchange(reported_, used);
    if (end_ != kNoEnd) prover_.debt_ = counted_nanoseconds() - end_;
  }

 private:
  static constexpr std::int64_t kNoEnd = INT64_MAX;
  static constexpr std::int64_t kMostOfCpu = 2;

  [[nodiscard]] std::int64_t nanoseconds_of_cpu() const {
    return static_cast<std::int64_t>(1e9 * (cpu_seconds_of_thread() - cpu_begin_));
  }

  Prover& prover_;
  std::int64_t begin_ = counted_nanoseconds();
  double cpu_begin_ = cpu_seconds_of_thread();
  /// Begins with the debt of an earlier thread.
  std::int64_t end_;
  std::int64_t reported_ = std::min(counted_nanoseconds(), end_);
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
  // Solvers count what they are about to do, and then ask whether to end: the step that the next thread begins with
  // counts it again.
  debt_ = std::min<std::int64_t>(debt_, 0);
}

void Prover::pause() {
  if (!settings_.may_rest) return stop();
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
    if (now == Wish::ends || !settings_.may_rest) return true;
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

bool Prover::wait_for_lower(Duration cutoff, const Deadline& deadline, Budget& budget) {
  for (;;) {
    if (is_ended(deadline)) return false;
    std::unique_lock lock(mutex_);
    budget.report();
    finished_below_ = cutoff.count();
    state_ = awaits_lower() ? State::waits : State::works;
    changed_.notify_all();
    if (state_ == State::works) return true;
    changed_.wait_for(lock, kPause, [this] { return wish_ != Wish::goes_on || !awaits_lower(); });
  }
}

Prover::State Prover::run(const Deadline& deadline) {
  Ration ration(deadline);
  Budget budget(*this);
  const bool by_highs = settings_.mip == IntegerSolver::highs && !find_highs().name.empty();
  const auto interrupted = [&] {
    if (!settings_.counts_work) {
      if (ration.wait(share_.load(std::memory_order_relaxed))) {
        const std::lock_guard lock(mutex_);
        budget.report();
      }
      return is_ended(deadline);
    }
    for (;;) {
      if (is_ended(deadline)) return true;
      if (!budget.is_used_up()) return false;
      budget.wait();
    }
  };
  Interrupted stopped;
  if (settings_.counts_work) stopped = [&deadline] { return deadline.reached(); };
  while (!interrupted()) {
    const Duration cutoff(cutoff_.load());
    const auto outdated = [&](const ProofLimits& limits, Duration bound) {
      const Duration now(cutoff_.load(std::memory_order_relaxed));
      return now < limits.cutoff &&
             (now - bound).count() / kMuchLower < (limits.cutoff - bound).count() / (kMuchLower + 1);
    };
    ProofUpdate update = step_({.cutoff = cutoff,
                                .seconds = by_highs ? kFirstMipSecondsOfHighs : kFirstMipSeconds,
                                .mip = settings_.mip,
                                .interrupted = interrupted,
                                .stopped = stopped,
                                .outdated = outdated});
    const bool is_proved = update.infeasible || update.bound >= cutoff;
    const bool is_finished = update.finished;
    {
      const std::lock_guard lock(mutex_);
      updates_.push_back(std::move(update));
    }
    if (!is_finished) continue;
    if (is_proved && !interrupted()) return State::done;
    // A better incumbent rules out more.
    if (!is_proved && !wait_for_lower(cutoff, deadline, budget)) break;
  }
  return State::absent;
}

bool Prover::is_settled() const {
  // One that is told to go on rests until it wakes.
  const bool wakes = state_ == State::rests && wish_ == Wish::goes_on;
  return (is_still() && !wakes) || (state_ == State::waits && awaits_lower()) ||
         (state_ == State::spent && granted_ <= debt_);
}

Work Prover::settle(const Deadline& deadline) {
  std::unique_lock lock(mutex_);
  while (settings_.counts_work && thread_.joinable() && !is_settled() && !deadline.reached()) {
    changed_.wait_for(lock, kPause, [this] { return is_settled(); });
  }
  const Work done(used_ / kNanosecondsOfWork);
  used_ %= kNanosecondsOfWork;
  return done;
}

void Prover::set_cutoff(Duration extra) {
  const std::lock_guard lock(mutex_);
  cutoff_ = extra.count();
  changed_.notify_all();
}

std::optional<Work> Prover::grant(Work more, Work most) {
  const std::lock_guard lock(mutex_);
  if (!settings_.counts_work || is_over() || (state_ == State::waits && awaits_lower())) return std::nullopt;
  granted_ += more.count() * kNanosecondsOfWork;
  if (granted_ / kNanosecondsOfWork >= most.count()) granted_ = most.count() * kNanosecondsOfWork;
  changed_.notify_all();
  return Work(granted_ / kNanosecondsOfWork);
}

}  // namespace remora
