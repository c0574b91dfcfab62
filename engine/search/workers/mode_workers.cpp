// SPDX-License-Identifier: Apache-2.0
#include "engine/search/workers/mode_workers.hpp"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "engine/search/local/mode_exchange.hpp"
#include "engine/search/neighbourhood.hpp"
#include "model/evaluate.hpp"
#include "model/sequence.hpp"

namespace remora {
namespace {

/// Fruitless renewals of modes in a row after which the others have their turn.
constexpr int kRenewalsOfRound = 60;

std::vector<ModeNumber> modes_of_first_runs(const Instance& instance, std::span<const Compute> runs) {
  std::vector<ModeNumber> modes(static_cast<std::size_t>(instance.op_count()), -1);
  for (const Compute& run : runs) {
    ModeNumber& mode = modes[run.op.index()];
    if (mode < 0) mode = run.mode;
  }
  return modes;
}

}  // namespace

std::optional<Instance> with_fixed_modes(const Instance& instance, const std::vector<ModeNumber>& modes) {
  auto graph = std::make_shared<Graph>(instance.graph());
  for (const OpId v : instance.ops()) {
    Op& op = (*graph)[v];
    if (!op.modes) continue;
    const Mode mode = mode_of(instance.graph(), v, modes[v.index()]);
    if (!mode.inner.empty()) return std::nullopt;
    op.max_computes = std::min(instance.max_computes(v), instance.most_computes(v) / mode.computes);
    run_by(instance, mode, v, *graph);
  }
  return Instance(std::move(graph), instance.problem());
}

std::optional<RoundInput> FixedModesWorker::seen(const RoundInput& input) {
  if (!input.instance.has_modes()) return input;
  const std::vector<Compute> incumbent = input.incumbent.computes(input.instance);
  std::vector<ModeNumber> modes = modes_of_first_runs(input.instance, incumbent);
  if (modes != modes_) {
    modes_ = std::move(modes);
    fixed_ = with_fixed_modes(input.instance, modes_);
    inner_ = make_();
  }
  const auto is_open = [this](OpId op) { return has_decision(*fixed_, op); };
  if (!fixed_ || std::ranges::none_of(fixed_->ops(), is_open)) return std::nullopt;
  begin_ = make_solution(*fixed_, within_limits(*fixed_, computes_of(ops_of(incumbent))));
  return RoundInput{*fixed_, begin_, Duration(0), no_facts_, input.interrupted, input.effort, input.work};
}

bool FixedModesWorker::ready(const RoundInput& input) {
  const std::optional<RoundInput> own = seen(input);
  return own && inner_->ready(*own);
}

RoundResult FixedModesWorker::run(const RoundInput& input) {
  const std::optional<RoundInput> own = seen(input);
  if (!own) return {};
  RoundResult found = inner_->run(*own);
  if (&own->instance == &input.instance) return found;
  RoundResult result{.work = found.work};
  std::vector<Compute> runs = (found.solution ? *found.solution : begin_).computes(*fixed_);
  for (Compute& run : runs) run.mode = modes_[run.op.index()];
  if (!modes_hold(input.instance, runs)) return result;
  Solution solution = make_solution(input.instance, runs);
  if (better(input.instance, solution, input.incumbent)) result.solution = std::move(solution);
  return result;
}

bool ExchangeWorker::ready(const RoundInput& input) {
  return std::ranges::any_of(input.instance.ops(), [&](OpId op) { return input.instance.mode_count(op) > 1; });
}

RoundResult ExchangeWorker::run(const RoundInput& input) {
  const Instance& instance = input.instance;
  const bool has_begun = std::exchange(has_begun_, input.incumbent.peak <= instance.budget());
  std::vector<Compute> runs = computes_of(input_order(instance));
  if (has_begun || !modes_hold(instance, runs)) runs = input.incumbent.computes(instance);
  ModeState state(instance, std::move(runs));
  const std::function<bool()> stopped = [&] { return state.looks() >= input.effort || input.interrupted(); };
  ModeExchange moves(state, random_, stopped);
  if (!has_begun) moves.begin();
  if (state.score().overflow == Bytes(0)) moves.renew(kRenewalsOfRound);
  RoundResult result{.work = work_of(state.looks())};
  if (!modes_hold(instance, state.sequence())) return result;
  Solution found = make_solution(instance, state.sequence());
  if (better(instance, found, input.incumbent)) result.solution = std::move(found);
  return result;
}

}  // namespace remora
