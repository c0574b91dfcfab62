// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/commands/signals.hpp"

namespace remora::cli {
namespace {

// A signal handler can reach nothing but what has static storage.
std::atomic<bool> signalled{false};
static_assert(std::atomic<bool>::is_always_lock_free);

extern "C" void remora_note_signal(int) {
  signalled.store(true, std::memory_order_relaxed);
}

}  // namespace

SignalGuard::SignalGuard() {
  signalled.store(false, std::memory_order_relaxed);
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], nullptr, &former_[i]);
    if (former_[i].sa_handler == SIG_IGN) continue;
    struct sigaction action {};
    action.sa_handler = kSignals[i] == SIGPIPE ? SIG_IGN : remora_note_signal;
    sigemptyset(&action.sa_mask);
    // The handler serves once: the second signal does what it always did.
    action.sa_flags = kSignals[i] == SIGPIPE ? SA_RESTART : static_cast<int>(SA_RESETHAND) | SA_RESTART;
    sigaction(kSignals[i], &action, nullptr);
  }
}

SignalGuard::~SignalGuard() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &former_[i], nullptr);
}

const std::atomic<bool>& SignalGuard::flag() const {
  return signalled;
}

}  // namespace remora::cli
