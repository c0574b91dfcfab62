// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>

namespace remora {

/// When to stop: a point in time, or somebody's wish. Safe to ask from many threads.
class Deadline {
 public:
  /// `cancel` may be null.
  Deadline(double seconds, const std::atomic<bool>* cancel) : limit_(seconds), cancel_(cancel) {}

  [[nodiscard]] double elapsed() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }
  /// Whoever solves a part of the work with a deadline of its own passes this on. May be null.
  [[nodiscard]] const std::atomic<bool>* cancel() const { return cancel_; }
  [[nodiscard]] bool reached() const {
    return (cancel_ != nullptr && cancel_->load(std::memory_order_relaxed)) || elapsed() >= limit_;
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  double limit_;
  const std::atomic<bool>* cancel_;
};

}  // namespace remora
