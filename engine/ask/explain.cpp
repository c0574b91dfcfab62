// SPDX-License-Identifier: Apache-2.0
//
// Why there is no schedule, and which budget would be enough.
//
//     explain    what a schedule without steps says itself: its certificate, and the lowest peak that was reached
//     refuse     the same of an answer, where a short search from a lower bound upwards finds a budget that is enough
//
// The short search depends neither on the budget that was refused nor on the clock. So the budget that it names is
// enough when it is asked for next: if nothing else finds a schedule there, the same short search does.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/ask/ask.hpp"
#include "engine/ask/problem.hpp"
#include "engine/ask/short_search.hpp"
#include "engine/search/search.hpp"
#include "model/evaluate.hpp"
#include "model/sequence.hpp"

namespace remora {
namespace {

using Cause = Refusal::Cause;
using Help = Refusal::Help;

/// True if the certificate counts only the op's own inputs, outputs and workspace.
bool is_alone(const Graph& graph, const Certificate& certificate) {
  const Op& op = graph[certificate.op];
  const auto is_own = [&](TensorId t) {
    return std::ranges::find(op.inputs, t) != op.inputs.end() || std::ranges::find(op.outputs, t) != op.outputs.end();
  };
  if (!std::ranges::all_of(certificate.tensors, is_own)) return false;
  // An output that takes over an input's storage does so only if the input is not read again.
  return op.in_place.empty() ||
         certificate.required <= Instance(std::make_shared<const Graph>(graph), {}).footprint(certificate.op);
}

/// True if the certificate counts what must be kept after the last op.
bool is_kept(const Graph& graph, const Certificate& certificate) {
  return certificate.op.index() + 1 == graph.ops.size() &&
         std::ranges::all_of(certificate.tensors, [&](TensorId t) { return graph[t].keep; });
}

Cause cause_of(const Graph& graph, const Schedule& schedule) {
  if (schedule.has_schedule()) return Cause::none;
  if (schedule.status != Status::infeasible) return Cause::limits;
  if (!schedule.certificate) return Cause::search;
  if (is_alone(graph, *schedule.certificate)) return Cause::op;
  return is_kept(graph, *schedule.certificate) ? Cause::kept : Cause::event;
}

/// Suggestions for causes that no other budget, order or limit removes.
std::vector<Help> help_by_cause(Cause cause) {
  switch (cause) {
    case Cause::none:
      return {};
    case Cause::op:
      return {Help::larger_budget, Help::smaller_batch, Help::split_op, Help::offload};
    case Cause::kept:
      return {Help::larger_budget, Help::smaller_batch, Help::keep_less, Help::offload};
    case Cause::packing:
      return {Help::larger_budget, Help::smaller_alignment};
    case Cause::no_way:
    case Cause::event:
    case Cause::search:
    case Cause::limits:
      break;
  }
  return {Help::larger_budget};
}

/// True for causes that another order, more evaluations or longer limits may remove.
bool is_of_the_problem(Cause cause) {
  return cause == Cause::event || cause == Cause::search || cause == Cause::packing || cause == Cause::limits;
}

/// A schedule of the short search, its order, and its peak (with addresses: fixed memory and arena).
struct Known {
  BudgetBracket bracket{};
  OrderMode order = OrderMode::input;
  Bytes enough{};
  std::optional<Arena> arena{};

  [[nodiscard]] bool is_below(const Known& other) const { return enough < other.enough; }
};

/// The bracket is of rounded sizes; of its schedule and the input order, that with the smaller arena.
Known with_addresses(const Instance& stated, BudgetBracket bracket, Bytes alignment, const std::atomic<bool>* cancel) {
  const Bytes fixed = stated.graph().fixed_memory;
  const auto known_of = [&](const std::vector<Compute>& sequence) {
    Known known{.bracket = bracket, .order = stated.problem().order};
    known.bracket.sequence = sequence;
    known.arena = placed(stated, sequence, alignment, cancel).arena;
    known.enough = fixed + known.arena->size;
    return known;
  };
  // The highest buffer need not be rounded.
  bracket.proved = std::max(Bytes(), bracket.proved - alignment + Bytes(1));
  Known baseline = known_of(computes_of(input_order(stated)));
  if (bracket.sequence.empty()) return baseline;
  Known found = known_of(bracket.sequence);
  return baseline.is_below(found) ? baseline : found;
}

std::optional<Known> known_of(const Request& request, const Instance& stated, const std::atomic<bool>* cancel) {
  Allowance allowance({}, cancel);
  if (!request.alignment || stated.op_count() == 0) {
    std::optional<BudgetBracket> found = short_least_budget(stated.with_budget(Bytes::max()), request, allowance);
    if (!found) return std::nullopt;
    return Known{.bracket = *found, .order = stated.problem().order, .enough = found->reached};
  }
  Problem problem = stated.problem();
  problem.budget = Bytes::max();
  const Instance rounded(rounded_graph(stated.graph(), *request.alignment), problem);
  return with_addresses(stated, short_least_budget(rounded, request, allowance).value_or(BudgetBracket{}),
                        *request.alignment, cancel);
}

/// The same; where the order is left open, of both orders that with the smaller one.
std::optional<Known> lowest_of(const Request& request, const Instance& stated, const std::atomic<bool>* cancel) {
  std::optional<Known> known = known_of(request, stated, cancel);
  if (order_asked(request) != OrderRequest::automatic) return known;
  const bool is_free = stated.problem().order == OrderMode::free;
  const std::optional<Known> other =
      known_of(request, with_order(stated, is_free ? OrderMode::input : OrderMode::free), cancel);
  return known && other && other->is_below(*known) ? other : known;
}

/// The short search has found a schedule within the budget: it becomes the answer.
void adopt(const Request& request, const Instance& stated, Known known, Schedule& schedule) {
  SolverReport& report = schedule.solver;
  const int computes = std::max(report.max_computes, known.bracket.max_computes);
  // A proof for another problem does not hold for this one.
  const bool is_same = computes == report.max_computes && request.max_computes && known.order == stated.problem().order;
  if (!is_same || schedule.status == Status::infeasible) schedule.lower_bound = stated.baseline_duration();
  schedule.order = known.order;
  report.max_computes = computes;
  report.note.clear();
  if (report.stop == Stop::infeasible) report.stop = Stop::unknown;
  schedule.certificate.reset();
  write_steps(with_computes(with_order(stated, known.order), computes), known.bracket.sequence, schedule);
  schedule.arena = std::move(known.arena);
  report.reached_peak = schedule.peak_memory;
  report.history.push_back({report.seconds, schedule.duration, schedule.peak_memory, source_name(Source::start)});
}

}  // namespace

Refusal explain(const Graph& graph, const Schedule& schedule) {
  Refusal refusal{.cause = cause_of(graph, schedule), .max_computes = schedule.solver.max_computes};
  if (refusal.cause == Cause::none) return refusal;
  if (refusal.is_proved()) refusal.lower_bound = schedule.budget + Bytes(1);
  if (schedule.certificate) {
    refusal.op = schedule.certificate->op;
    refusal.needed = schedule.certificate->required;
    refusal.lower_bound = std::max(refusal.lower_bound, refusal.needed);
  }
  if (schedule.solver.reached_peak > schedule.budget) refusal.enough = schedule.solver.reached_peak;
  refusal.help = help_by_cause(refusal.cause);
  return refusal;
}

void advise(const SearchedProblem& problem, Refusal& refusal) {
  refusal.help = help_by_cause(refusal.cause);
  // Copying to another device does not help an op that needs all of it at once.
  if (problem.has_devices) std::erase(refusal.help, Help::offload);
  if (!is_of_the_problem(refusal.cause)) return;
  if (problem.order == OrderMode::input) refusal.help.push_back(Help::free_order);
  if (!problem.is_search) return refusal.help.push_back(Help::automatic_strategy);
  if (problem.limits_computes) refusal.help.push_back(Help::more_computes);
  if (problem.stop == Stop::time) refusal.help.push_back(Help::longer_time);
  if (problem.stop == Stop::work) refusal.help.push_back(Help::more_work);
}

Refusal refuse(const Request& request, const Instance& stated, Schedule& schedule, const std::atomic<bool>* cancel) {
  Refusal refusal = explain(*request.graph, schedule);
  Bytes& reached = schedule.solver.reached_peak;
  // Where a sum of sizes was within the budget.
  if (request.alignment && reached > Bytes() && reached <= schedule.budget) refusal.cause = Cause::packing;
  advise({.order = schedule.order,
          .is_search = is_search(request.options.strategy),
          .limits_computes = request.max_computes.has_value(),
          .stop = schedule.solver.stop},
         refusal);
  if (request.alignment) {
    refusal.enough = {};
    refusal.placed = placed_baseline(request.graph, *request.alignment);
  } else {
    refusal.lower_bound = std::max(refusal.lower_bound, least_budget(stated));
  }
  refusal.computes_of_enough = schedule.solver.max_computes;
  if (!is_search(request.options.strategy) && refusal.cause == Cause::limits) {
    refusal.method = request.options.strategy;
    if (reached == Bytes()) refusal.method_lacks = schedule.solver.note;
  }
  if (request.options.strategy == Strategy::none && !request.alignment) refusal.enough = baseline_peak(stated);
  const bool is_cancelled = cancel != nullptr && cancel->load();
  if (is_search(request.options.strategy) && !is_cancelled) {
    std::optional<Known> known = lowest_of(request, stated, cancel);
    const bool is_new = known && (!refusal.is_proved() || known->order != stated.problem().order);
    const bool has_ops = known && !known->bracket.sequence.empty();
    if (has_ops && is_new && known->enough <= schedule.budget) {
      adopt(request, stated, *std::move(known), schedule);
      return {};
    }
    // In free order, what one search reaches is not reached again when it is asked for.
    const bool is_repeated = schedule.order == OrderMode::input && order_asked(request) == OrderRequest::input;
    if (known && (refusal.enough == Bytes() || !is_repeated || known->enough <= refusal.enough)) {
      refusal.enough = known->enough;
      refusal.computes_of_enough = known->bracket.max_computes;
      refusal.runs = std::move(known->bracket.sequence);
    }
    // Where the number of evaluations is open, what is proved of so many is not proved of more.
    if (known && request.max_computes && known->order == stated.problem().order)
      refusal.lower_bound = std::max(refusal.lower_bound, known->bracket.proved);
  }
  const bool is_lower = reached > schedule.budget && reached < refusal.enough && !request.alignment;
  if (!is_lower) reached = refusal.enough;
  return refusal;
}

}  // namespace remora
