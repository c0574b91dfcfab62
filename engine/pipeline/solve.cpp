// SPDX-License-Identifier: Apache-2.0
#include "engine/pipeline/solve.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gecode/int.hh>
#include <gecode/search.hh>

#include "engine/base/allowance.hpp"
#include "engine/pipeline/minimum.hpp"
#include "engine/pipeline/timing.hpp"
#include "model/error.hpp"

namespace remora {
namespace {

using Gecode::ExecStatus;
using Gecode::ModEventDelta;
using Gecode::PropCost;
using Gecode::Int::IntView;

constexpr std::int64_t kNoMakespan = std::numeric_limits<std::int64_t>::max();

/// Data that all spaces of one search share.
struct Context {
  Context(const Pipeline& given, const Allowance& limits) : pipeline(given), allowance(limits), timing(given) {
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
  /// The amounts of a variable's modes, the fastest first.
  [[nodiscard]] std::span<const ModeAmounts> rows(std::size_t variable) const {
    return amounts[timing.stage_of(variable)];
  }
  [[nodiscard]] ModesLeft all_rows() const {
    ModesLeft all;
    for (std::size_t i = 0; i < timing.variables(); ++i) all.push_back(rows(i));
    return all;
  }
  /// The mode's number in the pipeline.
  [[nodiscard]] int mode(std::size_t variable, std::size_t row) const { return modes[timing.stage_of(variable)][row]; }

  const Pipeline& pipeline;
  const Allowance& allowance;
  PipelineTiming timing;
  /// By stage: its modes, the fastest first, by their numbers, and what they take.
  std::vector<std::vector<int>> modes{};
  std::vector<std::vector<ModeAmounts>> amounts{};
  /// Solutions must be faster.
  std::int64_t below = kNoMakespan;
};

/// The rows that the domains of a space's variables leave.
class RowsLeft {
 public:
  explicit RowsLeft(const Context& context) : context_(context), rows_(context.all_rows()), own_(rows_.size()) {}

  /// With one of Gecode's iterators over the values.
  template <class Values>
  void set(std::size_t variable, Values values, std::size_t count) {
    const std::span<const ModeAmounts> all = context_.rows(variable);
    const auto first = static_cast<std::size_t>(values.val());
    rows_[variable] = count == 1 ? all.subspan(first, 1) : all;
    if (count == 1 || count == all.size()) return;
    own_[variable].clear();
    for (; values(); ++values) own_[variable].push_back(all[static_cast<std::size_t>(values.val())]);
    rows_[variable] = own_[variable];
  }
  /// For a look at one value; `rows` belong to somebody else.
  std::span<const ModeAmounts> replace(std::size_t variable, std::span<const ModeAmounts> rows) {
    return std::exchange(rows_[variable], rows);
  }
  [[nodiscard]] const ModesLeft& rows() const { return rows_; }

 private:
  const Context& context_;
  ModesLeft rows_;
  /// Where a variable has several values left, but not all.
  std::vector<std::vector<ModeAmounts>> own_;
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

  /// Past the limits it checks without removing values: what is a solution then is still one, and the search ends.
  ExecStatus propagate(Gecode::Space& home, const ModEventDelta&) override {
    RowsLeft left(context_);
    for (int i = 0; i < views_.size(); ++i) set(left, i);
    for (std::size_t device = 0; device < context_.timing.devices(); ++device) {
      if (!fits(device, left)) return Gecode::ES_FAILED;
    }
    if (!is_fast(left)) return Gecode::ES_FAILED;
    for (bool changed = true; changed;) {
      changed = false;
      for (int i = 0; i < views_.size(); ++i) {
        if (views_[i].assigned()) continue;
        for (const int value : failing(i, left)) {
          GECODE_ME_CHECK(views_[i].nq(home, value));
          changed = true;
        }
        set(left, i);
      }
    }
    return Gecode::ES_FIX;
  }

 private:
  void set(RowsLeft& left, int i) const {
    left.set(static_cast<std::size_t>(i), Gecode::Int::ViewValues<IntView>(views_[i]), views_[i].size());
  }
  [[nodiscard]] bool fits(std::size_t device, const RowsLeft& left) const {
    if (!context_.pipeline.budget[device]) return true;
    return context_.timing.peak(device, left.rows()) <= context_.budget(device);
  }
  [[nodiscard]] bool is_fast(const RowsLeft& left) const {
    return context_.below == kNoMakespan || context_.timing.makespan(left.rows()) < context_.below;
  }
  /// Values of the variable that fail whatever the others take.
  [[nodiscard]] std::vector<int> failing(int i, RowsLeft& left) const {
    std::vector<int> values;
    const auto variable = static_cast<std::size_t>(i);
    const std::size_t device = context_.timing.stage_of(variable) % context_.timing.devices();
    const std::span<const ModeAmounts> rows = context_.rows(variable);
    const std::span<const ModeAmounts> all = left.rows()[variable];
    for (Gecode::Int::ViewValues<IntView> value(views_[i]); value(); ++value) {
      if (context_.allowance.deadline().reached()) break;
      (void)left.replace(variable, rows.subspan(static_cast<std::size_t>(value.val()), 1));
      if (!fits(device, left) || !is_fast(left)) values.push_back(value.val());
    }
    (void)left.replace(variable, all);
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
      modes_[i] = Gecode::IntVar(*this, 0, static_cast<int>(context.rows(static_cast<std::size_t>(i)).size()) - 1);
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
      result.push_back(context_.mode(static_cast<std::size_t>(i), static_cast<std::size_t>(modes_[i].val())));
    }
    return result;
  }
  /// With the fastest mode that is left to every variable.
  [[nodiscard]] std::int64_t least_makespan() const {
    RowsLeft left(context_);
    for (int i = 0; i < modes_.size(); ++i) {
      left.set(static_cast<std::size_t>(i), Gecode::IntVarValues(modes_[i]), modes_[i].size());
    }
    return context_.timing.makespan(left.rows());
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
    return Work(static_cast<std::int64_t>(statistics.node)) >= allowance_.left().work ||
           allowance_.deadline().reached();
  }

 private:
  const Allowance& allowance_;
};

class PipelineSolver {
 public:
  PipelineSolver(const Pipeline& pipeline, const SolveOptions& options, const std::atomic<bool>* cancel)
      : pipeline_(pipeline), allowance_(limits_of(options), cancel), context_(pipeline, allowance_) {}

  PipelinePlan run() {
    try_uniform();
    if (plan_.choice.empty() && !fit_devices()) return explained();
    plan_.lower_bound = Duration(context_.timing.makespan(context_.all_rows()));
    if (plan_.lower_bound < plan_.makespan) plan_.lower_bound = Duration(root_bound());
    const bool is_complete = plan_.lower_bound == plan_.makespan || search();
    if (is_complete) plan_.lower_bound = plan_.makespan;
    return finished(is_complete ? Status::optimal : Status::feasible);
  }

 private:
  /// One mode for everybody, by its number.
  void try_uniform() {
    const std::size_t count = pipeline_.stages[StageId(0)].modes.size();
    for (const PipelineStage& stage : pipeline_.stages) {
      if (stage.modes.size() != count) return;
    }
    for (std::size_t mode = 0; mode < count && !allowance_.deadline().reached(); ++mode) {
      const ModeChoice choice(context_.timing.variables(), static_cast<int>(mode));
      const PipelineRun run = replay(pipeline_, choice);
      if (!is_within_budgets(run)) continue;
      if (plan_.uniform && run.makespan >= plan_.uniform_makespan) continue;
      plan_.uniform = static_cast<int>(mode);
      plan_.uniform_makespan = run.makespan;
      take(choice, run);
    }
  }

  /// Takes a choice with which every device stays within its budget, if one is found, or lists the devices without one.
  bool fit_devices() {
    const ModesLeft all = context_.all_rows();
    ModeChoice choice;
    for (std::size_t i = 0; i < all.size(); ++i) choice.push_back(context_.mode(i, 0));
    for (std::size_t device = 0; device < pipeline_.devices; ++device) {
      if (!pipeline_.budget[device]) continue;
      const int devices_left = static_cast<int>(pipeline_.devices - device);
      const Allowance own(allowance_.equal_share(devices_left), allowance_.deadline().cancel());
      const DeviceMinimum found = minimum_of(context_.timing, device, all, context_.budget(device), own);
      plan_.work += found.work;
      allowance_.spend(Work(found.work));
      DeviceNeed need{.device = device, .least = Bytes(found.bound), .enough = Bytes(found.peak)};
      const std::vector<std::size_t>& variables = context_.timing.variables_of(device);
      for (std::size_t i = 0; i < variables.size(); ++i) {
        need.modes.push_back(context_.mode(variables[i], found.rows[i]));
        choice[variables[i]] = need.modes.back();
      }
      if (need.enough > *pipeline_.budget[device]) plan_.needs.push_back(std::move(need));
    }
    if (!plan_.needs.empty()) return false;
    const PipelineRun run = replay(pipeline_, choice);
    ensure(is_within_budgets(run), "pipeline: a device's choice exceeds its budget");
    take(choice, run);
    return true;
  }

  [[nodiscard]] bool is_within_budgets(const PipelineRun& run) const {
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

  /// Without a limit on the makespan, so that it holds for every choice.
  std::int64_t root_bound() {
    const std::int64_t known = std::exchange(context_.below, kNoMakespan);
    PipelineSpace root(context_);
    ensure(root.status() != Gecode::SS_FAILED, "pipeline: a choice within the budgets is ruled out");
    context_.below = known;
    return root.least_makespan();
  }

  /// Returns true if the search was completed.
  bool search() {
    PipelineSpace root(context_);
    StopAtLimits stop(allowance_);
    Gecode::Search::Options options;
    options.stop = &stop;
    Gecode::BAB<PipelineSpace> engine(&root, options);
    while (const std::unique_ptr<PipelineSpace> found{engine.next()}) {
      const ModeChoice choice = found->choice();
      const PipelineRun run = replay(pipeline_, choice);
      ensure(is_within_budgets(run) && run.makespan.count() < context_.below, "pipeline: a choice found is not valid");
      take(choice, run);
    }
    plan_.work += static_cast<std::int64_t>(engine.statistics().node);
    return !engine.stopped();
  }

  /// A device that lacks memory whatever its modes is proof that there is no plan.
  PipelinePlan explained() {
    bool is_proved = false;
    for (const DeviceNeed& need : plan_.needs) {
      is_proved = is_proved || need.least > *pipeline_.budget[need.device];
      plan_.reason += (plan_.reason.empty() ? "" : "; ") + need_text(pipeline_, need);
    }
    return finished(is_proved ? Status::infeasible : Status::unknown);
  }

  PipelinePlan finished(Status status) {
    plan_.status = status;
    plan_.seconds = allowance_.elapsed();
    return std::move(plan_);
  }

  const Pipeline& pipeline_;
  Allowance allowance_;
  Context context_;
  PipelinePlan plan_;
};

}  // namespace

std::string modes_text(std::span<const int> modes) {
  constexpr std::size_t kShown = 16;
  const bool is_one = std::ranges::all_of(modes, [&](int mode) { return mode == modes.front(); });
  std::string text = is_one ? "mode" : "modes";
  for (const int mode : modes.first(is_one ? 1 : std::min(kShown, modes.size()))) text += " " + std::to_string(mode);
  if (!is_one && modes.size() > kShown) text += " ...";
  return text;
}

std::string need_text(const Pipeline& pipeline, const DeviceNeed& need) {
  const std::string device = "device " + std::to_string(need.device);
  const std::string has = std::to_string(pipeline.budget[need.device]->count());
  const std::string enough = std::to_string(need.enough.count());
  const auto classes = static_cast<std::size_t>(pipeline.classes);
  std::string modes;
  for (std::size_t i = 0; i * classes < need.modes.size(); ++i) {
    if (i > 0) modes += ", ";
    if (need.modes.size() > classes) modes += "stage " + std::to_string(need.device + i * pipeline.devices) + " ";
    modes += modes_text(std::span(need.modes).subspan(i * classes, classes));
  }
  if (need.least <= *pipeline.budget[need.device]) {
    return device + " has " + has + " bytes; " + enough + " are enough (" + modes + "), whether fewer are is open";
  }
  const std::string least = device + " needs at least " + std::to_string(need.least.count()) + " bytes (";
  const bool is_exact = need.least == need.enough;
  return least + (is_exact ? modes : "a lower bound; " + enough + " are enough, with " + modes) + "), and has " + has;
}

PipelinePlan solve(const Pipeline& pipeline, const SolveOptions& options, const std::atomic<bool>* cancel) {
  validate(pipeline);
  return PipelineSolver(pipeline, options, cancel).run();
}

}  // namespace remora
