// SPDX-License-Identifier: Apache-2.0
//
// One search: all that is known of one problem, and the way to know more.
//
//     Search search(instance, options, {.crew = input_order_crew});
//     search.run_session({Deadline(60, nullptr)});                    bound, starts, phases 1 and 2
//     search.run_session({Deadline(10, nullptr)});                    goes on where the last session ended
//     const Schedule schedule = search.answer();
//
// The caller chooses the workers of the rounds and further starts (SearchParts): this folder knows no
// groups, no free order and no other budgets. What happens it tells as events; who hears them may read all it knows.
// solve() has one search of one session, a sweep one a budget, free order one for the whole and one for each order that
// it looks along, and each group of a hierarchy one a budget.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/callbacks.hpp"
#include "engine/base/deadline.hpp"
#include "engine/base/options.hpp"
#include "engine/base/work.hpp"
#include "engine/bound/cover_facts.hpp"
#include "engine/search/prover.hpp"
#include "engine/search/solution.hpp"
#include "engine/search/worker.hpp"
#include "model/instance.hpp"
#include "model/schedule.hpp"

namespace remora {

class Search;

/// When a start is asked, unless nothing is left to search.
enum class When {
  at_once,       ///< before the first bound: it is found in no time
  after_bound,   ///< before the first round
  soon_if_none,  ///< where phase 1 has no schedule after a moment
  late_if_none,  ///< where it has none after a quarter of the limits
  far_from_bound  ///< where what the period relaxation comes near to has led to no schedule near the bound, or is not known
                  ///< after a while: it takes long
};

/// Where a search may begin beside the input order and the relaxation: asked once, it offers what it has.
struct Start {
  When when = When::after_bound;
  std::function<void(Search&)> offer{};
};

/// Parts of a search.
struct SearchParts {
  /// The workers of a phase; asked when it begins.
  std::function<Mix(const Instance&, const SolveOptions&, SearchPhase)> crew;
  /// Those of one time in this order.
  std::vector<Start> starts{};
  /// True if a proof goes on beside the search, of the staged form: by periods or, where ops have several modes, by those.
  bool proves = false;
  /// True if it keeps the program that it is at from one session to the next: for many short ones.
  bool proof_rests = false;
  /// Its steps; empty for PeriodProof's.
  Prover::Step proof{};
};

/// Called from the thread that searches. Either may be empty.
struct SearchListener {
  std::function<void(const Progress&)> tell{};
  /// Asked before every round: true ends the session.
  std::function<bool(const Progress&)> enough{};
};

/// One call's limits.
struct Session {
  Deadline deadline;
  /// Ends when the search's work has come so far; but an unfinished one gets a round.
  Work until = Work::max();
};

class Search {
 public:
  /// `warm_start`: as solve() takes it; throws InputError for one that is not of the instance's form. The instance must
  /// outlive the search, which does not move: its workers point into it.
  Search(const Instance& instance, const SolveOptions& options, SearchParts parts,
         std::span<const OpId> warm_start = {});
  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;
  ~Search() = default;

  void listen(SearchListener listener) { listener_ = std::move(listener); }

  /// Searches until the incumbent is proved optimal, infeasibility is proved, or the session ends. The first session
  /// begins with begin().
  void run_session(const Session& session);
  /// Finds the first bound and the best start there is, if that has not been done; from here the clock runs by this
  /// deadline, until a session ends.
  void begin(const Deadline& deadline);
  /// Forgets what the workers have learned; the next session hires others.
  void dismiss_workers();
  /// Workers hired from now on draw from this seed instead of the options'.
  void set_seed(std::int64_t seed) { seed_ = seed; }

  [[nodiscard]] const Instance& instance() const { return instance_; }
  [[nodiscard]] const SolveOptions& options() const { return options_; }
  [[nodiscard]] const Solution& incumbent() const { return incumbent_; }
  /// Who found it.
  [[nodiscard]] Source source() const { return source_; }
  /// Bound on the extra duration.
  [[nodiscard]] Duration lower_bound() const { return lower_bound_; }
  [[nodiscard]] const CoverFacts& cover() const { return cover_; }
  [[nodiscard]] Work work() const { return work_; }
  [[nodiscard]] bool infeasible() const { return infeasible_; }
  [[nodiscard]] bool holds_budget() const { return incumbent_.peak <= instance_.budget(); }
  /// Nothing is left to search for: infeasible, or proved to be as near to the optimum as the options want it.
  [[nodiscard]] bool is_decided() const;
  [[nodiscard]] const Deadline& deadline() const { return deadline_; }
  /// Seconds of all sessions.
  [[nodiscard]] double elapsed() const { return stopped_at_.value_or(deadline_.elapsed()); }
  /// So many of them were for others, too, and don't count.
  void excuse(double seconds);
  /// Seconds of the first bound, and of both phases.
  [[nodiscard]] double bound_seconds() const { return bound_seconds_; }
  [[nodiscard]] double seconds_in_phases() const { return seconds_in_phases_; }
  /// Report in the answer; those who offer starts may write into it.
  [[nodiscard]] SolverReport& report() { return report_; }
  [[nodiscard]] Progress progress(Event event, Source source) const;

  /// Takes the solution if it is better than the incumbent; tells of it, unless it is a start.
  bool offer(Solution solution, Source source);
  /// Proved elsewhere: no schedule has less extra duration.
  void raise_bound(Duration extra) { lower_bound_ = std::max(lower_bound_, extra); }
  /// Proved elsewhere: no schedule holds the budget.
  void refute(const std::optional<Certificate>& certificate = std::nullopt);
  [[nodiscard]] const std::optional<Certificate>& certificate() const { return certificate_; }
  /// Work that was done for this search elsewhere.
  void charge(Work work);
  /// So much of it, which is not charged yet, is done: a round of it is over.
  void beat(Work so_far);
  void tell(Event event, Source source) const;
  /// Nothing is left to search for, or the listener has enough.
  [[nodiscard]] bool over() const { return is_decided() || enough(); }
  /// Takes what the proof has found meanwhile, and tells it what there is here; for starts that take long.
  void take_proof();

  /// The result so far, as solve() returns it.
  [[nodiscard]] Schedule answer() const;

 private:
  void find_bound();
  void announce();
  [[nodiscard]] bool awaits(When when) const;
  void ask(When when);
  void ask_if_none(When when, double seconds, Work work);
  void ask_far_from_bound();
  [[nodiscard]] bool waits_for_relaxation() const;
  [[nodiscard]] bool proves() const;
  [[nodiscard]] Prover::Step steps_of_proof() const;
  [[nodiscard]] double prover_share() const;
  [[nodiscard]] double part_of_gap_ahead() const;
  [[nodiscard]] int threads_of_round() const;
  void take_news(std::vector<ProofUpdate> outcome);
  [[nodiscard]] std::string integer_solvers() const;
  void start_from_relaxation();
  void search_phases();
  void begin_phase_2();
  void run_rounds(SearchPhase phase, const std::function<bool()>& finished);
  /// Work limit of each worker: an equal share of what is left.
  [[nodiscard]] Work work_of_round() const {
    if (until_ == Work::max()) return Work::max();
    return std::max(Work(1), Work((until_ - work_).count() / static_cast<std::int64_t>(kWorkersOfRound)));
  }
  [[nodiscard]] bool limit_reached() const;
  [[nodiscard]] bool enough() const;
  [[nodiscard]] std::vector<RoundResult> run_round(const std::vector<Worker*>& workers, const RoundInput& input) const;
  void merge(Source source, RoundResult& result);
  void take(Solution solution, Source source);

  const Instance& instance_;
  SolveOptions options_;
  /// Description of the problem in every answer.
  Schedule problem_;
  std::int64_t seed_;
  SearchParts parts_;
  SearchListener listener_;

  Solution incumbent_;
  Source source_ = Source::start;
  Duration lower_bound_{};
  /// The part of it that rests on whole numbers alone.
  Duration exact_bound_{};
  CoverFacts cover_{};
  bool infeasible_ = false;
  std::optional<Certificate> certificate_{};
  Work work_{};
  /// Done elsewhere and not yet charged.
  Work uncharged_{};

  /// Since the period relaxation came near to something.
  int rounds_with_rounding_ = 0;

  bool begun_ = false;
  /// The listener knows where it began.
  bool announced_ = false;
  SearchPhase phase_ = SearchPhase::feasibility;
  Deadline deadline_{0, nullptr};
  /// The clock between sessions.
  std::optional<double> stopped_at_ = 0;
  double bound_seconds_ = 0;
  double seconds_in_phases_ = 0;
  Work until_ = Work::max();
  /// The workers of both phases, with what they have learned.
  std::optional<Mix> feasibility_{};
  std::optional<Mix> duration_{};
  /// Times, reached peak, history, note and statistics.
  SolverReport report_{};
  /// When the proof has raised the bound, in seconds, and to what extra duration.
  std::vector<std::pair<double, Duration>> proved_{};
  /// Who has solved an integer program.
  std::set<IntegerSolver> integer_solvers_{};
  /// Ends first: its thread reads what stands above.
  std::unique_ptr<Prover> prover_{};
};

/// Initial answer, before and without a search.
Schedule describe_problem(const Instance& instance, const SolveOptions& options);

/// Writes the sequence down, with its status, as far as it holds the budget; the schedule has its lower bound.
void write_steps(const Instance& instance, std::span<const Compute> sequence, Schedule& schedule);

}  // namespace remora
