// SPDX-License-Identifier: Apache-2.0
#include "engine/base/tasks.hpp"

#include <tbb/info.h>

namespace remora {

int thread_count(const SolveOptions& options) {
  return options.threads > 0 ? options.threads : tbb::info::default_concurrency();
}

}  // namespace remora

#if defined(__SANITIZE_THREAD__)

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace remora {

/// Debian's TBB is not built for ThreadSanitizer, which takes its queues for races and, told to look away there, would
/// look away from everything that runs in a task. Plain threads let it watch what tasks share.
void run_tasks(int threads, std::size_t count, const std::function<void(std::size_t)>& task) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  const auto run = [&] {
    try {
      for (std::size_t i = next++; i < count; i = next++) task(i);
    } catch (...) {
      const std::lock_guard lock(mutex);
      failure = std::current_exception();
    }
  };
  std::vector<std::thread> pool;
  for (std::size_t i = 0; i < std::min(count, static_cast<std::size_t>(std::max(1, threads))); ++i) {
    pool.emplace_back(run);
  }
  for (std::thread& thread : pool) thread.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace remora

#else

#include <optional>

#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/partitioner.h>
#include <tbb/task_arena.h>

namespace remora {

void run_tasks(int threads, std::size_t count, const std::function<void(std::size_t)>& task) {
  // TBB starts no more workers than there are cores, and complains, unless it is told that more are meant.
  std::optional<tbb::global_control> more_than_cores;
  if (threads > tbb::info::default_concurrency()) {
    more_than_cores.emplace(tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(threads));
  }
  tbb::task_arena arena(threads);
  arena.execute([&] { tbb::parallel_for(std::size_t{0}, count, task, tbb::simple_partitioner()); });
}

}  // namespace remora

#endif
