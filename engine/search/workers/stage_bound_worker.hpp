// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/options.hpp"
#include "engine/search/worker.hpp"

namespace remora {

/// Raises the bound once, by the covering relaxation with stages (engine/bound/stage_mip.hpp): on small graphs, when
/// the other workers have not met the bound for a while. Takes longer than a round, for seconds.
class StageBoundWorker : public Worker {
 public:
  explicit StageBoundWorker(const SolveOptions& options);

  [[nodiscard]] std::string name() const override { return "stages"; }
  [[nodiscard]] bool ready(const RoundInput& input) override;
  RoundResult run(const RoundInput& input) override;

 private:
  double seconds_;
  int rounds_ = 0;
  bool done_ = false;
};

}  // namespace remora
