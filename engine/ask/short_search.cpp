// SPDX-License-Identifier: Apache-2.0
#include "engine/ask/short_search.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "engine/ask/problem.hpp"
#include "engine/base/deadline.hpp"
#include "engine/baselines/method.hpp"
#include "engine/search/search.hpp"
#include "engine/search/segments.hpp"
#include "model/evaluate.hpp"
#include "model/sequence.hpp"

namespace remora {
namespace {

/// Work of each of the two parts of the short search, and the time that it takes where nothing else runs; less after a
/// shorter search.
constexpr std::int64_t kWork = 3'000;
constexpr double kSeconds = 0.3;
/// Only on a machine that is so many times slower does time end it.
constexpr double kSlowest = 10;
/// Effort of each construction, of about 0.02 s.
constexpr Effort kEffortOfConstruction = 300'000;
/// Larger graphs are skipped: the relaxation alone takes longer.
constexpr int kMaxOpsToRelax = 1'000;

/// Keeps the sequence if it reaches less.
void take(const Instance& instance, std::vector<Compute> sequence, BudgetBracket& bracket) {
  const Bytes peak = evaluate(instance, sequence).peak;
  if (sequence.empty() || peak >= bracket.reached) return;
  bracket.reached = peak;
  std::vector<int> runs(static_cast<std::size_t>(instance.op_count()));
  for (const auto& [op, mode] : sequence) bracket.max_computes = std::max(bracket.max_computes, ++runs[op.index()]);
  bracket.sequence = std::move(sequence);
}

/// Tries methods that reach less memory with many runs per op: checkpoints between segments, and the literature's.
void construct_less(const Instance& unlimited, const Request& request, const Deadline& deadline,
                    BudgetBracket& bracket) {
  const bool applies = has_plans(unlimited) && is_whole_search(request.options) && request.options.segments;
  const Bytes least = least_budget(unlimited);
  if (!applies || bracket.reached <= least) return;
  const Instance deep = with_computes(unlimited, request.max_computes.value_or(kMaxComputes));
  Effort effort = 0;
  const Solution cut = short_checkpoints(deep.with_budget(least), deadline, effort);
  take(deep, cut.computes(deep), bracket);
  const Instance often =
      with_computes(unlimited, request.max_computes.value_or(static_cast<int>(kComputesWithin64Bits)));
  for (const std::int64_t part : {0, 1, 2}) {
    const Bytes target = least + Bytes((bracket.reached - least).count() * part / 4);
    if (target >= bracket.reached) return;
    Construction found = construct(often.with_budget(target), request.options, deadline, kEffortOfConstruction);
    if (!found.sequence.empty()) return take(often, computes_of(found.sequence), bracket);
  }
}

}  // namespace

SolveOptions short_options(SolveOptions options, const Limits& limits) {
  Work work = limits.work;
  if (options.work_limit > 0) {
    work = std::min(work, Work(options.work_limit));
  } else {
    work = std::max(Work(1), part_of(work, std::min(1.0, options.time_limit / limits.seconds)));
    if (options.time_limit > 0) options.time_limit = kSlowest * limits.seconds;
  }
  options.work_limit = work.count();
  if (options.covering == Covering::on) options.covering = Covering::lp;
  return options;
}

Solution short_checkpoints(const Instance& deep, const Deadline& deadline, Effort& effort) {
  effort = 0;
  return start_from_segments(
      deep, [&] { return (effort += effort_of_plan(deep)) > kEffortOfConstruction || deadline.reached(); });
}

std::optional<BudgetBracket> short_least_budget(const Instance& unlimited, const Request& request,
                                                Allowance& allowance) {
  if (!modes_hold(unlimited, computes_of(input_order(unlimited)))) return std::nullopt;
  SolveOptions options = short_options(request.options, {.seconds = kSeconds, .work = Work(kWork)});
  if (unlimited.op_count() > kMaxOpsToRelax) options.covering = Covering::off;
  const std::atomic<bool>* cancel = allowance.deadline().cancel();
  const auto search = [&](const Instance& instance, bool with_more) {
    const Limits left = allowance.left();
    const Limits own = limits_of(options);
    Allowance part({std::min(own.seconds, left.seconds), std::min(own.work, left.work)}, cancel);
    BudgetBracket found = least_budget(instance, options, with_more, part);
    allowance.spend(part.spent());
    return found;
  };
  BudgetBracket bracket = search(unlimited, !request.max_computes);
  if (work_of_look(unlimited) > Work(kWork)) return bracket;
  construct_less(unlimited, request, Deadline(options.time_limit, cancel), bracket);
  allowance.spend(work_of(kEffortOfConstruction));
  const bool is_deep = !request.max_computes && has_plans(unlimited) && !bracket.sequence.empty();
  if (is_deep && bracket.reached > least_budget(unlimited)) {
    // One more at a time may bring nothing where many together do.
    const Instance deep = with_computes(unlimited, kMaxComputes);
    take(deep, search(deep, false).sequence, bracket);
  }
  return bracket;
}

}  // namespace remora
