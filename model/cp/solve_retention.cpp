// SPDX-License-Identifier: Apache-2.0
#include "model/cp/solve_retention.hpp"

#include <algorithm>
#include <memory>

#include <gecode/search.hh>

#include "model/cp/retention_space.hpp"

namespace remora::cp {
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
      : problem_(problem), settings_(settings), context_(problem), limit_(settings_) {
    if (problem.copy_count() == 0) {
      outcome_ = judge_rest(problem);
      return;
    }
    Gecode::Search::Options options;
    options.threads = 1;
    options.clone = false;
    options.stop = &limit_;
    const Branching branching{settings.rule, settings.follow_incumbent, settings.noise, settings.seed};
    engine_ = std::make_unique<Gecode::BAB<RetentionSpace>>(new RetentionSpace(context_, branching), options);
  }

  const SearchOutcome& advance(std::int64_t nodes) {
    if (outcome_.complete) return outcome_;
    limit_.allow(nodes > INT64_MAX - outcome_.nodes ? INT64_MAX : outcome_.nodes + nodes);
    bool enough = false;
    while (!enough) {
      const std::unique_ptr<RetentionSpace> solution{engine_->next()};
      if (!solution) break;
      outcome_.sequence = problem_.sequence_with(solution->values());
      outcome_.extra = solution->extra();
      enough = settings_.first_only;
    }
    outcome_.complete = !engine_->stopped() && !enough;
    outcome_.nodes = static_cast<std::int64_t>(engine_->statistics().node);
    outcome_.failures = static_cast<std::int64_t>(engine_->statistics().fail);
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
  std::unique_ptr<Gecode::BAB<RetentionSpace>> engine_;
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
