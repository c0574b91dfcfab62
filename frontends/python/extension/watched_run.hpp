// SPDX-License-Identifier: Apache-2.0
//
// A long call of the engine, made from Python.
//
//     thread that called          thread of the work
//     waits, without the GIL      solve(...)
//       signals? stop asked for?    call(...)  ------+   update for a callback: waits until it was told
//       takes the GIL, tells   <---------------------+
//     returns what was found      done
//
// The work has a thread of its own, so that the calling one can look for signals (Ctrl-C) and for a wish to stop at any
// time, also while the engine brings no update. Callbacks run in the thread that called, as Python programs expect. The
// first exception, of a callback or of a signal's handler, cancels the work, which then ends with the best it has; it
// is kept for the caller to raise.
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include <nanobind/nanobind.h>

#include "engine/base/callbacks.hpp"

namespace remora::python {

class WatchedRun {
 public:
  /// `stop`: a Python callable that is asked some twenty times a second whether to stop, or None.
  explicit WatchedRun(nanobind::object stop) : stop_(std::move(stop)) {}

  /// For the engine's callbacks: set once the work is to end.
  [[nodiscard]] const std::atomic<bool>& cancel() const { return cancel_; }

  /// Runs `work` to its end. Call it with the GIL, which is released meanwhile. Throws what `work` throws.
  void run(const std::function<void()>& work);

  /// From the thread of the work: calls `tell` with the GIL in the thread that called run(), and waits for it. What it
  /// throws is kept. Nothing is told any more once the work is to end.
  void call(const std::function<void()>& tell);

  /// Ends the work with what it has.
  void end() { cancel_ = true; }

  /// The first exception of a callback or signal, None if there was none.
  [[nodiscard]] nanobind::object interruption() const { return interruption_; }

 private:
  void wait_for_news(std::unique_lock<std::mutex>& lock);
  void look_around();
  void guarded(const std::function<void()>& body);
  void interrupt(nanobind::object exception);

  nanobind::object stop_;
  nanobind::object interruption_ = nanobind::none();
  std::atomic<bool> cancel_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  /// Guarded by mutex_: what is to be told, and whether the work is over.
  const std::function<void()>* pending_ = nullptr;
  bool done_ = false;
};

/// A listener's answer: true ends the work.
void end_if_true(const nanobind::object& answer, WatchedRun& watch);

/// For the engine's callbacks: a Python function that hears of a solve's progress, or nothing for None. Both outlive it.
std::function<void(const Progress&)> reporter(const nanobind::object& listener, WatchedRun& watch);

}  // namespace remora::python
