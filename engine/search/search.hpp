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
// groups, no free order and no other budgets. It reports events to a listener, which may read all that it knows.
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

#include "engine/base/allowance.hpp"
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

/// When a start is tried, unless nothing is left to search.
enum class When {
  at_once,       ///< before the first bound: it takes no time
  after_bound,   ///< before the first round
  soon_if_none,  ///< if phase 1 has no schedule after a moment
  late_if_none,  ///< if phase 1 has no schedule after a quarter of the limits
  /// If the period relaxation's solution has led to no schedule near the bound, or is not known after a while. Such a
  /// start takes long.
  far_from_bound
};

/// Where a search may begin in addition to the input order and the relaxation: it is tried once and offers what it has.
struct Start {
  When when = When::after_bound;
  std::function<void(Search&)> offer{};
};

/// Parts of a search.
struct SearchParts {
  /// Makes the workers of a phase when it begins.
  std::function<Mix(const Instance&, const SolveOptions&, SearchPhase)> crew;
  /// Those of the same moment are tried in this order.
  std::vector<Start> starts{};
  /// True if a proof goes on beside the search, of the staged form: by periods or, where ops have several modes, by
  /// those.
  bool proves = false;
  /// True if the proof keeps its current program from one session to the next: for many short sessions.
  bool proof_rests = false;
  /// The steps of the proof; empty for those of PeriodProof or ModeProof.
  Prover::Step proof{};
};

/// Called from the thread that searches. Either may be empty.
struct SearchListener {
  std::function<void(const Progress&)> progress{};
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
         std::span<const Compute> warm_start = {});
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
  /// Removes the workers and what they have learned; the next session makes new ones.
  void clear_workers();
  /// Workers that are made from now on draw from this seed instead of the options'.
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
  [[nodiscard]] bool holds_budget() const { return !has_no_start_ && incumbent_.peak <= instance_.budget(); }
  /// Nothing is left to search for: infeasible, without a schedule to begin with, or proved to be as near to the
  /// optimum as the options want it.
  [[nodiscard]] bool is_decided() const;
  [[nodiscard]] const Deadline& deadline() const { return deadline_; }
  /// Seconds of all sessions.
  [[nodiscard]] double elapsed() const { return stopped_at_.value_or(deadline_.elapsed()); }
  /// These seconds served other searches, too, and do not count for this one.
  void exclude_seconds(double seconds);
  /// Seconds of the first bound, and of both phases.
  [[nodiscard]] double bound_seconds() const { return bound_seconds_; }
  [[nodiscard]] double seconds_in_phases() const { return seconds_in_phases_; }
  /// Report in the answer; those who offer starts may write into it.
  [[nodiscard]] SolverReport& report() { return report_; }
  [[nodiscard]] Progress progress(Event event, Source source) const;

  /// Takes the solution if it is better than the incumbent, and reports it unless the search has not announced its
  /// start yet.
  bool offer(Solution solution, Source source);
  /// Proved elsewhere: no schedule has less extra duration.
  void raise_bound(Duration extra);
  /// Proved elsewhere: no schedule fits within the budget.
  void prove_infeasible(const std::optional<Certificate>& certificate = std::nullopt);
  [[nodiscard]] const std::optional<Certificate>& certificate() const { return certificate_; }
  /// Adds work that was done for this search elsewhere.
  void add_work(Work work);
  /// Reports a round of work that was done elsewhere so far and that add_work() will add once it ends.
  void report_round(Work so_far);
  void notify(Event event, Source source) const;
  /// Nothing is left to search for, or the listener has enough.
  [[nodiscard]] bool over() const { return is_decided() || is_stopped_by_caller(); }
  /// Takes what the prover has found since, and gives it the cutoff and its share of a core; for starts that take long.
  void exchange_with_prover();

  /// The result so far, as solve() returns it.
  [[nodiscard]] Schedule answer() const;

 private:
  [[nodiscard]] bool has_no_schedule() const { return infeasible_ || has_no_start_; }
  void make_prover();
  void announce();
  void try_starts(When when);
  void try_starts_if_none(When when, double seconds);
  void try_starts_far_from_bound();
  [[nodiscard]] double prover_share() const;
  /// Seconds so far, by the clock of the limits.
  [[nodiscard]] double clock() const { return limits_.clock(elapsed(), work_); }
  /// Under a work limit: its part of what the others have done since.
  void grant_to_prover();
  /// Waits for the prover, and counts what it has done, where work is limited.
  void settle_prover();
  void update_from_proof(std::vector<ProofUpdate> outcome);
  void run_rounds(SearchPhase phase, const std::function<bool()>& finished);
  /// Work limit of each worker: an equal share of what is left beside the prover's part.
  [[nodiscard]] Work work_of_round() const;
  [[nodiscard]] bool limit_reached() const;
  [[nodiscard]] bool is_stopped_by_caller() const;
  [[nodiscard]] std::vector<RoundResult> run_round(const std::vector<Worker*>& workers, const RoundInput& input) const;
  void merge(Source source, RoundResult& result);
  void take(Solution solution, Source source);
  void correct_bound();

  const Instance& instance_;
  SolveOptions options_;
  Limits limits_;
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
  /// None was found to begin with: there is no incumbent.
  bool has_no_start_ = false;
  std::optional<Certificate> certificate_{};
  Work work_{};
  /// Work done elsewhere that add_work() has not added yet.
  Work pending_work_{};

  /// The prover's part of this, and the others' for which it has been granted its share.
  Work work_of_prover_{};
  Work granted_for_{};
  /// The work that it may use in this round, its share of a core, and its part of a unit of the others.
  Work granted_{};
  double share_of_prover_ = 1;
  double part_of_prover_ = 0;

  /// Since the period relaxation came near to something.
  int rounds_with_rounding_ = 0;

  bool begun_ = false;
  /// The listener knows where it began.
  bool announced_ = false;
  SearchPhase phase_ = SearchPhase::feasibility;
  Deadline deadline_{0, nullptr};
  /// The time between sessions.
  std::optional<double> stopped_at_ = 0;
  double bound_seconds_ = 0;
  double seconds_in_phases_ = 0;
  Work until_ = Work::max();
  /// The workers of both phases, with what they have learned.
  std::optional<Mix> feasibility_{};
  std::optional<Mix> duration_{};
  /// Times, reached peak, history, note and statistics.
  SolverReport report_{};
  /// When the last better schedule was found, by the clock.
  double found_at_ = 0;
  /// When the proof has raised the bound, by the clock, and to what extra duration.
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
