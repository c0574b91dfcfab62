// SPDX-License-Identifier: Apache-2.0
#include "engine/base/lingering.hpp"

#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include <unistd.h>

namespace remora {
namespace {

class Lingering {
 public:
  ~Lingering() {
    // The threads of the process that this one was forked from are not here.
    const bool is_here = process_ == getpid();
    for (auto& [thread, is_done] : threads_) is_here ? thread.join() : thread.detach();
  }

  void take(std::thread thread, std::function<bool()> is_done) {
    const std::lock_guard lock(mutex_);
    forget_ended();
    threads_.emplace_back(std::move(thread), std::move(is_done));
  }

  bool are_there() {
    const std::lock_guard lock(mutex_);
    forget_ended();
    return process_ == getpid() && !threads_.empty();
  }

  static Lingering& all() {
    static Lingering once;
    return once;
  }

 private:
  void forget_ended() {
    for (auto& [thread, is_done] : threads_) {
      if (process_ == getpid() && is_done()) thread.join();
    }
    std::erase_if(threads_, [](const auto& ended) { return !ended.first.joinable(); });
  }

  pid_t process_ = getpid();
  std::mutex mutex_;
  std::vector<std::pair<std::thread, std::function<bool()>>> threads_;
};

/// True if there ever was one.
std::atomic<bool> any_lingered{false};

}  // namespace

void finish_in_background(std::thread thread, std::function<bool()> is_done) {
  Lingering::all().take(std::move(thread), std::move(is_done));
  any_lingered = true;
}

bool has_background_threads() {
  return any_lingered && Lingering::all().are_there();
}

}  // namespace remora
