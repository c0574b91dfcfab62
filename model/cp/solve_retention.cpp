// SPDX-License-Identifier: Apache-2.0
#include "model/cp/solve_retention.hpp"

#include <algorithm>
#include <memory>

#include <gecode/search.hh>

#include "model/cp/branching.hpp"
#include "model/cp/dominance.hpp"
#include "model/cp/duration.hpp"
#include "model/cp/event_order.hpp"
#include "model/cp/memory.hpp"
#include "model/cp/mode_choice.hpp"
#include "model/cp/nogoods.hpp"
#include "model/error.hpp"

namespace remora::cp {
namespace {

constexpr int kMaxImprovements = 1 << 30;

Gecode::IntVar start_variable(Gecode::Space& home, const RetentionProblem& problem, CopyId copy) {
  const auto [first, last] = problem.possible_starts(copy);
  const Start absent = problem.absent();
  if (!problem.is_recompute(copy)) {
    ensure(first <= last, "retention space: the incumbent's order contradicts the graph");
    return {home, first, last};
  }
  if (first > last) return {home, absent, absent};
  // The starts between the bans, and absent.
  const auto banned = problem.banned_starts(copy);
  const auto ranges = std::make_unique<int[][2]>(banned.size() + 2);
  int count = 0;
  const auto add = [&](Start from, Start to) {
    if (from > to) return;
    ranges[at(count)][0] = from;
    ranges[at(count)][1] = to;
    ++count;
  };
  Start next = first;
  for (const auto& ban : banned) {
    add(next, std::min(ban.first - 1, last));
    next = std::max(next, ban.last + 1);
  }
  add(next, last);
  add(absent, absent);
  return {home, Gecode::IntSet(ranges.get(), count)};
}

Gecode::IntVar mode_variable(Gecode::Space& home, const RetentionProblem& problem, CopyId copy) {
  const OpId op = problem.free_ops()[problem.owner(copy)].op;
  std::vector<int> offered;
  for (ModeNumber mode = 0; mode < problem.instance().mode_count(op); ++mode) {
    if (problem.instance().offers(op, mode)) offered.push_back(mode);
  }
  return {home, Gecode::IntSet(offered.data(), static_cast<int>(offered.size()))};
}

}  // namespace

RetentionSpace::RetentionSpace(Context& context, const Branching& branching)
    : context_(&context), improvements_(*this, 0, kMaxImprovements) {
  const RetentionProblem& problem = context.problem;
  const Inferences& inferences = problem.inferences();
  Gecode::Home home(*this);
  make_variables();
  Views views(*this, Gecode::IntVarArgs(variables_));
  order_events(views);
  if (TiedModes::applies(problem)) GECODE_ES_FAIL(TiedModes::post(*this, views, context));
  if (problem.limits_computes()) GECODE_ES_FAIL(WeightedComputes::post(*this, views, context));
  if (inferences.useless_recompute) GECODE_ES_FAIL(UselessRecompute::post(*this, views, context));
  GECODE_ES_FAIL(Memory::post(*this, views, context));
  if (inferences.later_recompute && !problem.free_order()) {
    GECODE_ES_FAIL(LaterRecompute::post(*this, views, context));
  }
  GECODE_ES_FAIL(ExtraDuration::post(*this, views, improvements_, context));
  if (context.nogoods != nullptr) GECODE_ES_FAIL(LearnedNogoods::post(*this, views, context));
  RetentionBrancher::post(*this, views, context, branching);
}

RetentionSpace::RetentionSpace(RetentionSpace& other) : Space(other), context_(other.context_) {
  variables_.update(*this, other.variables_);
  improvements_.update(*this, other.improvements_);
}

Gecode::Space* RetentionSpace::copy() {
  return new RetentionSpace(*this);
}

void RetentionSpace::make_variables() {
  const RetentionProblem& problem = context_->problem;
  variables_ = Gecode::IntVarArray(*this, problem.variable_count());
  for (int variable = 0; variable < problem.variable_count(); ++variable) {
    variables_[variable] = variable < problem.copy_count() ? start_variable(*this, problem, CopyId(variable))
                                                           : mode_variable(*this, problem, problem.mode_copy(variable));
  }
}

void RetentionSpace::order_events(Views& views) {
  const RetentionProblem& problem = context_->problem;
  Gecode::Home home(*this);
  for (const FreeOp& free : problem.free_ops()) {
    for (int copy = free.first_copy; copy + 1 < free.first_copy + free.copies; ++copy) {
      GECODE_ES_FAIL(CopyOrder::post(*this, variables_[copy], variables_[copy + 1], problem.absent()));
    }
  }
  if (!problem.free_order()) return;
  for (const auto& [before, after] : problem.precedences()) {
    const auto& free_ops = problem.free_ops();
    Gecode::rel(*this, variables_[free_ops[before].first_copy], Gecode::IRT_LE, variables_[free_ops[after].first_copy]);
  }
  post_events_different(*this, variables_, problem);
  GECODE_ES_FAIL(PackedPlaces::post(*this, views, *context_));
}

void RetentionSpace::constrain(const Gecode::Space& best) {
  const auto& solution = static_cast<const RetentionSpace&>(best);
  context_->extra_below = std::min(context_->extra_below, solution.extra());
  bound_fell();
}

void RetentionSpace::bound_fell() {
  if (failed()) return;
  Gecode::Int::IntView improvements(improvements_);
  if (Gecode::me_failed(improvements.gq(*this, improvements.min() + 1))) fail();
}

std::vector<int> RetentionSpace::values() const {
  std::vector<int> result;
  result.reserve(at(variables_.size()));
  for (int variable = 0; variable < variables_.size(); ++variable) result.push_back(variables_[variable].val());
  return result;
}

Duration RetentionSpace::extra() const {
  const RetentionProblem& problem = context_->problem;
  Duration total = problem.rest_extra();
  for (const CopyId copy : problem.copy_ids()) {
    if (variables_[copy].val() == problem.absent()) continue;
    const FreeOp& free = problem.free_ops()[problem.owner(copy)];
    const int variable = problem.mode_variable(copy);
    const ModeNumber mode = variable < 0 ? 0 : variables_[variable].val();
    total += problem.extra_of(copy, problem.instance().duration(free.op, mode));
  }
  return total;
}

namespace {

#if defined(__SANITIZE_THREAD__)
/// The first space initialises Gecode's memory manager. Debian's Gecode is not built for ThreadSanitizer, which would
/// not see that this comes before all else if it happened in some task.
const bool kGecodeInitialised = [] {
  class Empty : public Gecode::Space {
   public:
    Empty() = default;
    Empty(Empty& other) : Space(other) {}
    Space* copy() override { return new Empty(*this); }
  };
  const Empty empty;
  return true;
}();
#endif

/// A problem with nothing to decide: the fixed rest itself, if it is within the limits.
SearchOutcome judge_rest(const RetentionProblem& problem) {
  SearchOutcome outcome;
  outcome.complete = true;
  const auto memory = problem.rest_memory();
  for (std::size_t slot = 1; slot < memory.size(); slot += 2) {
    if (memory[slot] > problem.limits().capacity) return outcome;
  }
  if (problem.rest_extra() >= problem.limits().extra_below) return outcome;
  outcome.sequence = problem.sequence_with({});
  outcome.extra = problem.rest_extra();
  return outcome;
}

}  // namespace

class RetentionSearch::Engine {
 public:
  Engine(const RetentionProblem& problem, const SearchSettings& settings)
      : problem_(problem), settings_(settings), context_(problem, settings.interrupted), limit_(settings_) {
    if (problem.copy_count() == 0) {
      outcome_ = judge_rest(problem);
      return;
    }
    Gecode::Search::Options options;
    options.threads = 1;
    options.clone = false;
    options.stop = &limit_;
    const Branching branching{settings.rule, settings.follow_incumbent, settings.noise, settings.seed};
    if (settings.learn && problem.variable_count() <= kMaxLearning) {
      engine_ = std::make_unique<LearningSearch>(context_, branching, options);
    } else {
      engine_.reset(Gecode::Search::babengine(new RetentionSpace(context_, branching), options));
    }
  }

  const SearchOutcome& advance(std::int64_t nodes) {
    if (outcome_.complete) return outcome_;
    limit_.allow(nodes > INT64_MAX - outcome_.nodes ? INT64_MAX : outcome_.nodes + nodes);
    bool enough = false;
    while (!enough) {
      const std::unique_ptr<RetentionSpace> solution{static_cast<RetentionSpace*>(engine_->next())};
      if (!solution) break;
      outcome_.sequence = problem_.sequence_with(solution->values());
      outcome_.extra = solution->extra();
      enough = settings_.first_only;
    }
    const auto statistics = engine_->statistics();
    outcome_.complete = !engine_->stopped() && !enough;
    outcome_.nodes = static_cast<std::int64_t>(statistics.node);
    outcome_.failures = static_cast<std::int64_t>(statistics.fail);
    return outcome_;
  }

  void require_below(Duration extra) { context_.extra_below = std::min(context_.extra_below, extra); }

 private:
  class Limit : public Gecode::Search::Stop {
   public:
    explicit Limit(const SearchSettings& settings) : settings_(settings) {}

    void allow(std::int64_t nodes) { nodes_ = nodes; }

    bool stop(const Gecode::Search::Statistics& statistics, const Gecode::Search::Options&) override {
      if (static_cast<std::int64_t>(statistics.node) >= nodes_) return true;
      // A node costs some hundred times the reading of a clock.
      return settings_.interrupted && settings_.interrupted();
    }

   private:
    const SearchSettings& settings_;
    /// Since the beginning of the search.
    std::int64_t nodes_ = 0;
  };

  const RetentionProblem& problem_;
  SearchSettings settings_;
  Context context_;
  Limit limit_;
  /// Gecode's branch and bound, or the one that learns.
  std::unique_ptr<Gecode::Search::Engine> engine_;
  SearchOutcome outcome_;
};

RetentionSearch::RetentionSearch(const RetentionProblem& problem, const SearchSettings& settings)
    : engine_(std::make_unique<Engine>(problem, settings)) {}
RetentionSearch::~RetentionSearch() = default;
const SearchOutcome& RetentionSearch::advance(std::int64_t nodes) {
  return engine_->advance(nodes);
}
void RetentionSearch::require_below(Duration extra) {
  engine_->require_below(extra);
}

SearchOutcome solve_retention(const RetentionProblem& problem, const SearchSettings& settings) {
  return RetentionSearch(problem, settings).advance(settings.node_limit);
}

}  // namespace remora::cp
