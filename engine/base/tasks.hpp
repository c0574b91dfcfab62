// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>

#include "engine/base/options.hpp"

namespace remora {

/// The threads that a solve uses: the option, or one a core.
int thread_count(const SolveOptions& options);

/// Runs task(0) ... task(count - 1) as TBB tasks on at most `threads` threads, more than there are cores if so wanted,
/// and waits for all of them. An exception of a task is thrown here. May be called from several threads. In builds for
/// ThreadSanitizer tasks run in plain threads (tasks.cpp says why).
void run_tasks(int threads, std::size_t count, const std::function<void(std::size_t)>& task);

}  // namespace remora
