// SPDX-License-Identifier: Apache-2.0
#include "frontends/bench/markdown.hpp"

#include <algorithm>
#include <iomanip>
#include <map>
#include <set>
#include <sstream>

namespace remora::bench {
namespace {

/// The problem that best-known values are told for.
constexpr int kUsualComputes = 2;
/// Overheads that differ by less are the same (per cent).
constexpr double kSame = 5e-5;

std::string fixed(double value, int digits) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(digits) << value;
  return text.str();
}

/// "**2.2965*** in 1.2 s": bold the row's best, starred what is proved in every run.
std::string cell_text(const Cell& cell, const Row& row) {
  if (cell.runs == 0) return "–";
  if (cell.failed > 0) return "failed";
  if (cell.infeasible == cell.runs) return "infeasible*";
  if (!cell.overhead) return "none";
  const bool best = row.best && *cell.overhead <= *row.best + kSame;
  const std::string mark = best ? "**" : "";
  std::string text = mark + fixed(*cell.overhead, 4) + mark;
  if (cell.proved == cell.runs) text += "\\*";
  text += " in " + fixed(cell.reached, cell.reached < 10 ? 2 : 0) + " s";
  if (cell.schedules < cell.runs) text += ", " + std::to_string(cell.schedules) + "/" + std::to_string(cell.runs);
  return text;
}

std::string best_known_text(const BestKnownTable& table, const Row& row) {
  const BestKnown* known = table.find(row.instance, row.graph_sha256, row.budget, kUsualComputes);
  if (known == nullptr) return "";
  return fixed(percent_more(known->duration, known->baseline_duration), 4) +
         (known->duration == known->lower_bound ? "\\*" : "");
}

/// As short as it is exact: "7.9", "147".
std::string short_text(double value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

/// "22.3 at 36.6 % in 7.9 min (HiRemate)".
std::string reference_text(const Reference& reference) {
  return short_text(reference.overhead) + " at " + short_text(reference.relative_peak) + " % in " +
         short_text(reference.minutes) + " min (" + reference.name + ")";
}

/// "60 s", or "30 to 300 s" where instances differ.
std::string limits_text(const std::set<double>& limits) {
  const std::string most = short_text(*limits.rbegin()) + " s";
  return limits.size() == 1 ? most : short_text(*limits.begin()) + " to " + most;
}

class Page {
 public:
  explicit Page(const PageInput& input) : input_(input) {
    for (const SuiteInstance& instance : input.suite.instances) {
      limits_.insert(instance.time_limit.value_or(input.suite.time_limit));
      if (instance.reference) references_.emplace(instance.name, *instance.reference);
    }
    if (limits_.empty()) limits_.insert(input.suite.time_limit);
  }

  std::string text() {
    const Suite& suite = input_.suite;
    out_ << "# Suite " << suite.name << "\n\n"
         << "Made by\n\n    " << input_.command << "\n\n"
         << limits_text(limits_) << " and " << suite.threads << (suite.threads == 1 ? " thread" : " threads")
         << " a run, one run after the other, pinned to as many cores. " << input_.results.size() << " of "
         << input_.planned << " planned runs have a result.\n\n";
    add_origins();
    add_table();
    add_summary();
    for (const auto& [title, file] : input_.plots) out_ << "\n![" << title << "](" << file << ")\n";
    add_notes();
    return out_.str();
  }

 private:
  void add_origins() {
    std::set<std::string> machines;
    std::set<std::string> versions;
    std::set<std::string> commits;
    std::set<std::string> days;
    for (const Result& result : input_.results) {
      machines.insert(result.machine);
      if (!result.version.empty()) versions.insert(result.version);
      commits.insert(result.commit);
      days.insert(result.when.substr(0, result.when.find('T')));
    }
    add_list("machine", machines);
    add_list("solvers", versions);
    add_list("commits", commits);
    add_list("days", days);
  }

  void add_list(const char* name, const std::set<std::string>& values) {
    out_ << "- " << name << ":";
    const char* separator = " ";
    for (const std::string& value : values) {
      out_ << separator << value;
      separator = ", ";
    }
    out_ << "\n";
  }

  void add_table() {
    add_legend();
    out_ << "| instance | ops | edges | budget |" << (limits_differ() ? " limit |" : "");
    for (const std::string& contender : input_.comparison.contenders) out_ << " " << contender << " |";
    out_ << " bound | best known |" << (references_.empty() ? "" : " reference |") << "\n|";
    const std::size_t columns =
        6 + input_.comparison.contenders.size() + (limits_differ() ? 1 : 0) + (references_.empty() ? 0 : 1);
    for (std::size_t i = 0; i < columns; ++i) out_ << "---|";
    out_ << "\n";
    for (const Row& row : input_.comparison.rows) add_row(row);
  }

  void add_legend() {
    out_ << "\nOverhead in per cent (median over seeds) and when it was reached, by the contender's own clock. Bold: "
            "the best of the row; \\*: "
            "proved in\n"
            "every run, for the problem that the contender solves. *Bound* is the best one of the first contender's "
            "problem.\n";
    if (!references_.empty()) {
      out_ << "*Reference*: overhead in per cent (predicted, as ours), peak in per cent of that without recompute and "
              "minutes to solve, as published.\n"
              "For orientation only: other graphs' granularity, GPU, PyTorch's peak; our budgets are in per cent "
              "of what is above fixed memory.\n";
    }
    out_ << "\n";
  }

  void add_row(const Row& row) {
    out_ << "| " << row.instance << " | " << row.ops << " | " << row.edges << " | " << row.budget << " |";
    if (limits_differ()) out_ << " " << short_text(row.time_limit) << " s |";
    for (const Cell& cell : row.cells) out_ << " " << cell_text(cell, row) << " |";
    out_ << " " << (row.bound && row.best ? fixed(*row.bound, 4) : "") << " | "
         << best_known_text(input_.best_known, row) << " |";
    if (!references_.empty()) {
      const auto at = references_.find(row.instance);
      out_ << " " << (at == references_.end() ? "" : reference_text(at->second)) << " |";
    }
    out_ << "\n";
  }

  void add_summary() {
    out_ << "\n| contender | rows | with a schedule | proved | best of the row | seconds a run, mean "
            "|\n|---|---|---|---|---|---|\n";
    for (std::size_t i = 0; i < input_.comparison.contenders.size(); ++i) {
      int rows = 0;
      int found = 0;
      int proved = 0;
      int best = 0;
      double seconds = 0;
      for (const Row& row : input_.comparison.rows) {
        const Cell& cell = row.cells[i];
        if (cell.runs == 0) continue;
        ++rows;
        found += cell.overhead ? 1 : 0;
        proved += cell.proved + cell.infeasible == cell.runs ? 1 : 0;
        best += cell.overhead && *cell.overhead <= *row.best + kSame ? 1 : 0;
        seconds += cell.seconds;
      }
      out_ << "| " << input_.comparison.contenders[i] << " | " << rows << " | " << found << " | " << proved << " | "
           << best << " | " << fixed(rows > 0 ? seconds / rows : 0, 1) << " |\n";
    }
  }

  void add_notes() {
    for (const auto& [name, reason] : input_.missing) out_ << "\nLeft out: " << name << ", " << reason << "\n";
    for (const Result& result : input_.results) {
      if (result.status != "failed") continue;
      out_ << "\nFailed: " << result.key.instance << " " << result.key.budget << " " << result.key.contender << " seed "
           << result.key.seed << ": " << result.note << "\n";
    }
    for (const std::string& line : contradictions(input_.results)) out_ << "\nContradiction: " << line << "\n";
  }

  [[nodiscard]] bool limits_differ() const { return limits_.size() > 1; }

  const PageInput& input_;
  std::set<double> limits_{};
  std::map<std::string, Reference> references_{};
  std::ostringstream out_{};
};

}  // namespace

std::string markdown_page(const PageInput& input) {
  return Page(input).text();
}

}  // namespace remora::bench
