// SPDX-License-Identifier: Apache-2.0
//
// Which workers run in a round: a lottery among them, in which what brought news weighs more.
//
// Each worker has a weight, at first 1. After every round in which something got better the weight moves
// towards the worker's share in it: its improvement of the schedule, or of the bound, as a part of the round's largest.
// Nobody's weight falls below a floor: what is useless now may be needed later. Some workers may be exempt and run in
// every round: the complete search where the graph is small enough for it to end. The draw depends on the seed and what
// the rounds brought, not on time or threads.
#pragma once

#include <memory>
#include <vector>

#include "engine/search/worker.hpp"
#include "model/random.hpp"

namespace remora {

/// The two phases of Moccasin, section 2.4: until a schedule holds the budget, and then shortening it.
enum class SearchPhase { feasibility, duration };

class Mix {
 public:
  /// The first `exempt` workers run in every round.
  Mix(std::vector<std::unique_ptr<Worker>> workers, std::size_t exempt, std::uint64_t seed);

  /// The workers of the next round, in the order in which they were given.
  [[nodiscard]] std::vector<Worker*> draw(const RoundInput& input);

  /// What one worker of the round has brought.
  struct News {
    const Worker* worker = nullptr;
    double schedule = 0;
    double bound = 0;
  };
  void learn(const std::vector<News>& round);

 private:
  struct Member {
    std::unique_ptr<Worker> worker;
    double weight = 1;
  };
  std::vector<Member> members_;
  std::size_t exempt_;
  Random random_;
};

}  // namespace remora
