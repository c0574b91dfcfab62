// SPDX-License-Identifier: Apache-2.0
#include "engine/pipeline/solve.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include <gecode/int.hh>
#include <gecode/search.hh>

#include "engine/base/allowance.hpp"
#include "engine/pipeline/timing.hpp"
#include "model/error.hpp"

namespace remora {
namespace {

using Gecode::ExecStatus;
using Gecode::ModEventDelta;
using Gecode::PropCost;
using Gecode::Int::IntView;

constexpr std::int64_t kNoMakespan = std::numeric_limits<std::int64_t>::max();

/// What all spaces of one search share.
struct Context {
  explicit Context(const Pipeline& given) : pipeline(given), timing(given) {
    for (const StageId s : given.stages.ids()) {
      std::vector<int> order(given.stages[s].modes.size());
      for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
      const auto time = [&](int i) {
        const StageMode& mode = given.stages[s].modes[static_cast<std::size_t>(i)];
        return mode.forward + mode.backward + mode.weight_gradient;
      };
      std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return time(a) < time(b); });
      std::vector<ModeAmounts>& rows = amounts.emplace_back();
      for (const int i : order) {
        rows.push_back(amounts_of(given.stages[s].modes[static_cast<std::size_t>(i)], given.order));
      }
      modes.push_back(std::move(order));
    }
  }

  [[nodiscard]] std::int64_t budget(std::size_t device) const {
    return pipeline.budget[device].value_or(Bytes::max()).count();
  }

  /// What the modes of a variable take, the fastest first.
  [[nodiscard]] const std::vector<ModeAmounts>& rows(int variable) const {
    return amounts[timing.stage_of(static_cast<std::size_t>(variable))];
  }
  /// The least of what the values, of which Gecode's iterator has one at least, take.
  template <class Values>
  [[nodiscard]] ModeAmounts least_left(int variable, Values values) const {
    ModeAmounts least = rows(variable)[static_cast<std::size_t>(values.val())];
    for (; values(); ++values) least = least_of(least, rows(variable)[static_cast<std::size_t>(values.val())]);
    return least;
  }

  const Pipeline& pipeline;
  PipelineTiming timing;
  /// By stage: its modes, the fastest first, by their numbers, and what they take.
  std::vector<std::vector<int>> modes{};
  std::vector<std::vector<ModeAmounts>> amounts{};
  /// Solutions must be faster.
  std::int64_t below = kNoMakespan;
};

/// Takes out modes with which a device has no room, or the makespan is not below the best.
class Fits : public Gecode::Propagator {
 public:
  static ExecStatus post(Gecode::Home home, Gecode::ViewArray<IntView>& views, IntView round, Context& context) {
    (void)new (home) Fits(home, views, round, context);
    return Gecode::ES_OK;
  }
  Fits(Gecode::Home home, Gecode::ViewArray<IntView>& views, IntView round, Context& context)
      : Propagator(home), views_(views), round_(round), context_(context) {
    views_.subscribe(home, *this, Gecode::Int::PC_INT_DOM);
    round_.subscribe(home, *this, Gecode::Int::PC_INT_BND);
  }
  Fits(Gecode::Space& home, Fits& other) : Propagator(home, other), context_(other.context_) {
    views_.update(home, other.views_);
    round_.update(home, other.round_);
  }

  Gecode::Actor* copy(Gecode::Space& home) override { return new (home) Fits(home, *this); }
  PropCost cost(const Gecode::Space&, const ModEventDelta&) const override {
    return PropCost::quadratic(PropCost::HI, views_.size());
  }
  void reschedule(Gecode::Space& home) override {
    views_.reschedule(home, *this, Gecode::Int::PC_INT_DOM);
    round_.reschedule(home, *this, Gecode::Int::PC_INT_BND);
  }
  std::size_t dispose(Gecode::Space& home) override {
    views_.cancel(home, *this, Gecode::Int::PC_INT_DOM);
    round_.cancel(home, *this, Gecode::Int::PC_INT_BND);
    (void)Propagator::dispose(home);
    return sizeof(*this);
  }

  ExecStatus propagate(Gecode::Space& home, const ModEventDelta&) override {
    std::vector<ModeAmounts> least;
    least.reserve(static_cast<std::size_t>(views_.size()));
    for (int i = 0; i < views_.size(); ++i) least.push_back(least_left(i));
    if (!holds(least) || context_.timing.makespan(least) >= context_.below) return Gecode::ES_FAILED;
    for (bool changed = true; changed;) {
      changed = false;
      for (int i = 0; i < views_.size(); ++i) {
        if (views_[i].assigned()) continue;
        const auto place = static_cast<std::size_t>(i);
        for (const int value : failing(i, least)) {
          GECODE_ME_CHECK(views_[i].nq(home, value));
          changed = true;
        }
        least[place] = least_left(i);
      }
    }
    return Gecode::ES_FIX;
  }

 private:
  [[nodiscard]] ModeAmounts least_left(int i) const {
    return context_.least_left(i, Gecode::Int::ViewValues<IntView>(views_[i]));
  }
  [[nodiscard]] bool holds(std::size_t device, const std::vector<ModeAmounts>& amounts) const {
    return context_.timing.peak(device, amounts) <= context_.budget(device);
  }
  [[nodiscard]] bool holds(const std::vector<ModeAmounts>& amounts) const {
    for (std::size_t device = 0; device < context_.timing.devices(); ++device) {
      if (!holds(device, amounts)) return false;
    }
    return true;
  }
  /// Values of the variable that fail whatever the others take.
  [[nodiscard]] std::vector<int> failing(int i, std::vector<ModeAmounts>& least) const {
    std::vector<int> values;
    const auto place = static_cast<std::size_t>(i);
    const ModeAmounts all = least[place];
    const std::size_t device = context_.timing.stage_of(place) % context_.timing.devices();
    for (Gecode::Int::ViewValues<IntView> value(views_[i]); value(); ++value) {
      least[place] = context_.rows(i)[static_cast<std::size_t>(value.val())];
      const bool fails = !holds(device, least) || context_.timing.makespan(least) >= context_.below;
      if (fails) values.push_back(value.val());
    }
    least[place] = all;
    return values;
  }

  Gecode::ViewArray<IntView> views_;
  IntView round_;
  Context& context_;
};

class PipelineSpace : public Gecode::Space {
 public:
  explicit PipelineSpace(Context& context) : context_(context), round_(*this, 0, Gecode::Int::Limits::max) {
    modes_ = Gecode::IntVarArray(*this, static_cast<int>(context.timing.variables()));
    for (int i = 0; i < modes_.size(); ++i) {
      modes_[i] = Gecode::IntVar(*this, 0, static_cast<int>(context.rows(i).size()) - 1);
    }
    Gecode::ViewArray<IntView> views(*this, Gecode::IntVarArgs(modes_));
    (void)Fits::post(*this, views, round_, context);
    Gecode::branch(*this, modes_, Gecode::INT_VAR_AFC_SIZE_MAX(0.95), Gecode::INT_VAL_MIN());
  }
  PipelineSpace(PipelineSpace& other) : Gecode::Space(other), context_(other.context_) {
    modes_.update(*this, other.modes_);
    round_.update(*this, other.round_);
  }

  Gecode::Space* copy() override { return new PipelineSpace(*this); }
  /// The bound that the propagator reads is the context's; it is to look again.
  void constrain(const Gecode::Space&) override {
    if (!round_.assigned()) Gecode::rel(*this, round_, Gecode::IRT_GR, round_.min());
  }

  [[nodiscard]] ModeChoice choice() const {
    ModeChoice result;
    for (int i = 0; i < modes_.size(); ++i) {
      const std::size_t stage = context_.timing.stage_of(static_cast<std::size_t>(i));
      result.push_back(context_.modes[stage][static_cast<std::size_t>(modes_[i].val())]);
    }
    return result;
  }
  /// With the least that is left to every variable.
  [[nodiscard]] std::int64_t least_makespan() const {
    std::vector<ModeAmounts> least;
    least.reserve(static_cast<std::size_t>(modes_.size()));
    for (int i = 0; i < modes_.size(); ++i) least.push_back(context_.least_left(i, Gecode::IntVarValues(modes_[i])));
    return context_.timing.makespan(least);
  }

 private:
  Context& context_;
  Gecode::IntVarArray modes_;
  /// Rises with every better solution.
  Gecode::IntVar round_;
};

class StopAtLimits : public Gecode::Search::Stop {
 public:
  explicit StopAtLimits(const Allowance& allowance) : allowance_(allowance) {}
  bool stop(const Gecode::Search::Statistics& statistics, const Gecode::Search::Options&) override {
    if (Work(static_cast<std::int64_t>(statistics.node)) >= allowance_.limits().work) return true;
    return allowance_.deadline().reached();
  }

 private:
  const Allowance& allowance_;
};

class PipelineSolver {
 public:
  PipelineSolver(const Pipeline& pipeline, const SolveOptions& options, const std::atomic<bool>* cancel)
      : pipeline_(pipeline), context_(pipeline), allowance_(limits_of(options), cancel) {}

  PipelinePlan run() {
    try_uniform();
    // What no makespan rules out is asked first: then a refusal is the memory's alone.
    const std::int64_t known = std::exchange(context_.below, kNoMakespan);
    auto root = std::make_unique<PipelineSpace>(context_);
    if (root->status() == Gecode::SS_FAILED) {
      explain();
      return finished(Status::infeasible);
    }
    plan_.lower_bound = Duration(root->least_makespan());
    context_.below = known;
    if (known == kNoMakespan || plan_.lower_bound.count() < known) {
      root = std::make_unique<PipelineSpace>(context_);
      search(*root);
    } else {
      complete_ = true;
    }
    if (!complete_) return finished(plan_.choice.empty() ? Status::unknown : Status::feasible);
    if (plan_.choice.empty()) {
      plan_.reason = "no choice of modes holds all budgets: every one was searched";
      return finished(Status::infeasible);
    }
    plan_.lower_bound = plan_.makespan;
    return finished(Status::optimal);
  }

 private:
  /// One mode for everybody, by its number.
  void try_uniform() {
    const std::size_t count = pipeline_.stages[StageId(0)].modes.size();
    for (const PipelineStage& stage : pipeline_.stages) {
      if (stage.modes.size() != count) return;
    }
    for (std::size_t mode = 0; mode < count; ++mode) {
      const ModeChoice choice(context_.timing.variables(), static_cast<int>(mode));
      const PipelineRun run = replay(pipeline_, choice);
      if (!holds(run)) continue;
      if (plan_.uniform && run.makespan >= plan_.uniform_makespan) continue;
      plan_.uniform = static_cast<int>(mode);
      plan_.uniform_makespan = run.makespan;
      take(choice, run);
    }
  }

  [[nodiscard]] bool holds(const PipelineRun& run) const {
    for (std::size_t device = 0; device < run.peak.size(); ++device) {
      if (pipeline_.budget[device] && run.peak[device] > *pipeline_.budget[device]) return false;
    }
    return true;
  }

  void take(const ModeChoice& choice, const PipelineRun& run) {
    plan_.choice = choice;
    plan_.makespan = run.makespan;
    plan_.peak = run.peak;
    context_.below = run.makespan.count();
  }

  void search(PipelineSpace& root) {
    StopAtLimits stop(allowance_);
    Gecode::Search::Options options;
    options.stop = &stop;
    Gecode::BAB<PipelineSpace> engine(&root, options);
    while (const std::unique_ptr<PipelineSpace> found{engine.next()}) {
      const ModeChoice choice = found->choice();
      const PipelineRun run = replay(pipeline_, choice);
      ensure(holds(run) && run.makespan.count() < context_.below, "pipeline: a choice found does not hold");
      take(choice, run);
    }
    plan_.work = static_cast<std::int64_t>(engine.statistics().node);
    complete_ = !engine.stopped();
  }

  /// The first device that has no room even for what saves most.
  void explain() {
    std::vector<ModeAmounts> least;
    for (std::size_t i = 0; i < context_.timing.variables(); ++i) {
      const auto& rows = context_.rows(static_cast<int>(i));
      least.push_back(std::accumulate(rows.begin() + 1, rows.end(), rows.front(), least_of));
    }
    for (std::size_t device = 0; device < pipeline_.devices; ++device) {
      const std::int64_t needed = context_.timing.peak(device, least);
      if (needed <= context_.budget(device)) continue;
      plan_.reason = "device " + std::to_string(device) + " needs at least " + std::to_string(needed) +
                     " bytes, and has " + std::to_string(context_.budget(device));
      return;
    }
    plan_.reason = "no choice of modes holds all budgets";
  }

  PipelinePlan finished(Status status) {
    plan_.status = status;
    plan_.seconds = allowance_.elapsed();
    return std::move(plan_);
  }

  const Pipeline& pipeline_;
  Context context_;
  Allowance allowance_;
  PipelinePlan plan_;
  bool complete_ = false;
};

}  // namespace

PipelinePlan solve(const Pipeline& pipeline, const SolveOptions& options, const std::atomic<bool>* cancel) {
  validate(pipeline);
  return PipelineSolver(pipeline, options, cancel).run();
}

}  // namespace remora
