// SPDX-License-Identifier: Apache-2.0
#ifdef REMORA_HAVE_CBC

#include "engine/bound/cbc.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <numeric>
#include <utility>
#include <vector>

#include <CbcCutGenerator.hpp>
#include <CbcEventHandler.hpp>
#include <CbcHeuristic.hpp>
#include <CbcNode.hpp>
#include <CglFlowCover.hpp>
#include <CglGomory.hpp>
#include <CglKnapsackCover.hpp>
#include <CglMixedIntegerRounding2.hpp>
#include <CglProbing.hpp>
#include <CglTwomir.hpp>
#include <CglZeroHalf.hpp>

namespace remora {
namespace {

constexpr double kSlack = 1e-3;
constexpr double kRelativeError = 1e-9;
/// CBC's way to say "none".
constexpr double kBeyond = 1e18;
constexpr int kAtTheRootOrWhereItHelps = -1;

/// Ends CBC when the caller asks for it.
class Interrupter : public CbcEventHandler {
 public:
  explicit Interrupter(std::function<bool()> asked) : asked_(std::move(asked)) {}

  CbcAction event(CbcEvent) override { return asked_ && asked_() ? stop : noAction; }
  [[nodiscard]] CbcEventHandler* clone() const override { return new Interrupter(*this); }

 private:
  std::function<bool()> asked_;
};

}  // namespace

void add_cut_generators(CbcModel& model) {
  CglProbing probing;
  probing.setUsingObjective(1);
  CglKnapsackCover knapsack;
  CglMixedIntegerRounding2 rounding;
  CglGomory gomory;
  CglFlowCover flow;
  CglTwomir twomir;
  CglZeroHalf zero_half;
  for (CglCutGenerator* generator :
       std::initializer_list<CglCutGenerator*>{&probing, &knapsack, &rounding, &gomory, &flow, &twomir, &zero_half}) {
    model.addCutGenerator(generator, kAtTheRootOrWhereItHelps);
  }
}

void prepare(OsiClpSolverInterface& solver) {
  constexpr int kInterruptHandling = 2;
  constexpr int kOff = 1;
  solver.messageHandler()->setLogLevel(0);
  ClpSolve options;
  options.setSpecialOption(kInterruptHandling, kOff);
  solver.setSolveOptions(options);
}

void run_cbc(CbcModel& model, const CoverMipLimits& limits, double seconds) {
  std::vector<int> columns(static_cast<std::size_t>(model.getNumCols()));
  std::iota(columns.begin(), columns.end(), 0);
  model.solver()->setInteger(columns.data(), static_cast<int>(columns.size()));
  model.setLogLevel(0);
  model.solver()->messageHandler()->setLogLevel(0);
  model.setMaximumSeconds(std::max(0.0, seconds));
  model.setMaximumNodes(static_cast<int>(std::min<std::int64_t>(limits.nodes, 1 << 30)));
  // Costs are whole: a better choice is better by 1.
  model.setCutoffIncrement(1.0 - kSlack);
  model.setAllowableGap(0);
  model.setNumberStrong(10);
  model.setNumberBeforeTrust(10);
  add_cut_generators(model);
  CbcRounding simple(model);
  model.addHeuristic(&simple);
  Interrupter interrupter(limits.interrupted);
  model.passInEventHandler(&interrupter);
  model.initialSolve();
  model.branchAndBound();
}

std::int64_t common_unit(std::span<const std::int64_t> costs) {
  std::int64_t unit = 0;
  for (const std::int64_t cost : costs) unit = std::gcd(unit, cost);
  return std::max<std::int64_t>(1, unit);
}

bool says_something(const CbcModel& model, double value) {
  return std::isfinite(value) && std::abs(value) < kBeyond && !model.isProvenInfeasible();
}

Duration safe_bound(double units, std::int64_t unit) {
  const double safe = std::ceil(units * (1.0 - kRelativeError) - kSlack);
  return Duration(static_cast<std::int64_t>(std::max(0.0, safe)) * unit);
}

}  // namespace remora

#endif
