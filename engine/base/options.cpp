// SPDX-License-Identifier: Apache-2.0
#include "engine/base/options.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <concepts>
#include <limits>
#include <system_error>
#include <type_traits>

#include "model/error.hpp"

namespace remora {
namespace {

/// Names of the values of an enumeration.
template <class Value>
struct Name {
  Value value;
  const char* name;
};
constexpr std::array kStrategies{
    Name<Strategy>{Strategy::automatic, "auto"}, Name<Strategy>{Strategy::cp, "cp"},
    Name<Strategy>{Strategy::none, "none"},      Name<Strategy>{Strategy::greedy, "greedy"},
    Name<Strategy>{Strategy::sqrt, "sqrt"},      Name<Strategy>{Strategy::rotor, "rotor"}};
constexpr std::array kWorkers{Name<Workers>{Workers::all, "all"},   Name<Workers>{Workers::complete, "complete"},
                              Name<Workers>{Workers::lns, "lns"},   Name<Workers>{Workers::local, "local"},
                              Name<Workers>{Workers::ruin, "ruin"}, Name<Workers>{Workers::anneal, "anneal"}};
constexpr std::array kGroupStarts{Name<GroupStart>{GroupStart::automatic, "auto"},
                                  Name<GroupStart>{GroupStart::on, "on"}, Name<GroupStart>{GroupStart::off, "off"}};
constexpr std::array kCoverings{Name<Covering>{Covering::off, "off"}, Name<Covering>{Covering::lp, "lp"},
                                Name<Covering>{Covering::on, "on"}};
constexpr std::array kIntegerSolvers{Name<IntegerSolver>{IntegerSolver::highs, "highs"},
                                     Name<IntegerSolver>{IntegerSolver::cbc, "cbc"},
                                     Name<IntegerSolver>{IntegerSolver::off, "off"}};

constexpr const auto& names_of(Strategy) {
  return kStrategies;
}
constexpr const auto& names_of(Workers) {
  return kWorkers;
}
constexpr const auto& names_of(GroupStart) {
  return kGroupStarts;
}
constexpr const auto& names_of(Covering) {
  return kCoverings;
}
constexpr const auto& names_of(IntegerSolver) {
  return kIntegerSolvers;
}

template <class Value>
const char* name_in(Value value) {
  for (const auto& row : names_of(value)) {
    if (row.value == value) return row.name;
  }
  return "";
}

template <class Value>
std::string listed(const char* separator) {
  std::string text;
  for (const auto& row : names_of(Value{})) text.append(text.empty() ? "" : separator).append(row.name);
  return text;
}

struct Inference {
  const char* name;
  bool SolveOptions::*field;
  const char* help;
};
constexpr std::array kInferences{
#define REMORA_INFERENCE(name, help) Inference{#name, &SolveOptions::name, help},
#include "engine/base/options.def"
};
constexpr const char* kWithout = "without";
constexpr const char* kNothing = "nothing";

/// "time_limit" -> "time-limit".
std::string dashed(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

template <class T>
std::string type_name() {
  if constexpr (std::is_enum_v<T>) return listed<T>("|");
  if constexpr (std::floating_point<T>) return "number";
  return "integer";
}

template <class T>
std::string text_of(T value) {
  if constexpr (std::is_enum_v<T>) {
    return name_in(value);
  } else {
    std::array<char, 64> buffer{};
    const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
    return {buffer.data(), end};
  }
}

template <class T>
T choice(const std::string& name, const std::string& text) {
  for (const auto& row : names_of(T{})) {
    if (text == row.name) return row.value;
  }
  throw InputError::of_option(name, "'" + text + "' is not one of " + listed<T>(", "));
}

/// The unit of an option's amount.
enum class Measure : std::uint8_t {
  count,
  seconds,
  part,  ///< of a whole: may be said in per cent
};

template <class T>
T number(const std::string& name, const std::string& text, Measure unit) {
  T value{};
  const bool in_percent = unit == Measure::part && text.ends_with('%');
  const char* last = text.data() + text.size() - (in_percent ? 1 : 0);
  const auto [end, error] = std::from_chars(text.data(), last, value);
  if (error != std::errc() || end != last) {
    throw InputError::of_option(
        name, std::string("expected a") + (std::floating_point<T> ? " number" : "n integer") + ", got '" + text + "'");
  }
  return in_percent ? value / 100 : value;
}

void set_without(SolveOptions& options, const std::string& text) {
  for (const Inference& inference : kInferences) options.*inference.field = true;
  if (text == kNothing) return;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string name = text.substr(begin, end - begin);
    const auto* const found = std::find_if(kInferences.begin(), kInferences.end(), [&](const Inference& inference) {
      return option_name(name) == inference.name;
    });
    if (found == kInferences.end()) {
      std::string what = "'" + name + "' is not one of ";
      for (const Inference& inference : kInferences)
        what.append(&inference == kInferences.data() ? "" : ", ").append(dashed(inference.name));
      throw InputError::of_option(kWithout, what);
    }
    options.*found->field = false;
    begin = end + 1;
  }
}

std::string without_text(const SolveOptions& options) {
  std::string text;
  for (const Inference& inference : kInferences) {
    if (!(options.*inference.field)) text.append(text.empty() ? "" : ",").append(dashed(inference.name));
  }
  return text.empty() ? kNothing : text;
}

std::string without_help() {
  std::string help = "inferences and starts to leave out, for study, separated by commas: ";
  for (const Inference& inference : kInferences) {
    help.append(&inference == kInferences.data() ? "" : "; ").append(dashed(inference.name));
    help.append(" (").append(inference.help).append(")");
  }
  return help;
}

template <class T>
void check_range(const char* name, T value, T least, T most) {
  // Written so that NaN fails too.
  if (value >= least && value <= most) return;
  throw InputError::of_option(name, text_of(value) + " is outside " + text_of(least) + " to " + text_of(most));
}

/// "0 to 1024", "at least 0".
template <class T>
std::string range_text(T least, T most) {
  if (most == std::numeric_limits<T>::max() || static_cast<double>(most) >= 1e9) return "at least " + text_of(least);
  return text_of(least) + " to " + text_of(most);
}

}  // namespace

int default_computes(Strategy strategy) {
  return strategy == Strategy::rotor ? static_cast<int>(kComputesWithin64Bits) : Problem().max_computes;
}

std::vector<OptionRow> option_rows() {
  std::vector<OptionRow> rows;
#define REMORA_CHOICE(type, name, reader, initial, help) \
  rows.push_back({#name, type_name<type>(), text_of(type::initial), "", help, Reader::reader});
#define REMORA_OPTION(type, name, reader, initial, least, most, unit, help) \
  rows.push_back(                                                           \
      {#name, type_name<type>(), text_of<type>(initial), range_text<type>(least, most), help, Reader::reader});
#include "engine/base/options.def"
  rows.push_back({kWithout, "NAME,...", kNothing, "", without_help(), Reader::expert});
  return rows;
}

std::string option_name(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

void set_option(SolveOptions& options, const std::string& name, const std::string& text) {
  const std::string option = option_name(name);
#define REMORA_CHOICE(type, name, reader, initial, help) \
  if (option == #name) {                                 \
    options.name = choice<type>(option, text);           \
    return;                                              \
  }
#define REMORA_OPTION(type, name, reader, initial, least, most, unit, help) \
  if (option == #name) {                                                    \
    options.name = number<type>(option, text, Measure::unit);               \
    return;                                                                 \
  }
#include "engine/base/options.def"
  if (option == kWithout) return set_without(options, text);
  throw InputError::of_option(option, "there is no such option");
}

void check_options(const SolveOptions& options) {
#define REMORA_OPTION(type, name, reader, initial, least, most, unit, help) \
  check_range<type>(#name, options.name, least, most);
#include "engine/base/options.def"
  const auto refuse = [&](const char* name, const std::string& value) {
    const std::string strategy = strategy_name(options.strategy);
    throw InputError::of_option(name, value + ": the strategy " + strategy + " takes no notice of it");
  };
  if (options.workers != Workers::all && options.strategy != Strategy::automatic)
    refuse("workers", text_of(options.workers));
  const bool searches = options.strategy == Strategy::automatic || options.strategy == Strategy::cp;
  if (options.groups == GroupStart::on && !searches) refuse("groups", text_of(options.groups));
}

std::vector<std::pair<std::string, std::string>> describe_options(const SolveOptions& options) {
  std::vector<std::pair<std::string, std::string>> rows;
#define REMORA_CHOICE(type, name, reader, initial, help) rows.emplace_back(#name, text_of(options.name));
#define REMORA_OPTION(type, name, reader, initial, least, most, unit, help) \
  rows.emplace_back(#name, text_of<type>(options.name));
#include "engine/base/options.def"
  rows.emplace_back(kWithout, without_text(options));
  return rows;
}

const char* strategy_name(Strategy strategy) {
  return name_in(strategy);
}

std::string strategy_names() {
  return listed<Strategy>(", ");
}

}  // namespace remora
