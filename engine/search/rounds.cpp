// SPDX-License-Identifier: Apache-2.0
#include "engine/search/rounds.hpp"

#include <tbb/info.h>

#include "engine/tasks.hpp"
#include "model/ensure.hpp"

namespace remora {

int thread_count(const SolveOptions& options) {
  return options.threads > 0 ? options.threads : tbb::info::default_concurrency();
}

Rounds::Rounds(const Instance& instance, const SolveOptions& options, const SolveCallbacks& callbacks,
               const Deadline& deadline, SearchState& state)
    : instance_(instance), options_(options), callbacks_(callbacks), deadline_(deadline), state_(state) {}

bool Rounds::limit_reached() const {
  return deadline_.reached() || (options_.work_limit > 0 && state_.work >= options_.work_limit);
}

void Rounds::run(int phase, std::vector<std::unique_ptr<Worker>> workers, const std::function<bool()>& finished) {
  while (!finished() && !state_.infeasible && !limit_reached()) {
    std::vector<RoundResult> results = run_round(workers);
    for (std::size_t i = 0; i < workers.size(); ++i) merge(phase, *workers[i], results[i]);
  }
}

std::vector<RoundResult> Rounds::run_round(std::vector<std::unique_ptr<Worker>>& workers) const {
  const std::function<bool()> interrupted = [this] { return deadline_.reached(); };
  const RoundInput input{instance_, state_.incumbent, state_.lower_bound, state_.cover, interrupted};
  std::vector<RoundResult> results(workers.size());
  run_tasks(thread_count(options_), workers.size(), [&](std::size_t i) { results[i] = workers[i]->run(input); });
  return results;
}

void Rounds::merge(int phase, const Worker& worker, RoundResult& result) {
  state_.work += result.work;
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
  }
  ensure(state_.incumbent.peak > instance_.budget() || state_.lower_bound <= state_.incumbent.extra,
         "rounds: the lower bound is above a schedule");
  if (news) report(phase, worker.name());
}

void Rounds::report(int phase, const std::string& source) const {
  if (!callbacks_.progress) return;
  callbacks_.progress({deadline_.elapsed(), phase, source, instance_.baseline_duration() + state_.incumbent.extra,
                       state_.incumbent.peak, instance_.baseline_duration() + state_.lower_bound});
}

}  // namespace remora
