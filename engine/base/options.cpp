// SPDX-License-Identifier: Apache-2.0
#include "engine/base/options.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <concepts>
#include <limits>
#include <string_view>
#include <system_error>

#include "model/error.hpp"

namespace remora {
namespace {

template <class T>
const char* type_name() {
  if constexpr (std::same_as<T, bool>) return "on|off";
  if constexpr (std::floating_point<T>) return "number";
  return "integer";
}

template <class T>
std::string text_of(T value) {
  if constexpr (std::same_as<T, bool>) {
    return value ? "on" : "off";
  } else {
    std::array<char, 64> buffer{};
    const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
    return {buffer.data(), end};
  }
}

/// "time_limit" -> "--time-limit", as the command line spells it.
std::string dashed_option(const std::string& name) {
  std::string dashed = "--" + name;
  std::replace(dashed.begin(), dashed.end(), '_', '-');
  return dashed;
}

/// `is_part`: of a whole, which may be said in per cent.
template <class T>
T parse(const std::string& name, const std::string& text, bool is_part) {
  if constexpr (std::same_as<T, bool>) {
    if (text == "on") return true;
    if (text == "off") return false;
    throw InputError(dashed_option(name), "expected on or off, got '" + text + "'");
  } else {
    T value{};
    const bool in_percent = is_part && text.ends_with('%');
    const char* last = text.data() + text.size() - (in_percent ? 1 : 0);
    const auto [end, error] = std::from_chars(text.data(), last, value);
    if (error != std::errc() || end != last) {
      throw InputError(
          dashed_option(name),
          std::string("expected a") + (std::floating_point<T> ? " number" : "n integer") + ", got '" + text + "'");
    }
    return in_percent ? value / 100 : value;
  }
}

template <class T>
void check_range(const char* name, T value, T least, T most) {
  // Written so that NaN fails too.
  if (value >= least && value <= most) return;
  throw InputError(dashed_option(name), text_of(value) + " is outside " + text_of(least) + " to " + text_of(most));
}

/// "0 to 1024", "at least 0", or "" where the type says it all.
template <class T>
std::string range_text(T least, T most) {
  if constexpr (std::same_as<T, bool>) return "";
  if (most == std::numeric_limits<T>::max() || static_cast<double>(most) >= 1e9) return "at least " + text_of(least);
  return text_of(least) + " to " + text_of(most);
}

/// What an enumeration's values are called.
template <class Value>
struct Name {
  Value value;
  const char* name;
};
constexpr std::array kStrategies{Name<Strategy>{Strategy::automatic, "auto"},
                                 Name<Strategy>{Strategy::cp, "cp"},
                                 Name<Strategy>{Strategy::complete, "complete"},
                                 Name<Strategy>{Strategy::lns, "lns"},
                                 Name<Strategy>{Strategy::local, "local"},
                                 Name<Strategy>{Strategy::ruin, "ruin"},
                                 Name<Strategy>{Strategy::anneal, "anneal"},
                                 Name<Strategy>{Strategy::hierarchical, "hierarchical"},
                                 Name<Strategy>{Strategy::none, "none"},
                                 Name<Strategy>{Strategy::greedy, "greedy"},
                                 Name<Strategy>{Strategy::sqrt, "sqrt"},
                                 Name<Strategy>{Strategy::rotor, "rotor"},
                                 Name<Strategy>{Strategy::twremat, "twremat"},
                                 Name<Strategy>{Strategy::checkmate, "checkmate"},
                                 Name<Strategy>{Strategy::checkmate_lp, "checkmate-lp"}};
constexpr std::array kGroupings{Name<Grouping>{Grouping::h_partition, "h-partition"},
                                Name<Grouping>{Grouping::chain, "chain"},
                                Name<Grouping>{Grouping::intervals, "intervals"}};

template <class Names, class Value>
const char* name_in(const Names& names, Value value) {
  for (const auto& row : names) {
    if (row.value == value) return row.name;
  }
  return "";
}

template <class Names>
std::string listed(const Names& names) {
  std::string text;
  for (const auto& row : names) text.append(text.empty() ? "" : ", ").append(row.name);
  return text;
}

template <class Names>
auto value_in(const Names& names, const char* option, const std::string& name) {
  for (const auto& row : names) {
    if (name == row.name) return row.value;
  }
  throw InputError(option, "'" + name + "' is not one of " + listed(names));
}

}  // namespace

const char* version() {
  return REMORA_VERSION;
}

Problem default_problem(Strategy strategy) {
  constexpr int kManyComputes = static_cast<int>(kComputesWithin64Bits);
  if (strategy == Strategy::twremat) return {.max_computes = kManyComputes, .order = OrderMode::free};
  if (strategy == Strategy::rotor) return {.max_computes = kManyComputes};
  return {};
}

std::vector<OptionRow> option_rows() {
  std::vector<OptionRow> rows;
#define REMORA_OPTION(type, name, reader, initial, least, most, help) \
  rows.push_back(                                                     \
      {#name, type_name<type>(), text_of<type>(initial), range_text<type>(least, most), help, Reader::reader});
#include "engine/base/options.def"
#undef REMORA_OPTION
  return rows;
}

std::string option_name(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

void set_option(SolveOptions& options, const std::string& name, const std::string& text) {
  const std::string option = option_name(name);
  if (option == "strategy") {
    options.strategy = strategy_from_name(text);
    return;
  }
  if (option == "grouping") {
    options.grouping = grouping_from_name(text);
    return;
  }
#define REMORA_OPTION(type, name, reader, initial, least, most, help)           \
  if (option == #name) {                                                        \
    options.name = parse<type>(option, text, std::string_view(#most) == "1.0"); \
    return;                                                                     \
  }
#include "engine/base/options.def"
#undef REMORA_OPTION
  throw InputError(dashed_option(option), "there is no such option");
}

void check_options(const SolveOptions& options) {
#define REMORA_OPTION(type, name, reader, initial, least, most, help) \
  check_range<type>(#name, options.name, least, most);
#include "engine/base/options.def"
#undef REMORA_OPTION
}

std::vector<std::pair<std::string, std::string>> describe_options(const SolveOptions& options) {
  std::vector<std::pair<std::string, std::string>> rows{{"strategy", strategy_name(options.strategy)},
                                                        {"grouping", grouping_name(options.grouping)}};
#define REMORA_OPTION(type, name, reader, initial, least, most, help) \
  rows.emplace_back(#name, text_of<type>(options.name));
#include "engine/base/options.def"
#undef REMORA_OPTION
  return rows;
}

const char* strategy_name(Strategy strategy) {
  return name_in(kStrategies, strategy);
}

Strategy strategy_from_name(const std::string& name) {
  return value_in(kStrategies, "--strategy", name);
}

std::string strategy_names() {
  return listed(kStrategies);
}

const char* grouping_name(Grouping grouping) {
  return name_in(kGroupings, grouping);
}

Grouping grouping_from_name(const std::string& name) {
  return value_in(kGroupings, "--grouping", name);
}

}  // namespace remora
