// SPDX-License-Identifier: Apache-2.0
//
// A few schedules for all sizes of a dimension: `remora solve MODEL --dim NAME=LOW:HIGH --plans N`.
#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/ask/ask.hpp"
#include "engine/ask/sizes.hpp"
#include "frontends/cli/commands/command.hpp"
#include "frontends/cli/commands/solve_run.hpp"
#include "frontends/cli/reading/arguments.hpp"
#include "frontends/cli/reading/graph_source.hpp"
#include "frontends/cli/reading/solve_options.hpp"
#include "frontends/cli/showing/summary.hpp"
#include "frontends/formats/file.hpp"
#include "frontends/formats/json.hpp"
#include "frontends/text/text.hpp"

namespace remora::cli {
namespace fs = std::filesystem;
namespace po = boost::program_options;
namespace {

/// The model is read at so many sizes, the smallest and the largest among them.
constexpr std::int64_t kPoints = 25;

std::vector<std::int64_t> points_of(const DimensionRange& range) {
  std::vector<std::int64_t> found;
  for (std::int64_t i = 0; i < kPoints; ++i) {
    const std::int64_t size = range.low + (range.high - range.low) * i / (kPoints - 1);
    if (found.empty() || size > found.back()) found.push_back(size);
  }
  return found;
}

/// The file of the schedule for sizes up to `size`: "plan.json" becomes "plan-8192.json".
std::string file_of(const std::string& output, std::int64_t size) {
  const fs::path path(output);
  const std::string name = path.stem().string() + "-" + std::to_string(size) + path.extension().string();
  return (path.parent_path() / name).string();
}

/// How the model was read for the schedule.
std::vector<std::string> reading_at(const Arguments& arguments, const DimensionRange& range, std::int64_t size) {
  std::vector<std::string> words = reading_of(arguments);
  const std::string beginning = "--dim=" + range.name + "=";
  std::erase_if(words, [&](const std::string& word) {
    return word.starts_with(beginning) && word.find(':') != std::string::npos;
  });
  words.push_back(beginning + std::to_string(size));
  return words;
}

void print_ranges(const DimensionRange& range, const std::vector<std::int64_t>& points, const SizesAnswer& answer,
                  Bytes budget) {
  std::cerr << "  " << range.name << " in " << text::bytes_text(budget)
            << "  recomputes    overhead       bound  peak\n";
  std::int64_t low = range.low;
  for (const SizeRange& one : answer.ranges) {
    const std::int64_t high = points[one.last];
    const std::string sizes = text::grouped(low) + " to " + text::grouped(high);
    const auto recomputes = one.schedule.steps.size() - answer.operations;
    std::array<char, 160> line{};
    std::snprintf(line.data(), line.size(), "  %22s  %10s  %10s  %10s  %s\n", sizes.c_str(),
                  text::grouped(static_cast<std::int64_t>(recomputes)).c_str(),
                  text::percent_text(one.schedule.overhead(), 2).c_str(),
                  text::percent_text(one.schedule.least_overhead(), 2).c_str(),
                  text::bytes_text(one.schedule.peak_memory).c_str());
    std::cerr << line.data();
    low = high + 1;
  }
  const double plain = answer.baseline_duration > 0 ? answer.baseline_duration : 1;
  std::cerr << "expected    overhead " << text::percent_text(answer.duration / plain - 1, 2)
            << ", all sizes alike; with a schedule for each size at least "
            << text::percent_text(answer.lower_bound / plain - 1, 2) << "\n";
}

}  // namespace

OptionGroup size_options() {
  OptionGroup group("Ranges of sizes");
  group.add_options()("plans", po::value<int>()->value_name("N")->default_value(4),
                      "for --dim NAME=LOW:HIGH: schedules at most, each for a range of sizes");
  group.make_expert({"plans"});
  return group;
}

int solve_for_sizes(const Arguments& arguments, const Request& request, const DimensionRange& range) {
  for (const char* option : {"addresses", "warm-start", "json-progress"}) {
    if (arguments.has(option)) throw UsageError(std::string("--") + option + ": not for a range of sizes");
  }
  refuse_slices(arguments, "a range of sizes");
  refuse_device_options(arguments);
  const std::string& output = arguments.output("output");
  const bool is_written = !arguments.values()["output"].defaulted();
  if (output == "-" && is_written) throw UsageError("--output: - cannot take several schedules; name a file");
  const std::vector<std::int64_t> points = points_of(range);
  SizesRequest asked{.request = request, .most = arguments.get<int>("plans")};
  if (asked.most < 1) throw UsageError("--plans: at least 1");
  if (is_written) {
    for (const std::int64_t size : points) json::check_writable(file_of(output, size));
  }
  const FileText file = read_once(arguments.file("GRAPH"));
  const bool is_silent = is_quiet(arguments);
  LoadedGraph loaded;
  for (const std::int64_t size : points) {
    loaded = load_graph(file, arguments, is_silent || size != range.high, {{range.name, size}});
    asked.graphs.push_back(loaded.graph);
  }
  // A percentage is of the largest size.
  asked.request.graph = loaded.graph;
  asked.request.budget = budget_asked(arguments.get<std::string>("budget"), asked.request);
  SignalGuard signals;
  signals.watch_memory();
  const SizesAnswer answer = solve_sizes(asked, &signals.flag());
  if (is_written) {
    for (const SizeRange& one : answer.ranges) {
      Schedule schedule = one.schedule;
      schedule.graph_sha256 = loaded.sha256;
      schedule.reading = reading_at(arguments, range, points[one.last]);
      arguments.files().write(file_of(output, points[one.last]),
                              [&](std::ostream& out) { json::write_schedule(out, schedule, *asked.graphs[one.last]); });
    }
  }
  const Schedule& largest = answer.largest.schedule;
  if (!largest.has_schedule()) {
    std::cerr << (is_silent ? "remora: " : "") << refused_line(*loaded.graph, largest, answer.largest.refusal) << " ("
              << range.name << " = " << text::grouped(range.high) << ")\n";
  } else if (!is_silent) {
    print_ranges(range, points, answer, asked.request.budget);
  }
  return solve_exit_code(largest.status);
}

}  // namespace remora::cli
