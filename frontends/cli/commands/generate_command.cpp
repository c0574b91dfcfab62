// SPDX-License-Identifier: Apache-2.0
#include <iostream>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>

#include "frontends/cli/commands/command.hpp"
#include "frontends/cli/reading/arguments.hpp"
#include "frontends/cli/reading/graph_source.hpp"
#include "frontends/formats/file.hpp"
#include "frontends/generate/layered.hpp"
#include "model/error.hpp"

namespace remora::cli {
namespace po = boost::program_options;
using generate::generate_layered;
using generate::LayeredOptions;
namespace {

/// The type of an option's field.
template <class T>
struct Value {
  using Type = T;
};
template <class T>
struct Value<std::optional<T>> {
  using Type = T;
};

/// The options; parsing sets them in `options`.
OptionGroup layered_options(LayeredOptions& options) {
  OptionGroup group("The graph");
  for (const generate::LayeredOption& row : generate::kLayeredTable) {
    const auto add = [&](auto field) {
      using Field = std::remove_reference_t<decltype(options.*field)>;
      using Type = typename Value<Field>::Type;
      auto* value = po::value<Type>()->value_name(std::is_floating_point_v<Type> ? "number" : "integer");
      value->notifier([&options, field](const Type& given) { options.*field = given; });
      std::string help = std::string(row.help) + " (" + std::to_string(row.least) + " to " + std::to_string(row.most);
      if constexpr (std::is_same_v<Field, Type>) help += "; default " + std::to_string(options.*field);
      group.add_options()(row.name, value, (help + ")").c_str());
    };
    std::visit(add, row.field);
  }
  return group;
}

}  // namespace

int generate_command(const Words& words) {
  constexpr const char* kFamily = "layered";
  constexpr const char* kSummary = "Random layered graph of Gagrani et al. 2022, of which RL100 to RL1000 are members.";
  const std::string first = words.empty() ? "" : words.front();
  if (first == "--help-words") {
    std::cout << kFamily << "\t" << kSummary << "\n";
    return kSuccess;
  }
  const bool asks = first == "-h" || first.starts_with("--help");
  if (!asks && first != kFamily) {
    throw UsageError("there is one family of graphs: 'remora generate layered' (see 'remora generate --help')");
  }
  LayeredOptions options;
  Arguments arguments("generate layered", kSummary, {});
  arguments.add(layered_options(options));
  arguments.add(graph_output_options());
  if (!arguments.parse({words.begin() + (asks ? 0 : 1), words.end()})) return kSuccess;
  json::check_writable(arguments.output("output"));
  Graph graph;
  try {
    graph = generate_layered(options);
  } catch (const InputError& error) {
    // There is no other input than the options.
    throw UsageError(spelled(error));
  }
  write_graph_output(arguments, graph);
  return kSuccess;
}

}  // namespace remora::cli
