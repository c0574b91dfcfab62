// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/signals.hpp"

#include <csignal>

namespace remora::cli {
namespace {

// A signal handler can reach nothing but what has static storage.
std::atomic<bool> signalled{false};
static_assert(std::atomic<bool>::is_always_lock_free);

extern "C" void remora_note_signal(int) {
  signalled.store(true, std::memory_order_relaxed);
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  // The handler serves once: the second signal does what it always did.
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
  sigaction(signal, &action, nullptr);
}

}  // namespace

SignalGuard::SignalGuard() {
  signalled.store(false, std::memory_order_relaxed);
  handle(SIGINT, remora_note_signal);
  handle(SIGTERM, remora_note_signal);
}

SignalGuard::~SignalGuard() {
  handle(SIGINT, SIG_DFL);
  handle(SIGTERM, SIG_DFL);
}

const std::atomic<bool>& SignalGuard::flag() const {
  return signalled;
}

}  // namespace remora::cli
