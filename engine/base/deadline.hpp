// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>

namespace remora {

/// When to stop: a point in time, or somebody's wish. Safe to ask from many threads.
class Deadline {
 public:
  /// `cancel` may be null. `used`: seconds of earlier sessions; they count as elapsed, and against the limit.
  Deadline(double seconds, const std::atomic<bool>* cancel, double used = 0)
      : limit_(seconds), cancel_(cancel), used_(used) {}

  [[nodiscard]] double elapsed() const {
    return used_ + std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }
  /// These seconds do not count as elapsed. Not while other threads ask.
  void exclude(double seconds) { used_ -= seconds; }
  /// Whoever solves a part of the work with a deadline of its own passes this on. May be null.
  [[nodiscard]] const std::atomic<bool>* cancel() const { return cancel_; }
  [[nodiscard]] bool cancelled() const { return cancel_ != nullptr && cancel_->load(std::memory_order_relaxed); }
  [[nodiscard]] bool reached() const { return cancelled() || elapsed() >= limit_; }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  double limit_;
  const std::atomic<bool>* cancel_;
  double used_;
};

}  // namespace remora
