// SPDX-License-Identifier: Apache-2.0
#include "engine/search/rounds.hpp"

#include <optional>

#include <tbb/global_control.h>
#include <tbb/info.h>
#include <tbb/parallel_for.h>
#include <tbb/partitioner.h>
#include <tbb/task_arena.h>

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
  const int threads = thread_count(options_);
  // TBB starts no more workers than there are cores, and complains, unless it is told that more are meant.
  std::optional<tbb::global_control> more_than_cores;
  if (threads > tbb::info::default_concurrency()) {
    more_than_cores.emplace(tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(threads));
  }
  tbb::task_arena arena(threads);
  while (!finished() && !state_.infeasible && !limit_reached()) {
    std::vector<RoundResult> results;
    arena.execute([&] { results = run_round(workers); });
    for (std::size_t i = 0; i < workers.size(); ++i) merge(phase, *workers[i], results[i]);
  }
}

std::vector<RoundResult> Rounds::run_round(std::vector<std::unique_ptr<Worker>>& workers) const {
  const std::function<bool()> interrupted = [this] { return deadline_.reached(); };
  const RoundInput input{instance_, state_.incumbent, state_.lower_bound, interrupted};
  std::vector<RoundResult> results(workers.size());
  tbb::parallel_for(
      std::size_t{0}, workers.size(), [&](std::size_t i) { results[i] = workers[i]->run(input); },
      tbb::simple_partitioner());
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
