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
#include <CbcHeuristic.hpp>
#include <CbcNode.hpp>
#include <CglFlowCover.hpp>
#include <CglGomory.hpp>
#include <CglKnapsackCover.hpp>
#include <CglMixedIntegerRounding2.hpp>
#include <CglProbing.hpp>
#include <CglTwomir.hpp>
#include <CglZeroHalf.hpp>
#include <ClpEventHandler.hpp>

#include "engine/bound/counted_seconds.hpp"

namespace remora {
namespace {

constexpr double kCbcSlack = 1e-3;
/// With CBC's own 1e-6, and Clp's 1e-7 in rows, it passes over solutions that are better by some 1e-8 of their cost.
constexpr double kWholeWithin = 1e-9;
/// CBC's way to say "none".
constexpr double kBeyond = 1e18;
constexpr int kAtTheRootOrWhereItHelps = -1;

}  // namespace

class Stopper::Handler : public ClpEventHandler {
 public:
  explicit Handler(std::shared_ptr<State> state) : state_(std::move(state)) {}

  int event(Event event) override {
    if (event == endOfIteration) counted_nanoseconds() += state_->of_iteration;
    return state_->reached() ? kStop : kGoOn;
  }
  [[nodiscard]] ClpEventHandler* clone() const override { return new Handler(*this); }

 private:
  static constexpr int kGoOn = -1;
  static constexpr int kStop = 0;

  std::shared_ptr<State> state_;
};

void Stopper::watch(OsiClpSolverInterface& solver) const {
  const Handler handler(state_);
  solver.getModelPtr()->passInEventHandler(&handler);
}

CbcEventHandler::CbcAction Watcher::event(CbcEvent event) {
  if (stopper_.reached()) return stop;
  if (model_ != &watched_) return noAction;
  if (event == node || event == treeStatus) raise(model_->getBestPossibleObjValue());
  const bool at_the_root = event == generatedCuts && model_->getNodeCount() == 0 && model_->currentDepth() == 0;
  if (at_the_root && model_->solver()->isProvenOptimal()) raise(model_->solver()->getObjValue());
  return noAction;
}

/// CBC looks for solutions better than the incumbent: beyond its value nothing is known.
void Watcher::raise(double value) {
  value = std::min(value, model_->getMinimizationObjValue());
  if (std::isfinite(value) && value < kBeyond) bound_ = std::max(bound_, value);
}

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

void leave_signals_alone(ClpSolve& options) {
  constexpr int kInterruptHandling = 2;
  constexpr int kOff = 1;
  options.setSpecialOption(kInterruptHandling, kOff);
}

void prepare(OsiClpSolverInterface& solver) {
  solver.messageHandler()->setLogLevel(0);
  ClpSolve options;
  leave_signals_alone(options);
  solver.setSolveOptions(options);
}

void branch_and_bound(CbcModel& model, const Stopper& stopper, double slack, double& bound, int trials) {
  model.setLogLevel(0);
  model.solver()->messageHandler()->setLogLevel(0);
  model.setCutoffIncrement(1.0 - slack);
  model.setAllowableGap(0);
  model.setIntegerTolerance(kWholeWithin);
  model.solver()->setDblParam(OsiPrimalTolerance, kWholeWithin);
  model.setNumberStrong(trials);
  model.setNumberBeforeTrust(trials);
  CbcRounding simple(model);
  model.addHeuristic(&simple);
  if (auto* const solver = dynamic_cast<OsiClpSolverInterface*>(model.solver())) stopper.watch(*solver);
  const Watcher watcher(model, stopper, bound);
  model.passInEventHandler(&watcher);
  model.initialSolve();
  if (!stopper.has_stopped()) model.branchAndBound();
}

CbcAnswer run_cbc(CbcModel& model, const CoverMipLimits& limits, double seconds) {
  std::vector<int> columns(static_cast<std::size_t>(model.getNumCols()));
  std::iota(columns.begin(), columns.end(), 0);
  model.solver()->setInteger(columns.data(), static_cast<int>(columns.size()));
  model.setMaximumSeconds(std::max(0.0, seconds));
  model.setMaximumNodes(static_cast<int>(std::min<std::int64_t>(limits.nodes, 1 << 30)));
  const Stopper stopper(limits.interrupted);
  double bound = 0;
  add_cut_generators(model);
  branch_and_bound(model, stopper, kCbcSlack, bound);
  if (stopper.has_stopped()) return {bound, false};
  const double value = model.getBestPossibleObjValue();
  if (!says_something(model, value)) return {};
  return {value, model.isProvenOptimal()};
}

std::int64_t common_unit(std::span<const std::int64_t> costs) {
  std::int64_t unit = 0;
  for (const std::int64_t cost : costs) unit = std::gcd(unit, cost);
  return std::max<std::int64_t>(1, unit);
}

bool says_something(const CbcModel& model, double value) {
  return std::isfinite(value) && std::abs(value) < kBeyond && !model.isProvenInfeasible();
}

}  // namespace remora

#endif
