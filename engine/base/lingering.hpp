// SPDX-License-Identifier: Apache-2.0
//
// Threads whose work nobody waits for any more, and that end only when they next ask: of libraries that cannot be
// interrupted at once.
#pragma once

#include <functional>
#include <thread>

namespace remora {

/// From now on the process waits for the thread when it ends. `is_done` says, from any thread, that it is about to end; what it
/// refers to outlives the thread. Static objects that the thread uses exist already.
void finish_in_background(std::thread thread, std::function<bool()> is_done);

/// True if there are such threads: a process that does not want to wait for them leaves by std::_Exit.
bool has_background_threads();

}  // namespace remora
