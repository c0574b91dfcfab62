// SPDX-License-Identifier: Apache-2.0
#include "engine/search/rounds.hpp"

#include <algorithm>

#include <tbb/info.h>

#include "engine/base/tasks.hpp"
#include "engine/search/answer.hpp"
#include "model/ensure.hpp"

namespace remora {

namespace {

/// The first round is so much shorter than a full one.
constexpr std::int64_t kFirstRoundPart = 64;

/// What each worker has brought: of the peak above the budget or else of the extra duration, and of the bound.
std::vector<Mix::News> news_of(const std::vector<Worker*>& workers, const std::vector<RoundResult>& results,
                               const RoundInput& input) {
  std::vector<Mix::News> round;
  for (std::size_t i = 0; i < workers.size(); ++i) {
    Mix::News news{workers[i]};
    if (results[i].solution && better(input.instance, *results[i].solution, input.incumbent)) {
      const Solution& found = *results[i].solution;
      const Bytes less = input.incumbent.peak - std::max(found.peak, input.instance.budget());
      news.schedule =
          static_cast<double>(less > Bytes(0) ? less.count() : (input.incumbent.extra - found.extra).count());
    }
    if (results[i].lower_bound > input.lower_bound) {
      news.bound = static_cast<double>((results[i].lower_bound - input.lower_bound).count());
    }
    round.push_back(news);
  }
  return round;
}

}  // namespace

int thread_count(const SolveOptions& options) {
  return options.threads > 0 ? options.threads : tbb::info::default_concurrency();
}

Rounds::Rounds(const Instance& instance, const SolveOptions& options, const SolveCallbacks& callbacks,
               const Deadline& deadline, SearchState& state)
    : instance_(instance), options_(options), callbacks_(callbacks), deadline_(deadline), state_(state) {}

bool Rounds::limit_reached(int phase) const {
  if (deadline_.reached() || (options_.work_limit > 0 && state_.work >= options_.work_limit)) return true;
  return callbacks_.enough && callbacks_.enough(progress(phase, ""));
}

void Rounds::run(int phase, Mix& mix, const std::function<bool()>& finished) {
  const std::function<bool()> interrupted = [this] { return deadline_.reached(); };
  std::int64_t effort = kRoundEffort / kFirstRoundPart;
  for (; !finished() && !state_.infeasible && !limit_reached(phase); effort = std::min(kRoundEffort, 2 * effort)) {
    const RoundInput input{instance_, state_.incumbent, state_.lower_bound, state_.cover, interrupted, effort};
    const std::vector<Worker*> workers = mix.draw(input);
    if (workers.empty()) return;
    std::vector<RoundResult> results = run_round(workers, input);
    mix.learn(news_of(workers, results, input));
    for (std::size_t i = 0; i < workers.size(); ++i) merge(phase, *workers[i], results[i]);
    if (callbacks_.heartbeat) callbacks_.heartbeat(progress(phase, ""));
  }
}

std::vector<RoundResult> Rounds::run_round(const std::vector<Worker*>& workers, const RoundInput& input) const {
  std::vector<RoundResult> results(workers.size());
  run_tasks(thread_count(options_), workers.size(), [&](std::size_t i) { results[i] = workers[i]->run(input); });
  return results;
}

void Rounds::merge(int phase, const Worker& worker, RoundResult& result) {
  // At least one, so that a worker without anything to do can't keep a solve under a work limit alive.
  state_.work += std::max<std::int64_t>(1, result.work);
  state_.infeasible = state_.infeasible || result.infeasible;
  bool news = false;
  if (result.lower_bound > state_.lower_bound) {
    state_.lower_bound = result.lower_bound;
    news = true;
  }
  if (result.solution && better(instance_, *result.solution, state_.incumbent)) {
    state_.incumbent = *std::move(result.solution);
    state_.history.push_back({deadline_.elapsed(), instance_.baseline_duration() + state_.incumbent.extra,
                              state_.incumbent.peak, worker.name()});
    news = true;
    give_incumbent();
  }
  ensure(state_.incumbent.peak > instance_.budget() || state_.lower_bound <= state_.incumbent.extra,
         "rounds: the lower bound is above a schedule");
  if (news) report(phase, worker.name());
}

Progress Rounds::progress(int phase, const std::string& source) const {
  return {deadline_.elapsed(),
          phase,
          source,
          instance_.baseline_duration() + state_.incumbent.extra,
          state_.incumbent.peak,
          instance_.baseline_duration() + state_.lower_bound,
          state_.work};
}

void Rounds::give_incumbent() const {
  if (!callbacks_.incumbent || state_.incumbent.peak > instance_.budget()) return;
  const std::vector<OpId> sequence = sequence_of(instance_, state_.incumbent);
  callbacks_.incumbent(incumbent_of(instance_, options_, state_, sequence, deadline_));
}

void Rounds::report(int phase, const std::string& source) const {
  if (callbacks_.progress) callbacks_.progress(progress(phase, source));
}

}  // namespace remora
