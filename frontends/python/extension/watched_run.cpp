// SPDX-License-Identifier: Apache-2.0
#include "frontends/python/extension/watched_run.hpp"

#include <chrono>
#include <utility>

namespace remora::python {
namespace {

namespace nb = nanobind;
constexpr std::chrono::milliseconds kLookEvery(50);

}  // namespace

void WatchedRun::run(const std::function<void()>& work) {
  std::exception_ptr failure;
  {
    const nb::gil_scoped_release unlocked;
    std::thread worker([&] {
      try {
        work();
      } catch (...) {
        failure = std::current_exception();
      }
      const std::lock_guard lock(mutex_);
      done_ = true;
      changed_.notify_all();
    });
    std::unique_lock lock(mutex_);
    while (!done_) wait_for_news(lock);
    lock.unlock();
    worker.join();
  }
  if (failure) std::rethrow_exception(failure);
}

void WatchedRun::wait_for_news(std::unique_lock<std::mutex>& lock) {
  changed_.wait_for(lock, kLookEvery, [&] { return done_ || pending_ != nullptr; });
  if (done_) return;
  const std::function<void()>* const update = pending_;
  lock.unlock();
  {
    const nb::gil_scoped_acquire locked;
    look_around();
    if (update != nullptr && !cancel_) guarded(*update);
  }
  lock.lock();
  if (update == nullptr) return;
  pending_ = nullptr;
  changed_.notify_all();
}

void WatchedRun::call(const std::function<void()>& tell) {
  std::unique_lock lock(mutex_);
  if (cancel_) return;
  pending_ = &tell;
  changed_.notify_all();
  changed_.wait(lock, [&] { return pending_ == nullptr; });
}

void WatchedRun::look_around() {
  guarded([&] {
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (!cancel_ && !stop_.is_none() && nb::cast<bool>(nb::bool_(stop_()))) cancel_ = true;
  });
}

void WatchedRun::guarded(const std::function<void()>& body) {
  try {
    body();
  } catch (nb::python_error& error) {
    interrupt(nb::borrow(error.value()));
  } catch (const std::exception& error) {
    interrupt(nb::module_::import_("builtins").attr("RuntimeError")(error.what()));
  }
}

void WatchedRun::interrupt(nb::object exception) {
  cancel_ = true;
  if (interruption_.is_none()) interruption_ = std::move(exception);
}

void end_if_true(const nanobind::object& answer, WatchedRun& watch) {
  if (nanobind::cast<bool>(nanobind::bool_(answer))) watch.end();
}

std::function<void(const Progress&)> reporter(const nanobind::object& listener, WatchedRun& watch) {
  if (listener.is_none()) return {};
  return [&watch, &listener](const Progress& update) {
    watch.call([&] {
      end_if_true(
          listener(nanobind::make_tuple(update.seconds, update.phase, progress_label(update), update.duration.count(),
                                        update.peak.count(), update.lower_bound.count(), update.work)),
          watch);
    });
  };
}

}  // namespace remora::python
