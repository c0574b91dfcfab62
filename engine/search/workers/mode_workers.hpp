// SPDX-License-Identifier: Apache-2.0
//
// Where ops have several modes: workers that know one mode per op, and the one that exchanges modes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/bound/cover_facts.hpp"
#include "engine/search/worker.hpp"
#include "model/instance.hpp"
#include "model/random.hpp"

namespace remora {

/// The problem with each op in one of its modes, which `modes` has by op; none if one of these has inner peaks. A
/// schedule of it needs the same memory and time as its runs in these modes.
std::optional<Instance> with_fixed_modes(const Instance& instance, const std::vector<ModeNumber>& modes);

/// A worker that knows one mode per op, on the problem with each op in the mode of its first run in the incumbent.
class FixedModesWorker : public Worker {
 public:
  /// `make`: the worker; it begins anew, with what it knows, where the modes change.
  explicit FixedModesWorker(std::function<std::unique_ptr<Worker>()> make) : make_(std::move(make)), inner_(make_()) {}

  [[nodiscard]] Source source() const override { return inner_->source(); }
  [[nodiscard]] bool ready(const RoundInput& input) override;
  RoundResult run(const RoundInput& input) override;

 private:
  /// Its part of the round: all of it where ops have one mode, nothing where there is nothing to change.
  std::optional<RoundInput> seen(const RoundInput& input);

  std::function<std::unique_ptr<Worker>()> make_;
  std::unique_ptr<Worker> inner_;
  std::vector<ModeNumber> modes_{};
  std::optional<Instance> fixed_{};
  Solution begin_{};
  CoverFacts no_facts_{};
};

/// Other modes (local/mode_exchange.hpp): at first for one run of each op, then for the runs of the incumbent.
class ExchangeWorker : public Worker {
 public:
  explicit ExchangeWorker(std::uint64_t seed) : random_(seed) {}

  [[nodiscard]] Source source() const override { return Source::modes; }
  /// Only where some op has a mode to choose.
  [[nodiscard]] bool ready(const RoundInput& input) override;
  RoundResult run(const RoundInput& input) override;

 private:
  Random random_;
  /// Since when there is a schedule.
  bool has_begun_ = false;
};

}  // namespace remora
