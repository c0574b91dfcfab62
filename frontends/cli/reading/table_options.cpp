// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/reading/table_options.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>

namespace remora::cli {
namespace po = boost::program_options;
namespace {

std::vector<OptionRow> rows_named(std::span<const std::string_view> names) {
  std::vector<OptionRow> rows = option_rows();
  std::erase_if(rows,
                [&](const OptionRow& row) { return std::find(names.begin(), names.end(), row.name) == names.end(); });
  return rows;
}

}  // namespace

void add_grouping(OptionGroup& group) {
  group.add_options()(
      "grouping", po::value<std::string>()->default_value(grouping_name(SolveOptions{}.grouping))->value_name("NAME"),
      "hierarchy: how groups are found: h-partition (HiRemate), chain (Rockmate's blocks), intervals "
      "of the input order");
}

Grouping grouping_of(const Arguments& arguments) {
  return grouping_from_name(arguments.get<std::string>("grouping"));
}

void add_table_options(OptionGroup& group, const std::vector<OptionRow>& rows) {
  for (const OptionRow& row : rows) {
    const std::string range = row.range.empty() ? "" : row.range + ", ";
    const std::string help = std::string(row.help) + " (" + range + "default " + row.initial + ")";
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
  return rows_named(std::array<std::string_view, 3>{"group_size", "top_size", "group_alpha"});
}

std::vector<OptionRow> limit_rows() {
  return rows_named(std::array<std::string_view, 4>{"time_limit", "work_limit", "threads", "seed"});
}

void lift_time_limit(const Arguments& arguments, SolveOptions& options) {
  if (arguments.has("work-limit") && !arguments.has("time-limit")) options.time_limit = kNoTimeLimit;
}

}  // namespace remora::cli
