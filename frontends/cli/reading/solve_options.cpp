// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/reading/solve_options.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <iostream>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "engine/bound/cover_mip.hpp"
#include "engine/bound/highs.hpp"
#include "frontends/cli/reading/arguments.hpp"
#include "frontends/cli/reading/graph_source.hpp"
#include "frontends/text/text.hpp"
#include "model/budget.hpp"
#include "model/error.hpp"
#include "model/quote.hpp"

namespace remora::cli {
namespace {

constexpr const char* kChosenComputes = "auto";

/// A budget; of several devices also one budget each time: --budget gpu=6GiB --budget cpu=100GiB is --budget gpu=6GiB,cpu=100GiB.
class BudgetOption : public boost::program_options::typed_value<std::string> {
 public:
  BudgetOption() : typed_value(nullptr) {}

  void xparse(boost::any& stored, const std::vector<std::string>& words) const override {
    const bool is_next = !stored.empty() && words.size() == 1 && words.front().find('=') != std::string::npos;
    const auto* before = is_next ? boost::any_cast<std::string>(&stored) : nullptr;
    if (before == nullptr || before->find('=') == std::string::npos) return typed_value::xparse(stored, words);
    stored = *before + "," + words.front();
  }
};

}  // namespace

Bytes read_budget(const std::string& text, Bytes fixed, Bytes peak, const std::string& option) {
  try {
    return remora::parse_budget(text, fixed, peak);
  } catch (const InputError& error) {
    throw UsageError(option + ": " + error.what());
  }
}

std::vector<Bytes> read_budgets(const std::string& option, const std::string& text, Bytes fixed, Bytes peak) {
  try {
    return remora::parse_budgets(text, fixed, peak);
  } catch (const InputError& error) {
    throw UsageError(option + ": " + error.what());
  }
}

namespace po = boost::program_options;

Bytes read_alignment(const Arguments& arguments, std::int64_t usual) {
  const auto alignment = arguments.has("alignment") ? arguments.get<std::int64_t>("alignment") : usual;
  constexpr std::int64_t kMaximum = std::int64_t{1} << 30;
  if (alignment < 1 || alignment > kMaximum) {
    throw UsageError("--alignment: must be from 1 to 2^30, not " + std::to_string(alignment));
  }
  return Bytes(alignment);
}

Bytes budget_asked(const std::string& text, const Request& request) {
  try {
    return budget_of(text, request);
  } catch (const InputError& error) {
    throw UsageError(std::string("--budget: ") + error.what());
  }
}

void refuse_slices(const Arguments& arguments, const std::string& what) {
  if (arguments.has("slices")) throw UsageError("--slices: not for " + what);
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

}  // namespace

void add_table_options(OptionGroup& group, const std::vector<OptionRow>& rows) {
  for (const OptionRow& row : rows) {
    const std::string range = row.range.empty() ? "" : row.range + ", ";
    const std::string help = row.help + " (" + range + "default " + row.initial + ")";
    const std::string name = text::dashed(row.name);
    group.add_options()(name.c_str(), po::value<std::string>()->value_name(row.type), help.c_str());
    if (row.reader == Reader::expert) group.make_expert({name});
  }
}

void set_table_options(const Arguments& arguments, const std::vector<OptionRow>& rows, SolveOptions& options) {
  for (const OptionRow& row : rows) {
    const std::string name = text::dashed(row.name);
    if (arguments.has(name)) set_option(options, row.name, arguments.get<std::string>(name));
  }
}

std::vector<OptionRow> partition_rows() {
  return rows_named(std::array<std::string_view, 2>{"group_size", "top_size"});
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
    throw UsageError(spelled(error));
  }
  return options;
}

void lift_time_limit(const Arguments& arguments, SolveOptions& options) {
  if (arguments.has("work-limit") && !arguments.has("time-limit")) options.time_limit = kNoTimeLimit;
}

void add_slices_option(OptionGroup& group) {
  group.add_options()("slices", po::value<std::vector<std::string>>()->value_name("WHAT"),
                      "none (default); auto: compute ops in slices, along the axes in the graph, where that makes the "
                      "schedule shorter or "
                      "possible; REGION=K@AXIS (repeatable): in K slices. REGION is an op, which takes its neighbors "
                      "along, or a list of "
                      "ops (A,B or A,); AXIS is the number of the first op's axis (default: the best)");
}

SliceRequest read_slices(const Arguments& arguments) {
  if (!arguments.has("slices")) return {};
  try {
    return slices_asked(arguments.get<std::vector<std::string>>("slices"));
  } catch (const InputError& error) {
    throw UsageError(spelled(error));
  }
}

OptionGroup problem_options(bool needs_budget) {
  OptionGroup group("The problem");
  auto* budget = new BudgetOption();  // the group owns it
  budget->value_name("B");
  if (needs_budget) budget->required();
  group.add_options()(
      "budget,b", budget,
      "memory budget: bytes (12GiB, 12G, 1500MB, 123456; fixed memory included) or a percentage of the input "
      "order's no-recompute peak above fixed memory (80%), or of all of it (80%peak)")(
      "max-computes", po::value<std::string>()->value_name("C"),
      "maximum runs per op, the first included (C_v in the literature). auto (default) begins with 2 and allows more "
      "if the budget needs them or the schedule gets shorter; rotor: 64")(
      "order", po::value<std::string>()->value_name("MODE"),
      "input: first runs follow the file's order (default); free: any order; auto: free if a quick "
      "search finds another order that fits within the budget or needs much less memory");
  add_slices_option(group);
  group.make_expert({"max-computes"});
  return group;
}

OptionGroup search_options() {
  OptionGroup group("The search");
  add_table_options(group, option_rows());
  group.add_options()("warm-start", input_file(), "start from this schedule of the graph, made for any budget");
  group.make_expert({"warm-start"});
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
      request.order = order_request_from_name(arguments.get<std::string>("order"));
    }
    request.slices = read_slices(arguments);
    Request started = request;
    // Which ops these are is seen with the graph.
    if (arguments.has("warm-start")) started.warm_start.emplace_back();
    check_request(started);
  } catch (const InputError& error) {
    throw UsageError(spelled(error));
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

namespace {

/// `visit(name, bytes, part)` for each part of the text, name=bytes. `most`: as of remora::parse_bytes.
template <class Visit>
void for_each_budget(const std::string& text, Bytes most, const Visit& visit) {
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view one = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    const auto sign = one.rfind('=');
    if (sign == std::string_view::npos) {
      throw UsageError("--budget: of a graph with devices it is DEVICE=BYTES, separated by commas; '" +
                       std::string(one) + "' names none of its devices");
    }
    const std::string amount(one.substr(sign + 1));
    Bytes bytes;
    try {
      bytes = parse_bytes(amount, most);
    } catch (const InputError& error) {
      throw UsageError("--budget: " + std::string(one.substr(0, sign)) + ": " + error.what());
    }
    visit(one.substr(0, sign), bytes, one);
  }
}

}  // namespace

Table<DeviceId, std::optional<Bytes>> read_device_budgets(const std::string& text, const DeviceGraph& graph) {
  Table<DeviceId, std::optional<Bytes>> budgets(graph.devices.size());
  for_each_budget(text, all_memory(graph), [&](std::string_view name, Bytes bytes, std::string_view one) {
    const auto device = std::find_if(graph.devices.begin(), graph.devices.end(),
                                     [&](const Device& candidate) { return candidate.name == name; });
    if (device == graph.devices.end()) {
      const auto names = list_text(graph.devices, [](const Device& known) { return printable(known.name); });
      throw UsageError("--budget: of a graph with devices it is DEVICE=BYTES, separated by commas; '" +
                       std::string(one) + "' names none of its devices, " + names);
    }
    budgets[DeviceId(static_cast<std::size_t>(device - graph.devices.begin()))] = bytes;
  });
  return budgets;
}

void check_device_budgets(const std::string& text) {
  for_each_budget(text, Bytes(0), [](std::string_view, Bytes, std::string_view) {});
}

namespace {

constexpr std::array<std::string_view, 4> kOwn = {"objective", "copies", "duration-limit", "energy-limit"};
constexpr std::array<std::string_view, 12> kShared = {"files",      "budget", "max-computes", "order",
                                                      "time-limit", "seed",   "work-limit",   "threads",
                                                      "output",     "quiet",  "warm-start",   "memory-limit"};

template <class Names>
bool is_among(std::string_view name, const Names& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void refuse_others(const Arguments& arguments, const std::vector<std::string>& others) {
  for (const auto& [name, value] : arguments.values()) {
    if (value.defaulted() || is_among(name, kShared) || is_among(name, kOwn) || is_among(name, others)) continue;
    throw UsageError("--" + name + ": not for graphs with devices");
  }
}

}  // namespace

OptionGroup device_options() {
  OptionGroup group("Graphs with devices");
  group.add_options()("objective", po::value<std::string>()->value_name("WHAT"),
                      "what to minimise: duration (default) or energy")(
      "copies", po::value<std::string>()->value_name("HOW"),
      "sequential: no overlap; overlap: copies overlap with computation, one at a time per link, and lanes run "
      "concurrently. Default: overlap for graphs with lanes, otherwise sequential")(
      "duration-limit", po::value<std::int64_t>()->value_name("T"), "upper limit on the duration")(
      "energy-limit", po::value<std::int64_t>()->value_name("E"), "upper limit on the energy");
  for (const std::string_view name : kOwn) group.make_expert({name});
  return group;
}

void refuse_device_options(const Arguments& arguments) {
  for (const std::string_view name : kOwn) {
    if (arguments.has(std::string(name))) throw UsageError("--" + std::string(name) + ": only for graphs with devices");
  }
}

devices::Request read_device_request(const Arguments& arguments, std::shared_ptr<const DeviceGraph> graph,
                                     const std::vector<std::string>& others) {
  refuse_others(arguments, others);
  const Request asked = read_request(arguments);
  if (asked.order == OrderRequest::automatic) throw UsageError("--order auto: not for graphs with devices");
  const std::string budgets = arguments.has("budget") ? arguments.get<std::string>("budget") : "";
  devices::Request request{.graph = std::move(graph),
                           .max_computes = asked.max_computes,
                           .order = asked.order == OrderRequest::free ? OrderMode::free : OrderMode::input,
                           .options = asked.options};
  request.budget = read_device_budgets(budgets, *request.graph);
  constexpr std::array<std::pair<const char*, Objective>, 2> kObjectives{
      {{"duration", Objective::duration}, {"energy", Objective::energy}}};
  if (arguments.has("objective")) {
    request.objective = choose("objective", arguments.get<std::string>("objective"), kObjectives);
  }
  constexpr std::array<std::pair<const char*, CopyMode>, 2> kCopies{
      {{"sequential", CopyMode::sequential}, {"overlap", CopyMode::overlap}}};
  if (arguments.has("copies")) {
    request.copies = choose("copies", arguments.get<std::string>("copies"), kCopies);
  }
  const auto limit = [&](const char* name) {
    const auto amount = arguments.get<std::int64_t>(name);
    if (amount < 0) throw UsageError(std::string("--") + name + ": must not be negative");
    return amount;
  };
  if (arguments.has("duration-limit")) request.duration_limit = Duration(limit("duration-limit"));
  if (arguments.has("energy-limit")) request.energy_limit = Energy(limit("energy-limit"));
  if (arguments.has("warm-start")) {
    const std::string& path = arguments.input("warm-start");
    request.warm_start = load_schedule(read_once(path), *request.graph).steps;
    if (request.warm_start.empty()) throw InputError(path, "holds no schedule to start from");
  }
  return request;
}

}  // namespace remora::cli
