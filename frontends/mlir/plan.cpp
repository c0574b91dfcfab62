// SPDX-License-Identifier: Apache-2.0
#include "frontends/mlir/plan.hpp"

#include <bit>
#include <charconv>
#include <exception>
#include <filesystem>
#include <locale>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "engine/ask/ask.hpp"
#include "engine/bound/first_bound.hpp"
#include "frontends/formats/file.hpp"
#include "frontends/formats/json.hpp"
#include "frontends/text/refusal.hpp"
#include "frontends/text/text.hpp"
#include "model/budget.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/sequence.hpp"

namespace remora::mlir_frontend {
namespace {

constexpr const char* kBudgetOption = "memory-budget";
/// Units of work for a placement; and where it is above what it may be, for one within that.
constexpr std::int64_t kPlacementWork = 20'000;
constexpr std::int64_t kFittingWork = 10 * kPlacementWork;

SolveOptions solve_options(const RematerializeOptions& options) {
  SolveOptions result;
  result.time_limit = options.time_limit;
  result.work_limit = options.work_limit;
  result.seed = options.seed;
  result.threads = options.threads;
  return result;
}

constexpr std::string_view kChosenComputes = "auto";

/// None for auto.
std::optional<int> computes_of(const RematerializeOptions& options) {
  const std::string& text = options.max_computes;
  if (text == kChosenComputes) return std::nullopt;
  int most = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, most);
  if (error != std::errc() || stop != end) {
    throw InputError("max-computes", "'" + text + "' is neither a number nor auto");
  }
  return most;
}

/// But for the budget.
Request request_of(std::shared_ptr<const Graph> graph, const RematerializeOptions& options) {
  Request asked{.graph = std::move(graph),
                .max_computes = computes_of(options),
                .order = order_request_from_name(options.order),
                .options = solve_options(options)};
  if (options.arena) asked.alignment = Bytes(options.alignment);
  return asked;
}

/// A percentage is of all memory: arguments and constants count, whatever they are in the graph. `peak`: with an arena, what the input
/// order takes with it.
Bytes budget_of(const RematerializeOptions& options, Bytes peak) {
  try {
    return parse_budget(options.budget, Bytes(), peak);
  } catch (const InputError& error) {
    throw InputError(kBudgetOption, error.what());
  }
}

/// The name of a function or module, with characters that file systems and shells reject as %HH.
std::string file_name(std::string_view name) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-$";
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string result;
  for (const char c : name) {
    if (kPlain.find(c) != std::string_view::npos) {
      result.push_back(c);
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    result.append({'%', kDigits[byte / 16U], kDigits[byte % 16U]});
  }
  return result;
}

void write_report(const Graph& graph, Schedule& schedule, const std::string& folder,
                  std::span<const std::string> report_name) {
  std::filesystem::create_directories(folder);
  std::string name;
  for (const std::string& part : report_name) name.append(name.empty() ? "" : ".").append(file_name(part));
  const std::string stem = (std::filesystem::path(folder) / name).string();
  const std::string written = text::written([&](std::ostream& out) { json::write_graph(out, graph); });
  schedule.graph_sha256 = text::sha256_hex(written);
  json::write_file(stem + ".graph.json", [&](std::ostream& out) { out << written; });
  json::write_file(stem + ".schedule.json", [&](std::ostream& out) { json::write_schedule(out, schedule, graph); });
}

std::string summary_of(const Graph& graph, const Plan& plan) {
  const Schedule& schedule = plan.schedule;
  const std::string unit = text::duration_unit_of(graph);
  std::ostringstream text;
  text.imbue(std::locale::classic());
  text << "peak " << text::exact_bytes_text(schedule.baseline_peak_memory) << " -> "
       << text::exact_bytes_text(schedule.peak_memory) << " within a budget of "
       << text::exact_bytes_text(schedule.budget) << ", work " << text::duration_text(schedule.baseline_duration, unit)
       << " -> " << text::duration_text(schedule.duration, unit) << " (+" << text::percent_text(schedule.overhead())
       << ", at least +" << text::percent_text(schedule.least_overhead()) << " with up to "
       << schedule.solver.max_computes << " runs per op"
       << (schedule.status == Status::optimal ? ", proved optimal" : "")
       << (schedule.solver.optimal_for_max_computes == kAnyNumber ? " for any number), " : "), ") << graph.ops.size()
       << " ops and " << plan.recomputes << " recomputes";
  if (schedule.arena) text << ", arena " << text::exact_bytes_text(schedule.arena->size);
  return text.str();
}

std::string failure_of(const Graph& graph, const Answer& answer) {
  const text::RefusalStyle style{
      .amount = text::exact_bytes_text,
      .name = [](const std::string& name) { return "'" + text::visible(name) + "'"; },
      .option = [](const std::string& option,
                   const std::string& value) { return text::dashed(option) + (value.empty() ? "" : "=" + value); }};
  const std::string budget = std::string(kBudgetOption) + " of " + text::exact_bytes_text(answer.schedule.budget);
  const std::string line = text::refusal_text(graph, answer.schedule, answer.refusal, budget, style).line();
  const std::string& note = answer.schedule.solver.note;
  const bool is_said = note.empty() || note == answer.refusal.method_lacks;
  return (answer.refusal.is_proved() ? "infeasible, proved: " : "") + line + (is_said ? "" : " (" + note + ')');
}

void take_steps(const Instance& instance, Plan& plan) {
  // Without first computes that nobody reads before the next one: they would be dead code.
  plan.sequence = without_useless(instance, ops_of(plan.schedule));
  plan.recomputes = static_cast<int>(plan.sequence.size()) - instance.op_count();
  plan.changes = plan.sequence != input_order(instance);
}

Plan solve_and_verify(const Graph& graph, const RematerializeOptions& options,
                      std::span<const std::string> report_name) {
  Request asked = request_of(std::make_shared<const Graph>(graph), options);
  const Instance instance(asked.graph, {});
  const Bytes peak = baseline_peak(instance);
  const bool is_placed = asked.alignment && options.budget.ends_with('%');
  asked.budget = budget_of(options, is_placed ? placed_baseline(asked.graph, *asked.alignment) : peak);
  // A percentage is asked of every function, also of those that are one op or little more.
  if (options.budget.ends_with('%') && asked.budget < peak && least_budget(instance) >= peak) {
    return {.nothing_to_gain = "one of its ops alone needs the peak of " + text::exact_bytes_text(peak)};
  }
  const Answer answer = solve(asked);
  Plan plan{.schedule = answer.schedule};
  if (!options.report.empty()) write_report(graph, plan.schedule, options.report, report_name);
  if (!plan.schedule.has_schedule()) {
    plan.error = failure_of(graph, answer);
    return plan;
  }
  take_steps(instance, plan);
  plan.summary = summary_of(graph, plan);
  return plan;
}

/// The message of whatever `act` throws; empty if it throws nothing.
template <class Act>
std::string message_of(const Act& act) noexcept {
  try {
    act();
    return "";
  } catch (const InputError& error) {
    if (error.kind() != InputError::Place::option) return error.what();
    return text::dashed(error.place()) + ": " + error.fault();
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an unknown exception";
  }
}

}  // namespace

int most_computes(const RematerializeOptions& options) {
  return computes_of(options).value_or(static_cast<int>(kComputesWithin64Bits));
}

std::string check_options(const RematerializeOptions& options) {
  return message_of([&] {
    check_request(request_of(std::make_shared<const Graph>(), options));
    const std::string fault = alignment_fault(options.alignment);
    if (!fault.empty()) throw InputError("alignment", fault);
    if (!options.budget.empty()) budget_of(options, Bytes());
  });
}

Plan make_plan(const Graph& graph, const RematerializeOptions& options,
               std::span<const std::string> report_name) noexcept {
  Plan plan;
  std::string failure = message_of([&] { plan = solve_and_verify(graph, options, report_name); });
  if (!failure.empty()) plan.error = std::move(failure);
  return plan;
}

ArenaPlan plan_arena(std::span<const Buffer> buffers, Bytes most) noexcept {
  ArenaPlan plan;
  std::string failure = message_of([&] {
    const auto never = [] { return false; };
    PlaceResult found = place(buffers, {.work_limit = kPlacementWork}, never);
    if (found.arena > most) found = place(buffers, {.capacity = most, .work_limit = kFittingWork}, never);
    if (found.arena > most || found.status == PlacementStatus::infeasible) {
      throw InputError("", "its buffers take " + text::exact_bytes_text(largest_load(buffers)) +
                               " at once, and no placement was found in the " + text::exact_bytes_text(most) +
                               " that they may take");
    }
    plan.offsets = std::move(found.offsets);
    plan.size = found.arena;
    plan.bound = found.lower_bound;
  });
  if (!failure.empty()) plan.error = std::move(failure);
  return plan;
}

std::string alignment_fault(std::int64_t alignment) {
  constexpr std::int64_t kMaximum = std::int64_t{1} << 30;
  const bool right =
      alignment >= 1 && alignment <= kMaximum && std::has_single_bit(static_cast<std::uint64_t>(alignment));
  return right ? "" : "must be a power of two from 1 to 2^30, not " + std::to_string(alignment);
}

}  // namespace remora::mlir_frontend
