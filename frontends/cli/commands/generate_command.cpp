// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <iomanip>
#include <iostream>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include <unistd.h>

#include "engine/base/options.hpp"
#include "frontends/cli/commands/command.hpp"
#include "frontends/cli/reading/arguments.hpp"
#include "frontends/cli/reading/graph_source.hpp"
#include "frontends/formats/file.hpp"
#include "frontends/generate/checkmate.hpp"
#include "frontends/generate/layered.hpp"
#include "frontends/generate/option_table.hpp"
#include "frontends/text/text.hpp"
#include "model/error.hpp"

namespace remora::cli {
namespace po = boost::program_options;
using generate::CheckmateOptions;
using generate::generate_checkmate;
using generate::generate_layered;
using generate::kCheckmateTable;
using generate::kLayeredTable;
using generate::LayeredOptions;
namespace {

/// What an option's field holds.
template <class T>
struct Value {
  using Type = T;
};
template <class T>
struct Value<std::optional<T>> {
  using Type = T;
};

template <class Type>
const char* value_name() {
  if (std::is_same_v<Type, std::string>) return "word";
  return std::is_floating_point_v<Type> ? "number" : "integer";
}

std::string default_text(std::int64_t number) {
  return std::to_string(number);
}
std::string default_text(const std::string& word) {
  return word;
}

/// The family's options; parsing sets them in `options`.
template <class Options>
OptionGroup family_options(std::span<const generate::OptionRow<Options>> table, Options& options) {
  OptionGroup group("The graph");
  for (const generate::OptionRow<Options>& row : table) {
    std::visit(
        [&](auto field) {
          using Field = std::remove_reference_t<decltype(options.*field)>;
          using Type = typename Value<Field>::Type;
          auto* value = po::value<Type>()->value_name(value_name<Type>());
          value->notifier([&options, field](const Type& given) { options.*field = given; });
          std::string help = std::string(row.help) + " (" + range_text(row);
          if constexpr (std::is_same_v<Field, Type>) help += "; default " + default_text(options.*field);
          group.add_options()(row.name, value, (help + ")").c_str());
        },
        row.field);
  }
  return group;
}

struct Family {
  const char* name;
  const char* summary;
  int (*run)(const Family&, const Words&);
};

template <class Options, const auto& table, Graph (*make)(const Options&)>
int generate_family(const Family& family, const Words& words) {
  Options options;
  Arguments arguments(std::string("generate ") + family.name, family.summary, {});
  arguments.add(family_options<Options>(table, options));
  arguments.add(graph_output_options());
  if (!arguments.parse(words)) return kSuccess;
  json::check_writable(arguments.output("output"));
  Graph graph;
  try {
    graph = make(options);
  } catch (const InputError& error) {
    // There is no other input than the options.
    throw UsageError(error.what());
  }
  write_graph_output(arguments, graph);
  return kSuccess;
}

constexpr std::array kFamilies{
    Family{"layered", "Random layered graph of Gagrani et al. 2022, of which RL100 to RL1000 are members.",
           generate_family<LayeredOptions, kLayeredTable, generate_layered>},
    Family{"checkmate", "Training step of a network of Jain et al. 2020, at the level of Keras' layers.",
           generate_family<CheckmateOptions, kCheckmateTable, generate_checkmate>}};

void print_help() {
  std::cout << "usage: remora generate FAMILY [options]\n\nWrites a generated graph as remora-graph JSON.\n\n";
  constexpr int kLineLength = 100;
  constexpr int kNames = 12;
  const auto width = static_cast<std::size_t>(text::terminal_width(STDOUT_FILENO, kLineLength));
  for (const Family& family : kFamilies) {
    std::cout << "  " << std::left << std::setw(kNames) << family.name
              << text::wrapped(family.summary, kNames + 2, kNames + 2, width) << "\n";
  }
  std::cout << "\n'remora generate FAMILY --help' shows a family's options.\n";
}

/// The page of all families; a family's own is `remora generate FAMILY --help-man`.
void print_families_man() {
  std::cout << ".TH REMORA\\-generate 1 \"\" \"remora " << version()
            << "\"\n.SH NAME\nremora\\-generate \\- Writes a generated graph as remora-graph JSON.\n"
               ".SH SYNOPSIS\n.B remora generate\nFAMILY [options]\n.SH FAMILIES\n";
  for (const Family& family : kFamilies) {
    std::cout << ".TP\n.BR remora\\-generate\\-" << family.name << " (1)\n" << family.summary << "\n";
  }
  std::cout << ".SH SEE ALSO\n.BR remora (1)\n";
}

}  // namespace

int generate_command(const Words& words) {
  if (words.empty()) throw UsageError("missing FAMILY (see 'remora generate --help')");
  const std::string& name = words.front();
  if (name == "--help" || name == "-h") {
    print_help();
    return kSuccess;
  }
  if (name == "--help-man") {
    print_families_man();
    return kSuccess;
  }
  if (name == "--help-words") {
    for (const Family& family : kFamilies) std::cout << family.name << "\t" << family.summary << "\n";
    return kSuccess;
  }
  for (const Family& family : kFamilies) {
    if (name == family.name) return family.run(family, {words.begin() + 1, words.end()});
  }
  std::vector<std::string> names;
  names.reserve(std::size(kFamilies));
  for (const Family& family : kFamilies) names.emplace_back(family.name);
  const std::string meant = text::nearest(name, names);
  throw UsageError("there is no family '" + name + "'" + (meant.empty() ? "" : "; did you mean " + meant + "?") +
                   " (see 'remora generate --help')");
}

}  // namespace remora::cli
