// SPDX-License-Identifier: Apache-2.0
#include "frontends/batch/merge.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <iomanip>
#include <ostream>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include "frontends/batch/question.hpp"
#include "frontends/formats/json_text.hpp"
#include "frontends/text/text.hpp"
#include "model/error.hpp"
#include "model/quote.hpp"

namespace remora::batch {
namespace {

class Merger {
 public:
  Merger(const Store& store, Solver& solver, const RecordCheck& check)
      : store_(store), asking_(solver), check_(check) {}

  MergedTask look_up(const Task& task) {
    MergedTask merged{.task = task, .status = "missing"};
    std::string unreadable;
    try {
      merged.key = key_of(asking_.question_of(task));
    } catch (const std::exception& error) {
      unreadable = error.what();
    }
    if (!merged.key.empty() && take_record(merged)) return merged;
    if (take_error(merged)) return merged;
    if (!merged.key.empty() && store_.is_begun(merged.key)) {
      merged.message = "being solved now, or its run was killed";
    } else {
      merged.message = unreadable;
    }
    return merged;
  }

 private:
  /// Returns true if there is a record, even a damaged one.
  bool take_record(MergedTask& merged) const {
    try {
      merged.record = store_.result(merged.key);
      if (!merged.record) merged.record = store_.partial(merged.key);
      if (!merged.record) return false;
      merged.status = merged.record->status;
      if (merged.has_schedule()) merged.figures = read_figures(merged.record->schedule);
      if (check_) merged.message = check_(merged.task, *merged.record);
    } catch (const std::exception& error) {
      merged.message = error.what();
    }
    if (!merged.message.empty()) {
      merged.status = "damaged";
      merged.figures.reset();
    }
    return true;
  }

  /// Returns true if there is an error, even a damaged one.
  bool take_error(MergedTask& merged) const {
    try {
      const std::optional<TaskError> error = store_.error(merged.task);
      if (!error) return false;
      merged.message = error->message;
    } catch (const std::exception& error) {
      merged.message = error.what();
    }
    merged.status = "error";
    return true;
  }

  const Store& store_;
  Asking asking_;
  const RecordCheck& check_;
};

template <class Value>
std::vector<double> values_of(const std::vector<MergedTask>& tasks, const Value& value) {
  std::vector<double> values;
  for (const MergedTask& task : tasks) {
    if (task.figures) values.push_back(value(*task.figures));
  }
  return values;
}

}  // namespace

std::optional<Spread> spread_of(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  const auto quantile = [&](double part) {
    const double place = part * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::size_t>(std::floor(place));
    const std::size_t above = std::min(below + 1, values.size() - 1);
    return std::lerp(values[below], values[above], place - static_cast<double>(below));
  };
  return Spread{quantile(0), quantile(0.25), quantile(0.5), quantile(0.75), quantile(1)};
}

std::size_t Merged::missing() const {
  return static_cast<std::size_t>(
      std::count_if(tasks.begin(), tasks.end(), [](const MergedTask& task) { return task.is_missing(); }));
}

std::size_t Merged::failed() const {
  return static_cast<std::size_t>(
      std::count_if(tasks.begin(), tasks.end(), [](const MergedTask& task) { return task.has_failed(); }));
}

Merged merge(const std::vector<Task>& tasks, const Store& store, Solver& solver, const RecordCheck& check) {
  Merger merger(store, solver, check);
  Merged merged;
  std::set<std::string> keys;
  merged.tasks.reserve(tasks.size());
  for (const Task& task : tasks) {
    const MergedTask& last = merged.tasks.emplace_back(merger.look_up(task));
    ++merged.counts[last.status];
    const bool is_new = !last.key.empty() && keys.insert(last.key).second;
    if (last.record && is_new) merged.seconds += last.record->seconds;
  }
  for (const std::string& key : store.result_keys()) ++(keys.count(key) > 0 ? merged.results : merged.other_results);
  merged.overhead = spread_of(values_of(merged.tasks, [](const Figures& figures) { return figures.overhead; }));
  merged.gap = spread_of(values_of(merged.tasks, [](const Figures& figures) { return figures.gap; }));
  return merged;
}

namespace {

constexpr double kPercent = 100;
constexpr std::size_t kNarrowestId = 4;
constexpr std::size_t kWidestId = 60;

/// Prints the rows of a wide table; a narrow one leaves peaks and seconds out.
void print_rows(std::ostream& out, const std::vector<MergedTask>& tasks, bool is_wide) {
  constexpr std::size_t kWidestOfNarrow = 25;
  const std::size_t widest = is_wide ? kWidestId : kWidestOfNarrow;
  std::size_t width = kNarrowestId;
  for (const MergedTask& task : tasks) width = std::max(width, std::min(widest, printable(task.task.id).size()));
  const auto id_width = static_cast<int>(width);
  out << std::left << std::setw(id_width) << "task"
      << "  " << std::setw(11) << "status" << std::right << std::setw(11) << "overhead %" << std::setw(9) << "gap %";
  if (is_wide) out << std::setw(18) << "peak bytes" << std::setw(10) << "seconds";
  out << "\n";
  for (const MergedTask& task : tasks) {
    std::string id = printable(task.task.id);
    if (!is_wide && id.size() > widest) id = id.substr(0, widest - 3) + "...";
    out << std::left << std::setw(id_width) << id << "  " << std::setw(11) << task.status << std::right;
    out << std::setw(11) << (task.figures ? text::fixed(kPercent * task.figures->overhead, 3) : "") << std::setw(9)
        << (task.figures ? text::fixed(kPercent * task.figures->gap, 3) : "");
    if (is_wide) {
      out << std::setw(18) << (task.figures ? printable(amounts_text(task.figures->peak_memory)) : "") << std::setw(10)
          << (task.record ? text::fixed(task.record->seconds, 2) : "");
    }
    out << "\n";
  }
}

void print_spread(std::ostream& out, const char* name, const std::optional<Spread>& spread) {
  if (!spread) return;
  out << name;
  const std::array<std::pair<const char*, double>, 5> parts{{{"minimum ", spread->least},
                                                             {", quartiles ", spread->lower},
                                                             {" ", spread->median},
                                                             {" ", spread->upper},
                                                             {", maximum ", spread->most}}};
  for (const auto& [word, value] : parts) out << word << text::fixed(kPercent * value, 3);
  out << "\n";
}

void print_reasons(std::ostream& out, const Merged& merged) {
  for (const MergedTask& task : merged.tasks) {
    if (!task.is_missing() && !task.has_failed()) continue;
    out << std::left << std::setw(11) << task.status << " " << printable(task.task.id);
    if (!task.message.empty()) out << ": " << text::visible(task.message);
    out << "\n";
  }
}

void write_spread(json::ObjectText& object, std::string& out, const char* name, const std::optional<Spread>& spread) {
  if (!spread) return;
  object.key(name);
  json::ObjectText parts(out);
  parts.number("least", spread->least);
  parts.number("lower_quartile", spread->lower);
  parts.number("median", spread->median);
  parts.number("upper_quartile", spread->upper);
  parts.number("most", spread->most);
  parts.close();
}

void write_task(std::string& out, const MergedTask& task) {
  json::ObjectText object(out);
  object.string("id", task.task.id);
  object.string("graph", task.task.graph);
  object.string("budget", task.task.budget);
  object.string("status", task.status);
  if (!task.key.empty()) object.string("key", task.key);
  if (task.figures) {
    object.key("budget_bytes");
    append_amounts(out, task.figures->budget);
    object.integer("duration", task.figures->duration);
    object.integer("lower_bound", task.figures->lower_bound);
    if (task.figures->energy > 0) object.integer("energy", task.figures->energy);
    object.key("peak_memory");
    append_amounts(out, task.figures->peak_memory);
    object.number("overhead", task.figures->overhead);
    object.number("gap", task.figures->gap);
  }
  if (task.record) {
    object.number("seconds", task.record->seconds);
    object.integer("runs", task.record->runs);
  }
  if (!task.message.empty()) object.string("message", utf8_text(task.message));
  object.close();
}

}  // namespace

void print_merged(std::ostream& stream, const Merged& merged, int columns) {
  constexpr int kWide = 80;
  constexpr std::size_t kWord = 12;
  print_rows(stream, merged.tasks, columns >= kWide);
  std::ostringstream out;
  out << "\ntasks       " << merged.tasks.size();
  const char* separator = ": ";
  for (const auto& [status, count] : merged.counts) {
    out << separator << count << " " << status;
    separator = ", ";
  }
  out << "\nresults     " << merged.results;
  if (merged.other_results > 0) out << ", and " << merged.other_results << " of other tasks";
  out << "\n";
  print_spread(out, "overhead %  ", merged.overhead);
  print_spread(out, "gap %       ", merged.gap);
  out << "seconds     " << text::fixed(merged.seconds, 2) << " of solving\n";
  out << "missing     " << merged.missing() << "\n";
  print_reasons(out, merged);
  stream << text::wrapped_lines(out.str(), kWord, columns);
}

void write_csv(std::ostream& out, const Merged& merged) {
  out << "id,graph,budget,status,overhead,gap,duration,lower_bound,peak_memory,budget_bytes,seconds,runs,key,message\n";
  for (const MergedTask& task : merged.tasks) {
    out << text::csv_field(task.task.id) << "," << text::csv_field(task.task.graph) << ","
        << text::csv_field(task.task.budget) << "," << task.status << ",";
    if (task.figures) {
      out << json::number_text(task.figures->overhead) << "," << json::number_text(task.figures->gap) << ","
          << task.figures->duration << "," << task.figures->lower_bound << ","
          << text::csv_field(amounts_text(task.figures->peak_memory)) << ","
          << text::csv_field(amounts_text(task.figures->budget)) << ",";
    } else {
      out << ",,,,,,";
    }
    if (task.record) out << json::number_text(task.record->seconds) << "," << task.record->runs << ",";
    if (!task.record) out << ",,";
    out << task.key << "," << text::csv_field(task.message) << "\n";
  }
}

void write_summary(std::ostream& out, const Merged& merged) {
  std::string text;
  json::ObjectText object(text, ",\n  ");
  object.string("format", "remora-batch-summary");
  object.integer("version", 1);
  object.key("counts");
  json::ObjectText counts(text);
  for (const auto& [status, count] : merged.counts) counts.integer(status, static_cast<std::int64_t>(count));
  counts.close();
  object.integer("results", static_cast<std::int64_t>(merged.results));
  object.integer("other_results", static_cast<std::int64_t>(merged.other_results));
  write_spread(object, text, "overhead", merged.overhead);
  write_spread(object, text, "gap", merged.gap);
  object.number("seconds", merged.seconds);
  std::vector<std::string> missing;
  for (const MergedTask& task : merged.tasks) {
    if (task.is_missing()) missing.push_back(task.task.id);
  }
  object.names("missing", missing, [](const std::string& id) -> const std::string& { return id; });
  object.key("tasks");
  json::append_lines(text, 2, merged.tasks.size(), [&](std::size_t i) { write_task(text, merged.tasks[i]); });
  object.close();
  out << text << "\n";
}

}  // namespace remora::batch
