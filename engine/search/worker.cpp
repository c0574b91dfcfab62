// SPDX-License-Identifier: Apache-2.0
#include "engine/search/worker.hpp"

#include <algorithm>

#include "model/random.hpp"

namespace remora {
namespace {

constexpr double kLearning = 0.1;
constexpr double kMinWeight = 0.15;

/// Each worker's part of the round's largest.
double share(double outcome, double largest) {
  return largest > 0 ? outcome / largest : 0;
}

}  // namespace

Mix::Mix(std::vector<std::unique_ptr<Worker>> workers, std::size_t exempt, std::uint64_t seed)
    : exempt_(exempt), random_(seed) {
  for (auto& worker : workers) members_.push_back({std::move(worker), 1.0});
}

std::vector<Worker*> Mix::draw(const RoundInput& input) {
  std::vector<std::size_t> ready;
  std::vector<std::size_t> drawn;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (members_[i].worker->ready(input)) (i < exempt_ ? drawn : ready).push_back(i);
  }
  while (!ready.empty() && drawn.size() < kWorkersOfRound) {
    const std::size_t chosen =
        draw_weighted(ready.size(), random_, [&](std::size_t i) { return members_[ready[i]].weight; });
    drawn.push_back(ready[chosen]);
    ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(chosen));
  }
  std::sort(drawn.begin(), drawn.end());
  std::vector<Worker*> workers;
  workers.reserve(drawn.size());
  for (const std::size_t i : drawn) workers.push_back(members_[i].worker.get());
  return workers;
}

void Mix::learn(const std::vector<Outcome>& round) {
  double schedule = 0;
  double bound = 0;
  for (const Outcome& outcome : round) {
    schedule = std::max(schedule, outcome.schedule);
    bound = std::max(bound, outcome.bound);
  }
  if (schedule <= 0 && bound <= 0) return;
  for (const Outcome& outcome : round) {
    const auto member = std::find_if(members_.begin(), members_.end(),
                                     [&](const Member& m) { return m.worker.get() == outcome.worker; });
    const double earned = std::max(share(outcome.schedule, schedule), share(outcome.bound, bound));
    member->weight = std::max(kMinWeight, member->weight + kLearning * (earned - member->weight));
  }
}

}  // namespace remora
