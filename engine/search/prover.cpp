// SPDX-License-Identifier: Apache-2.0
#include "engine/search/prover.hpp"

#include <chrono>
#include <utility>

namespace remora {
namespace {

/// Under a work limit.
constexpr int kSteps = 6;
constexpr int kChoicesOfStep = 400;
constexpr std::int64_t kNodesOfStep = 200;
/// Between two looks at the ceiling.
constexpr std::chrono::milliseconds kPause{20};

}  // namespace

void Prover::start(const Deadline& deadline) {
  if (finished_ || thread_.joinable()) return;
  stopped_ = false;
  thread_ = std::thread([this, &deadline] { run(deadline); });
}

void Prover::pause() {
  stopped_ = true;
  if (thread_.joinable()) thread_.join();
}

std::vector<ProofNews> Prover::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(news_, {});
}

void Prover::run(const Deadline& deadline) {
  const auto interrupted = [&] { return stopped_.load(std::memory_order_relaxed) || deadline.reached(); };
  while (!finished_ && !interrupted()) {
    const Duration ceiling(ceiling_.load());
    ProofNews news = proof_.step({.ceiling = ceiling, .interrupted = interrupted});
    const bool proved = news.infeasible || news.bound >= ceiling;
    finished_ = news.finished && proved && !interrupted();
    const bool waits = news.finished && !proved;
    {
      const std::lock_guard lock(mutex_);
      news_.push_back(std::move(news));
    }
    // A better incumbent rules out more.
    while (waits && !interrupted() && Duration(ceiling_.load()) >= ceiling) std::this_thread::sleep_for(kPause);
  }
}

std::vector<ProofNews> Prover::take_steps(Duration ceiling, const Deadline& deadline) {
  std::vector<ProofNews> found;
  for (int step = 0; step < kSteps && !finished_ && !deadline.reached(); ++step) {
    found.push_back(
        proof_.step({.ceiling = ceiling, .nodes = kNodesOfStep, .choices = kChoicesOfStep, .interrupted = [&] {
                       return deadline.reached();
                     }}));
    finished_ = found.back().finished;
  }
  return found;
}

}  // namespace remora
