// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/reading/solve_options.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "engine/bound/cover_mip.hpp"
#include "engine/bound/highs.hpp"
#include "frontends/cli/reading/arguments.hpp"
#include "model/budget.hpp"
#include "model/error.hpp"

namespace remora::cli {
namespace {

constexpr int kMostBudgets = 10'000;
constexpr const char* kChosenComputes = "auto";

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t end = 0; end != std::string::npos; begin = end + 1) {
    end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end == std::string::npos ? end : end - begin));
  }
  return parts;
}

/// 62.5 of "62.5%"; nothing if it is no percentage.
std::optional<double> percentage(std::string_view text) {
  if (!text.ends_with('%')) return std::nullopt;
  text.remove_suffix(1);
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc() || stop != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

/// Percentages are steps of their own: 5 % of the peak each, not of what is left.
std::vector<Bytes> percent_range(double from, double to, double step, Bytes fixed, Bytes peak, int count) {
  std::vector<Bytes> budgets;
  budgets.reserve(static_cast<std::size_t>(count));
  const double sign = to < from ? -1 : 1;
  for (int i = 0; i < count; ++i) {
    std::array<char, 64> text{};
    // The last one may miss 0 by a hair.
    std::snprintf(text.data(), text.size(), "%.9f%%", std::max(0.0, from + sign * step * i));
    budgets.push_back(read_budget(text.data(), fixed, peak));
  }
  return budgets;
}

/// How many steps there are, both ends counted. Throws UsageError.
int steps_between(double from, double to, double step, const std::string& option, const std::string& text) {
  if (!(step > 0)) throw UsageError(option + ": the step of '" + text + "' must be above 0");
  // A hair more, for steps like 0.1 % that have no exact double.
  const double count = std::floor(std::abs(to - from) / step + 1e-9) + 1;
  if (!(count <= kMostBudgets)) throw UsageError(option + ": '" + text + "' is more than 10,000 budgets");
  return static_cast<int>(count);
}

std::vector<Bytes> parse_range(const std::string& option, const std::string& text, Bytes fixed, Bytes peak) {
  const std::vector<std::string> ends = split(text, ':');
  const bool is_range = text.find("..") != std::string::npos || text.find('-', 1) != std::string::npos;
  if (ends.size() == 1 && !is_range) return {read_budget(text, fixed, peak, option)};
  if (ends.size() != 3) {
    throw UsageError(option + ": '" + text + "' is neither a budget nor a range FROM:TO:STEP (90%:50%:10%)");
  }
  const auto from = percentage(ends[0]);
  const auto to = percentage(ends[1]);
  const auto step = percentage(ends[2]);
  if (from && to && step) {
    return percent_range(*from, *to, *step, fixed, peak, steps_between(*from, *to, *step, option, text));
  }
  if (from || to || step) throw UsageError(option + ": '" + text + "' mixes bytes and percentages");
  const Bytes first = read_budget(ends[0], fixed, peak, option);
  const Bytes last = read_budget(ends[1], fixed, peak, option);
  // A step may be a few bytes.
  const Bytes width = read_budget(ends[2], Bytes(0), Bytes(0), option);
  if (width == Bytes(0)) throw UsageError(option + ": the step of '" + text + "' must be above 0");
  const std::int64_t count = std::abs(last.count() - first.count()) / width.count() + 1;
  if (count > kMostBudgets) throw UsageError(option + ": '" + text + "' is more than 10,000 budgets");
  std::vector<Bytes> budgets;
  budgets.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    const Bytes distance(width.count() * i);
    budgets.push_back(last < first ? first - distance : first + distance);
  }
  return budgets;
}

}  // namespace

Bytes read_budget(const std::string& text, Bytes fixed, Bytes peak, const std::string& option) {
  try {
    return remora::parse_budget(text, fixed, peak);
  } catch (const InputError& error) {
    throw UsageError(option + ": " + error.what());
  }
}

std::vector<Bytes> read_budgets(const std::string& option, const std::string& text, Bytes fixed, Bytes peak) {
  std::vector<Bytes> budgets;
  for (const std::string& part : split(text, ',')) {
    for (const Bytes budget : parse_range(option, part, fixed, peak)) {
      if (std::find(budgets.begin(), budgets.end(), budget) == budgets.end()) budgets.push_back(budget);
    }
  }
  return budgets;
}

namespace po = boost::program_options;

Bytes budget_asked(const std::string& text, const Request& request) {
  try {
    return budget_of(text, request);
  } catch (const InputError& error) {
    throw UsageError(std::string("--budget: ") + error.what());
  }
}

void refuse_more_computes(const Arguments& arguments, const std::string& what) {
  const bool is_asked = arguments.has("max-computes") && arguments.get<std::string>("max-computes") == kChosenComputes;
  if (is_asked) throw UsageError("--max-computes auto: not for " + what);
}

namespace {

std::vector<OptionRow> rows_named(std::span<const std::string_view> names) {
  std::vector<OptionRow> rows = option_rows();
  std::erase_if(rows,
                [&](const OptionRow& row) { return std::find(names.begin(), names.end(), row.name) == names.end(); });
  return rows;
}

std::vector<OptionRow> rows_for(Reader reader) {
  std::vector<OptionRow> rows = option_rows();
  std::erase_if(rows, [&](const OptionRow& row) { return row.reader != reader; });
  return rows;
}

}  // namespace

void add_table_options(OptionGroup& group, const std::vector<OptionRow>& rows) {
  for (const OptionRow& row : rows) {
    const std::string range = row.range.empty() ? "" : row.range + ", ";
    const std::string help = row.help + " (" + range + "default " + row.initial + ")";
    group.add_options()(dashed(row.name).c_str(), po::value<std::string>()->value_name(row.type), help.c_str());
  }
}

void set_table_options(const Arguments& arguments, const std::vector<OptionRow>& rows, SolveOptions& options) {
  for (const OptionRow& row : rows) {
    const std::string name = dashed(row.name);
    if (arguments.has(name)) set_option(options, row.name, arguments.get<std::string>(name));
  }
}

std::vector<OptionRow> partition_rows() {
  return rows_named(std::array<std::string_view, 3>{"grouping", "group_size", "top_size"});
}

std::vector<OptionRow> limit_rows() {
  return rows_named(std::array<std::string_view, 4>{"time_limit", "work_limit", "threads", "seed"});
}

SolveOptions read_limits(const Arguments& arguments) {
  SolveOptions options;
  try {
    set_table_options(arguments, limit_rows(), options);
    lift_time_limit(arguments, options);
    check_options(options);
  } catch (const InputError& error) {
    throw UsageError(error.what());
  }
  return options;
}

void lift_time_limit(const Arguments& arguments, SolveOptions& options) {
  if (arguments.has("work-limit") && !arguments.has("time-limit")) options.time_limit = kNoTimeLimit;
}

OptionGroup problem_options(bool needs_budget) {
  OptionGroup group("The problem");
  auto* budget = po::value<std::string>()->value_name("B");
  if (needs_budget) budget->required();
  group.add_options()(
      "budget,b", budget,
      "memory budget: bytes (12GiB, 12G, 1500MB, 123456; fixed memory included) or a percentage of the input "
      "order's no-recompute peak above fixed memory (80%), or of all of it (80%peak)")(
      "max-computes", po::value<std::string>()->value_name("C"),
      "maximum computes per op, the first included. auto (default) begins with 2 and allows more if that holds the "
      "budget or gives a shorter schedule; rotor and twremat: 64")(
      "order", po::value<std::string>()->value_name("MODE"),
      "input: first computes follow the file's order (default); free: any order (default for twremat); auto: free if a "
      "quick search finds another order that holds the budget or needs much less memory");
  return group;
}

OptionGroup search_options() {
  OptionGroup group("The search");
  add_table_options(group, rows_for(Reader::user));
  group.add_options()("warm-start", input_file(), "start from this schedule of the graph, made for any budget");
  return group;
}

OptionGroup expert_options() {
  OptionGroup group("Switches of the methods");
  add_table_options(group, rows_for(Reader::expert));
  return group;
}

namespace {

/// None for auto.
std::optional<int> read_computes(const std::string& text) {
  if (text == kChosenComputes) return std::nullopt;
  int most = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, most);
  if (error != std::errc() || stop != end)
    throw UsageError("--max-computes: '" + text + "' is neither a number nor auto");
  if (most < 1) throw UsageError("--max-computes: must be at least 1");
  return most;
}

}  // namespace

Request read_request(const Arguments& arguments) {
  Request request;
  try {
    set_table_options(arguments, option_rows(), request.options);
    lift_time_limit(arguments, request.options);
    if (arguments.has("max-computes")) request.max_computes = read_computes(arguments.get<std::string>("max-computes"));
    if (arguments.has("order")) {
      request.order = order_request_from_name(arguments.get<std::string>("order"), "--order");
    }
    Request started = request;
    // Which ops these are is seen with the graph.
    if (arguments.has("warm-start")) started.start.emplace_back();
    check_request(started);
  } catch (const InputError& error) {
    throw UsageError(error.what());
  }
  return request;
}

void warn_of_weaker_bound(const SolveOptions& options) {
  if (options.mip == IntegerSolver::highs && find_highs().is_missed)
    std::cerr << "remora: REMORA_HIGHS: " << find_highs().why_not << ": the proof does without HiGHS\n";
  const bool asks = options.covering == Covering::on && options.mip != IntegerSolver::off;
  if (!asks || cover_mip_available()) return;
  std::cerr << "remora: built without COIN-OR CBC: the lower bound is weaker\n";
}

}  // namespace remora::cli
