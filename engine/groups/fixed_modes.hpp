// SPDX-License-Identifier: Apache-2.0
//
// The local search where ops have several modes: with each op in the mode of its first run in the incumbent, the
// problem has one mode per op, and the usual workers change its plans. Compositions change the modes (composition.hpp).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/bound/cover_facts.hpp"
#include "engine/search/worker.hpp"
#include "model/instance.hpp"

namespace remora {

/// The problem with each op in one of its modes, which `modes` has by op; none if one of these has inner peaks. A plan
/// of it needs the same memory and time as its runs in these modes. The instance is in the input order.
std::optional<Instance> with_fixed_modes(const Instance& instance, const std::vector<ModeNumber>& modes);

/// A worker of plans, on the problem with the incumbent's modes.
class FixedModesWorker : public Worker {
 public:
  explicit FixedModesWorker(std::uint64_t seed) : seed_(seed) {}

  [[nodiscard]] Source source() const override { return Source::ruin; }
  /// Only where some op may be recomputed.
  [[nodiscard]] bool ready(const RoundInput& input) override;
  RoundResult run(const RoundInput& input) override;

 private:
  std::uint64_t seed_;
  std::vector<ModeNumber> modes_{};
  std::optional<Instance> plain_{};
  /// The worker of the plain problem; it keeps what it learns as long as the modes stay.
  std::unique_ptr<Worker> inner_{};
  CoverFacts no_facts_{};
};

}  // namespace remora
