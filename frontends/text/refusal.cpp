// SPDX-License-Identifier: Apache-2.0
#include "frontends/text/refusal.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

#include "frontends/text/text.hpp"

namespace remora::text {
namespace {

using Cause = Refusal::Cause;
using Help = Refusal::Help;

/// " in the input order with at most 2 runs per op".
std::string problem_text(OrderMode order, int max_computes) {
  return std::string(" in ") + (order == OrderMode::input ? "the input" : "any") + " order with at most " +
         std::to_string(max_computes) + (max_computes == 1 ? " run per op" : " runs per op");
}

std::string strategy_of(const SolverReport& solver) {
  const auto row = std::ranges::find(solver.options, "strategy", [](const auto& pair) { return pair.first; });
  return row == solver.options.end() ? "" : row->second;
}

/// For a Schedule or a DeviceSchedule.
template <class AnySchedule>
std::string what_text(const AnySchedule& schedule, const Refusal& refusal, const std::string& budget) {
  switch (refusal.cause) {
    case Cause::event:
    case Cause::search:
      return "no schedule" + problem_text(schedule.order, refusal.max_computes) + " stays within " + budget;
    case Cause::packing:
      return "no schedule was found whose buffers fit into one arena within " + budget;
    case Cause::limits:
      if (refusal.method) return "strategy " + strategy_of(schedule.solver) + " makes no schedule within " + budget;
      return "no schedule within " + budget + " was found in " + fixed(schedule.solver.seconds, 1) + " s";
    case Cause::none:
    case Cause::op:
    case Cause::kept:
    case Cause::no_way:
      break;
  }
  return "no schedule stays within " + budget;
}

std::string because_text(const Graph& graph, const Schedule& schedule, const Refusal& refusal,
                         const RefusalStyle& style) {
  const std::string much = bytes_text(refusal.needed) + " at once, " + bytes_text(refusal.needed - schedule.budget) +
                           " more than the budget";
  switch (refusal.cause) {
    case Cause::op:
      return style.name(graph[refusal.op].name) + " alone needs " + much + ", in any order and however often ops run";
    case Cause::kept:
      return "the tensors that must be kept after the last op, " + style.name(graph[refusal.op].name) + ", need " +
             much;
    case Cause::event:
      return "while " + style.name(graph[refusal.op].name) +
             " runs, its tensors and those that cannot be recomputed need " + much;
    case Cause::limits:
      return refusal.method_lacks;
    case Cause::none:
    case Cause::no_way:
    case Cause::search:
    case Cause::packing:
      break;
  }
  return "";
}

std::string shortages_text(const DeviceGraph& graph, const Refusal& refusal, const RefusalStyle& style) {
  if (refusal.cause == Cause::no_way)
    return "something that is read or must be kept cannot be copied to where it has to be";
  std::string text = refusal.op.valid() ? style.name(graph.graph[refusal.op].name) + " can run on no device: " : "";
  for (std::size_t i = 0; i < refusal.shortages.size(); ++i) {
    const auto& [device, needed, budget] = refusal.shortages[i];
    text += (i == 0 ? "" : ", ") + style.name(graph.devices[device].name) + " needs at least " + style.amount(needed) +
            (refusal.op.valid() ? "" : " for what is always resident or must be kept there") + ", and its budget is " +
            style.amount(budget);
  }
  return text;
}

std::string budgets_text(const Refusal& refusal, Bytes reached, const RefusalStyle& style) {
  const bool has_least = refusal.is_proved() && refusal.lower_bound > Bytes();
  const bool has_enough = refusal.enough > Bytes();
  if (has_least && refusal.enough == refusal.lower_bound)
    return "the minimum budget is " + style.amount(refusal.enough);
  std::string text;
  if (has_least) text = "lower bound on any feasible budget: " + style.amount(refusal.lower_bound);
  if (has_enough) {
    text += (text.empty() ? "" : "; ") + style.amount(refusal.enough) + " is enough";
    const bool needs_more = refusal.computes_of_enough > refusal.max_computes;
    if (needs_more) text += " (with up to " + std::to_string(refusal.computes_of_enough) + " runs per op)";
    if (reached > Bytes() && reached < refusal.enough) {
      text += ", and this search came down to " + style.amount(reached) + ", which another may miss";
    }
  }
  return text;
}

/// "in 4 slices 1.77 GiB is enough: --slices auto".
std::string slices_text(const Refusal& refusal, const RefusalStyle& style) {
  if (refusal.slices == 0) return "";
  return "in " + std::to_string(refusal.slices) + " slices " + style.amount(refusal.enough_in_slices) + " is enough" +
         (refusal.lets_choose_slices ? "" : ": " + style.option("slices", "auto"));
}

std::string joined(const std::string& first, const std::string& second) {
  return first.empty() || second.empty() ? first + second : first + "; " + second;
}

std::string help_text(Help help, const RefusalStyle& style) {
  switch (help) {
    case Help::larger_budget:
      return "a larger budget";
    case Help::smaller_batch:
      return "a smaller batch";
    case Help::split_op:
      return "splitting the op";
    case Help::offload:
      return "offloading tensors to another device";
    case Help::keep_less:
      return "keeping fewer tensors";
    case Help::free_order:
      return style.option("order", "free");
    case Help::more_computes:
      return "a larger " + style.option("max_computes", "");
    case Help::longer_time:
      return "a longer " + style.option("time_limit", "");
    case Help::more_work:
      return "a larger " + style.option("work_limit", "");
    case Help::smaller_alignment:
      return "a smaller " + style.option("alignment", "");
    case Help::automatic_strategy:
      return style.option("strategy", "auto");
  }
  return "";
}

std::string suggestions_text(const Refusal& refusal, const RefusalStyle& style) {
  std::string text;
  for (std::size_t i = 0; i < refusal.help.size(); ++i) {
    const bool is_last = i + 1 == refusal.help.size();
    text += (i == 0 ? "" : is_last ? " or " : ", ") + help_text(refusal.help[i], style);
  }
  return text;
}

}  // namespace

const char* reason_word(Cause cause) {
  constexpr std::array kWords{"", "op", "kept", "event", "search", "packing", "limits", "no_way"};
  return kWords.at(static_cast<std::size_t>(cause));
}

std::string RefusalText::line() const {
  std::string text = what;
  if (!because.empty()) text += ": " + because;
  if (!budgets.empty()) text += "; " + budgets;
  if (!suggestions.empty()) text += "; try " + suggestions;
  return text;
}

RefusalText refusal_text(const Graph& graph, const Schedule& schedule, const Refusal& refusal,
                         const std::string& budget, const RefusalStyle& style) {
  return {.what = what_text(schedule, refusal, budget),
          .because = because_text(graph, schedule, refusal, style),
          .budgets = joined(budgets_text(refusal, schedule.solver.reached_peak, style), slices_text(refusal, style)),
          .suggestions = suggestions_text(refusal, style)};
}

RefusalText refusal_text(const DeviceGraph& graph, const DeviceSchedule& schedule, const Refusal& refusal,
                         const RefusalStyle& style) {
  const bool limited = schedule.duration_limit || schedule.energy_limit;
  return {.what = what_text(schedule, refusal, limited ? "the budgets and limits" : "the budgets"),
          .because = shortages_text(graph, refusal, style),
          .budgets = "",
          .suggestions = suggestions_text(refusal, style)};
}

namespace {

RefusalStyle plain_style() {
  return {.amount = exact_bytes_text,
          .name = [](const std::string& name) { return "'" + visible(name) + "'"; },
          .option = [](const std::string& option,
                       const std::string& value) { return option + (value.empty() ? "" : " " + value); }};
}

}  // namespace

std::string refusal_line(const Graph& graph, const Schedule& schedule, const Refusal& refusal) {
  if (refusal.cause == Refusal::Cause::none) return "";
  return refusal_text(graph, schedule, refusal, exact_bytes_text(schedule.budget), plain_style()).line();
}

std::string refusal_line(const DeviceGraph& graph, const DeviceSchedule& schedule, const Refusal& refusal) {
  if (schedule.has_schedule()) return "";
  if (refusal.cause == Refusal::Cause::none) return schedule.solver.note;
  return refusal_text(graph, schedule, refusal, plain_style()).line();
}

}  // namespace remora::text
