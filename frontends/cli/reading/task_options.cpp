// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/base/options.hpp"
#include "frontends/batch/manifest.hpp"
#include "frontends/cli/reading/graph_source.hpp"
#include "frontends/cli/reading/solve_options.hpp"
#include "frontends/formats/document.hpp"
#include "frontends/formats/file.hpp"
#include "frontends/text/text.hpp"
#include "model/error.hpp"
#include "model/quote.hpp"

namespace remora::cli {
namespace po = boost::program_options;
namespace fs = std::filesystem;

namespace {

constexpr const char* kBudget = "budget";
constexpr std::array<std::string_view, 3> kFileOptions{"costs", "device", "warm-start"};

template <class List>
bool contains(const List& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

/// Names, and whether they take a value.
std::map<std::string, bool> known_options() {
  std::map<std::string, bool> known;
  for (const OptionGroup& group : {problem_options(false), search_options(), graph_options(), device_options()}) {
    for (const auto& option : group.options()) {
      known.emplace(option->long_name(), option->semantic()->max_tokens() > 0);
    }
  }
  return known;
}

std::vector<std::string> values_of(const po::variable_value& value) {
  if (const auto* list = boost::any_cast<std::vector<std::string>>(&value.value())) return *list;
  if (const auto* number = boost::any_cast<int>(&value.value())) return {std::to_string(*number)};
  if (const auto* number = boost::any_cast<std::int64_t>(&value.value())) return {std::to_string(*number)};
  if (const auto* file = boost::any_cast<InputFile>(&value.value())) return {file->path};
  return {value.as<std::string>()};
}

std::string absolute(const std::string& folder, const std::string& file) {
  return fs::absolute(fs::path(folder) / file).lexically_normal().string();
}

/// The words of a command line that say the same. Throws UsageError for a name that is none.
std::vector<std::string> words_of(const batch::Task& task) {
  const auto known = known_options();
  std::vector<std::string> words{task.graph};
  for (const auto& [name, values] : task.options) {
    const auto at = known.find(name);
    if (at == known.end() || name == kBudget) throw UsageError("$.options: there is no option " + quote(name));
    if (!at->second && values.size() != 1)
      throw UsageError("$.options." + name + ": must be true or false, not a list");
    for (const std::string& value : values) {
      if (at->second) {
        words.push_back(std::string("--").append(name).append("=").append(value));
      } else if (value == "on") {
        words.push_back("--" + name);
      } else if (value != "off") {
        throw UsageError("$.options." + name + ": must be true or false, not " + quote(value));
      }
    }
  }
  return words;
}

/// True if the option's value names a file: a device may be one of the table.
bool names_file(const std::string& option, const std::string& value) {
  return contains(kFileOptions, option) && !(option == "device" && is_known_device(value));
}

/// A file stands for its bytes; the order of a list means nothing.
std::pair<std::string, std::string> setting_of(const batch::TaskOptions::value_type& option) {
  const auto& [name, values] = option;
  if (names_file(name, values.front())) return {name, "sha256:" + text::sha256_hex(json::read_file(values.front()))};
  std::vector<std::string> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  std::string text;
  // With lengths, for a value may hold anything.
  for (const std::string& value : sorted) {
    if (sorted.size() > 1) text.append(text.empty() ? "" : " ").append(std::to_string(value.size())).append(":");
    text.append(value);
  }
  return {name, text};
}

/// Rejects a size given twice: the last value would win, but the key does not say which one that is.
void check_extents(const batch::Task& task) {
  for (const char* option : {"dim", "bound"}) {
    const auto given = task.options.find(option);
    if (given == task.options.end()) continue;
    std::set<std::string> names;
    for (const std::string& value : given->second) {
      if (names.insert(value.substr(0, value.rfind('='))).second) continue;
      throw UsageError(std::string("$.options.") + option + ": " + quote(value) + ": the name is there twice");
    }
  }
}

/// Bytes or a percentage, or bytes for each device: whether it fits the graph is seen when its turn comes.
void check_budget(const std::string& text) {
  if (text.find('=') != std::string::npos) {
    check_device_budgets(text);
  } else {
    read_budget(text, Bytes(0), Bytes(0));
  }
}

/// Throws UsageError for what a solve with these options would refuse before it has seen the graph.
void check(const batch::Task& task) {
  check_extents(task);
  const Arguments arguments = task_arguments(task);
  static_cast<void>(read_request(arguments));
  try {
    check_graph_options(arguments);
  } catch (const InputError&) {
    // A device that cannot be read is the task's error when its turn comes, as a graph is.
  }
}

}  // namespace

void add_task_options(Arguments& arguments) {
  for (const OptionGroup& group : {problem_options(false), search_options(), graph_options(), device_options()}) {
    arguments.add(group);
  }
}

batch::TaskOptions typed_options(const Arguments& arguments) {
  batch::TaskOptions typed;
  for (const auto& [name, takes_value] : known_options()) {
    if (!arguments.has(name) || arguments.values()[name].defaulted()) continue;
    std::vector<std::string> values{"on"};
    if (takes_value) values = values_of(arguments.values()[name]);
    if (names_file(name, values.front())) {
      if (name == "device") static_cast<void>(read_device(values.front()));
      values.front() = absolute("", values.front());
    }
    typed.emplace(name, std::move(values));
  }
  if (arguments.has(kBudget)) check_budget(arguments.get<std::string>(kBudget));
  batch::Task task;
  task.graph = "graph";
  task.options = typed;
  task.options.erase(kBudget);
  check(task);
  return typed;
}

void complete_task(batch::Task& task, const batch::TaskOptions& defaults, const std::string& folder) {
  for (const std::string_view name : kFileOptions) {
    const auto file = task.options.find(std::string(name));
    if (file == task.options.end()) continue;
    std::string& path = file->second.front();
    if (names_file(file->first, path)) path = absolute(folder, path);
  }
  for (const auto& [name, values] : defaults) {
    if (name != kBudget) task.options.emplace(name, values);
    if (name == kBudget && task.budget.empty()) task.budget = values.front();
  }
  if (task.budget.empty()) throw UsageError("$.budget: is missing, and --budget says none either");
  check_budget(task.budget);
  check(task);
}

void note_task_files(const std::vector<batch::Task>& tasks, Files& files) {
  std::set<std::string> noted;
  const auto note = [&](const std::string& path, const batch::Task& task) {
    if (noted.insert(path).second) files.will_read(path, "a file of task " + quote(task.id));
  };
  for (const batch::Task& task : tasks) {
    note(task.graph, task);
    for (const auto& [name, values] : task.options) {
      if (names_file(name, values.front())) note(values.front(), task);
    }
  }
}

Arguments task_arguments(const batch::Task& task) {
  Arguments arguments("solve", "", {{"GRAPH", ""}});
  add_task_options(arguments);
  arguments.parse(words_of(task));
  return arguments;
}

batch::Settings task_settings(const batch::Task& task) {
  const Arguments arguments = task_arguments(task);
  Request request = read_request(arguments);
  batch::Settings settings{{"max_computes", request.max_computes ? std::to_string(*request.max_computes) : "auto"},
                           {"order", order_request_name(order_asked(request))}};
  // Where none are asked for, a result is the same as ever.
  const auto slices = task.options.find("slices");
  if (request.slices.is_allowed) settings.push_back(setting_of(*slices));
  // How fast, not what: a batch may go on with another number.
  request.options.threads = 0;
  for (auto& row : describe_options(request.options)) settings.push_back(std::move(row));
  for (const OptionGroup& group : {graph_options(), device_options()}) {
    for (const auto& option : group.options()) {
      const auto given = task.options.find(option->long_name());
      if (given != task.options.end() && given->second.front() != "off") settings.push_back(setting_of(*given));
    }
  }
  const auto warm_start = task.options.find("warm-start");
  if (warm_start != task.options.end()) settings.push_back(setting_of(*warm_start));
  return settings;
}

namespace {

/// A task for each model or graph of the folder, with the measured costs that stand beside it as NAME.costs.csv.
std::string manifest_of(const fs::path& folder) {
  std::set<fs::path> graphs;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string kind = entry.path().extension().string();
    if (entry.is_regular_file() && (kind == ".onnx" || kind == ".json")) graphs.insert(entry.path().filename());
  }
  std::string text;
  for (const fs::path& graph : graphs) {
    nlohmann::ordered_json task{{"id", graph.string()}, {"graph", graph.string()}};
    const fs::path costs = graph.stem().string() + ".costs.csv";
    if (fs::exists(folder / costs)) task["options"] = {{"costs", costs.string()}};
    text.append(json::dump(task)).append("\n");
  }
  return text;
}

}  // namespace

std::vector<batch::Task> load_manifest(const std::string& path, const batch::TaskOptions& defaults) {
  const bool is_folder = fs::is_directory(path);
  const std::string folder = is_folder ? path : path == "-" ? "" : fs::path(path).parent_path().string();
  batch::Manifest manifest = batch::read_manifest(is_folder ? manifest_of(path) : json::read_file(path), folder,
                                                  [&](batch::Task& task) { complete_task(task, defaults, folder); });
  if (!manifest.faults.empty()) {
    constexpr std::size_t kMaxShown = 20;
    const std::size_t shown = std::min(manifest.faults.size(), kMaxShown);
    const std::string next = "\nremora: " + path + ": ";
    std::string what = manifest.faults.front();
    for (std::size_t i = 1; i < shown; ++i) what += next + manifest.faults[i];
    if (const std::size_t more = manifest.faults.size() - shown; more > 0) {
      what += next + "and " + std::to_string(more) + (more == 1 ? " more such line" : " more such lines");
    }
    throw InputError(path, what);
  }
  if (manifest.tasks.empty()) throw InputError(path, "holds no task");
  return std::move(manifest.tasks);
}

}  // namespace remora::cli
