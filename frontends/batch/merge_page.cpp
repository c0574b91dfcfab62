// SPDX-License-Identifier: Apache-2.0
//
// The page of a batch:
//
//     graph        80%            60%
//     unet.onnx    +1.188 %       +4.578 %, gap 1.2 %
//     vgg.onnx     +0.310 %       infeasible
//
// A row is a graph with its options, where these are not those of every task; a cell has a line for each task.
#include <algorithm>
#include <filesystem>
#include <map>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "frontends/batch/merge.hpp"
#include "frontends/report/markup.hpp"
#include "frontends/report/page.hpp"
#include "frontends/text/text.hpp"

namespace remora::batch {
namespace {

using report::escaped;

/// After the style of reports.
constexpr std::string_view kStyle =
    "main { overflow-x: auto; }\n"
    "tbody th { white-space: nowrap; }\n"
    ".feasible { color: var(--before); }\n"
    ".infeasible, .unknown { color: var(--muted); }\n"
    ".error, .damaged, .missing, .interrupted { color: var(--budget); }\n";

/// "seed=7, strategy=cp".
std::string text_of(const TaskOptions& options) {
  std::string text;
  for (const auto& [name, values] : options) {
    for (const std::string& value : values)
      text.append(text.empty() ? "" : ", ").append(name).append("=").append(value);
  }
  return text;
}

/// Options that every task has, with the same values.
TaskOptions common_options(const std::vector<MergedTask>& tasks) {
  TaskOptions common = tasks.empty() ? TaskOptions{} : tasks.front().task.options;
  for (const MergedTask& merged : tasks) {
    std::erase_if(common, [&](const auto& option) {
      const auto found = merged.task.options.find(option.first);
      return found == merged.task.options.end() || found->second != option.second;
    });
  }
  return common;
}

TaskOptions own_options(const Task& task, const TaskOptions& common) {
  TaskOptions own = task.options;
  std::erase_if(own, [&](const auto& option) { return common.count(option.first) > 0; });
  return own;
}

/// Values in the order in which they came, and the number of each.
template <class Value>
struct Numbered {
  std::vector<Value> values{};

  std::size_t number_of(const Value& value) {
    const auto found = std::find(values.begin(), values.end(), value);
    const auto number = static_cast<std::size_t>(found - values.begin());
    if (found == values.end()) values.push_back(value);
    return number;
  }
};

std::string cell_line(const MergedTask& merged) {
  std::string said = merged.status;
  if (merged.figures) {
    said = "+" + text::percent_text(merged.figures->overhead, 3);
    if (merged.status != "optimal") said += ", gap " + text::percent_text(merged.figures->gap, 1);
  }
  std::string title = merged.task.id + ": " + merged.status;
  if (merged.record) title += ", " + text::fixed(merged.record->seconds, 2) + " s";
  if (!merged.message.empty()) title += ": " + merged.message;
  return "<div class=\"" + escaped(merged.status) + "\" title=\"" + escaped(text::visible(title)) + "\">" + said +
         "</div>";
}

/// The table, and what every task of it shares.
std::string table_of(const std::vector<MergedTask>& tasks) {
  const TaskOptions common = common_options(tasks);
  Numbered<std::pair<std::string, std::string>> rows;
  Numbered<std::string> budgets;
  std::map<std::pair<std::size_t, std::size_t>, std::string> cells;
  for (const MergedTask& merged : tasks) {
    const std::size_t row = rows.number_of({merged.task.graph, text_of(own_options(merged.task, common))});
    cells[{row, budgets.number_of(merged.task.budget)}] += cell_line(merged);
  }
  std::string out = "<table><thead><tr><th>graph</th>";
  for (const std::string& budget : budgets.values) out += "<th>" + escaped(budget) + "</th>";
  out += "</tr></thead><tbody>\n";
  for (std::size_t row = 0; row < rows.values.size(); ++row) {
    const auto& [graph, options] = rows.values[row];
    out += "<tr><th title=\"" + escaped(graph) + "\">" + escaped(std::filesystem::path(graph).filename().string());
    if (!options.empty()) out += "<br><span class=\"hint\">" + escaped(options) + "</span>";
    out += "</th>";
    for (std::size_t column = 0; column < budgets.values.size(); ++column) {
      const auto found = cells.find({row, column});
      out += "<td>" + (found == cells.end() ? "" : found->second) + "</td>";
    }
    out += "</tr>\n";
  }
  out += "</tbody></table>\n";
  if (!common.empty()) out += "<p class=\"hint\">Every task: " + escaped(text_of(common)) + "</p>\n";
  return out;
}

std::string reasons_of(const Merged& merged) {
  std::string out;
  for (const MergedTask& task : merged.tasks) {
    if (!task.is_missing() && !task.has_failed()) continue;
    out += "<tr><th>" + escaped(text::visible(task.task.id)) + "</th><td class=\"" + escaped(task.status) + "\">" +
           escaped(task.status) + "</td><td>" + escaped(text::visible(task.message)) + "</td></tr>\n";
  }
  if (out.empty()) return out;
  return "<section><h2>Without a "
         "result</h2><table><thead><tr><th>task</th><th>status</th><th>why</th></tr></thead><tbody>\n" +
         out + "</tbody></table></section>\n";
}

}  // namespace

void write_page(std::ostream& out, const Merged& merged) {
  const std::string style = std::string(report::kPageStyle) + std::string(kStyle);
  std::string page;
  report::append_head(page, {.title = "Remora batch", .style = style});
  page += "<header><h1>A batch of " + std::to_string(merged.tasks.size()) + " tasks</h1><p class=\"subtitle\">";
  for (const auto& [status, count] : merged.counts)
    page += std::to_string(count) + " " + escaped(status) + " &middot; ";
  page += text::fixed(merged.seconds, 2) +
          " s of solving</p></header>\n<main><section>"
          "<p class=\"lead\">More time than without recompute, for each graph and budget; how far from optimal a "
          "schedule may "
          "be, where that is not proved.</p>\n";
  page += table_of(merged.tasks);
  page += "</section>\n" + reasons_of(merged) + "</main>\n</body>\n</html>\n";
  out << page;
}

}  // namespace remora::batch
