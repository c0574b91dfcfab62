// SPDX-License-Identifier: Apache-2.0
#include "examples/zoo/command_line.hpp"

#include <algorithm>
#include <optional>
#include <ostream>
#include <vector>

#include <boost/program_options.hpp>

#include "examples/zoo/architecture.hpp"
#include "examples/zoo/text.hpp"
#include "frontends/formats/file.hpp"

namespace remora::zoo {

namespace {

namespace po = boost::program_options;

constexpr unsigned kHelpWidth = 120;

Parameter batch_parameter() {
  return {"batch", Range{1, 1, 1000000}, "samples in a batch"};
}

po::options_description general_options() {
  po::options_description options("Options of all architectures", kHelpWidth);
  options.add_options()("help,h", "show this help; after an architecture, that architecture's options");
  options.add_options()("list,l", "list the architectures, one per line");
  options.add_options()("output,o", po::value<std::string>()->value_name("FILE"),
                        "where to write; - is standard output, the default ARCHITECTURE.onnx");
  options.add_options()("symbolic-batch", po::bool_switch(), "leave the batch size open: dimension \"batch\"");
  return options;
}

void add_parameter(po::options_description& options, const Parameter& parameter) {
  const auto* const value =
      po::value<std::string>()->default_value(default_text(parameter))->value_name(domain_text(parameter));
  options.add_options()(parameter.name.c_str(), value, parameter.help.c_str());
}

po::options_description architecture_options(const Architecture& architecture) {
  po::options_description options(architecture.name + ": " + architecture.summary + " (" + architecture.source + ")",
                                  kHelpWidth);
  for (const Parameter& parameter : architecture.parameters) add_parameter(options, parameter);
  return options;
}

po::options_description common_options() {
  po::options_description options = general_options();
  add_parameter(options, batch_parameter());
  return options;
}

void print_help(std::ostream& out, const std::vector<Architecture>& shown) {
  out << "Usage: remora_zoo ARCHITECTURE [options]\n"
         "       remora_zoo --list\n\n"
         "Writes a published architecture as an ONNX model (opset 17) without stored weights.\n"
         "For example: remora_zoo unet --batch 8 --size 256 -o unet.onnx\n\n"
      << common_options();
  for (const Architecture& architecture : shown) out << '\n' << architecture_options(architecture);
}

void print_list(std::ostream& out, const std::vector<Architecture>& zoo) {
  std::size_t width = 0;
  for (const Architecture& architecture : zoo) width = std::max(width, architecture.name.size());
  for (const Architecture& architecture : zoo) {
    out << architecture.name << std::string(width + 2 - architecture.name.size(), ' ') << architecture.summary << '\n';
  }
}

po::variables_map parse(std::span<const std::string> arguments, const po::options_description& options) {
  // Abbreviations would make a later parameter break older scripts.
  constexpr int kStyle = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
  const std::vector<std::string> words(arguments.begin(), arguments.end());
  const po::positional_options_description none;
  po::variables_map map;
  try {
    po::store(po::command_line_parser(words).options(options).positional(none).style(kStyle).run(), map);
  } catch (const po::too_many_positional_options_error&) {
    throw UsageError("expected one architecture, then options: see --help");
  } catch (const po::error& error) {
    throw UsageError(std::string(error.what()) + ": see --help");
  }
  return map;
}

const Architecture& find(const std::vector<Architecture>& zoo, const std::string& name) {
  const auto found = std::find_if(zoo.begin(), zoo.end(), [&](const Architecture& a) { return a.name == name; });
  if (found == zoo.end()) throw UsageError(name + ": no such architecture; --list shows them");
  return *found;
}

std::int64_t batch_size(const po::variables_map& map) {
  const auto& batch = map["batch"];
  const Parameter parameter = batch_parameter();
  const Settings settings({&parameter, 1}, {{"batch", batch.as<std::string>()}});
  if (!map["symbolic-batch"].as<bool>()) return settings.number("batch");
  require(batch.defaulted(), "--batch and --symbolic-batch exclude each other");
  return kSymbolicBatch;
}

/// 31030658 as 31,030,658.
std::string with_commas(std::int64_t number) {
  const std::string digits = text(number);
  std::string grouped;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) grouped.push_back(',');
    grouped.push_back(digits[i]);
  }
  return grouped;
}

void write(const Architecture& architecture, const po::variables_map& map, std::ostream& log) {
  std::map<std::string, std::string> given;
  for (const Parameter& parameter : architecture.parameters) {
    given[parameter.name] = map[parameter.name].as<std::string>();
  }
  const Model model = build_model(architecture, Settings(architecture.parameters, given), batch_size(map));
  const std::string path = map.count("output") > 0 ? map["output"].as<std::string>() : architecture.name + ".onnx";
  const std::string bytes = model.proto.SerializeAsString();
  json::write_file(path, [&bytes](std::ostream& file) { file << bytes; });
  log << "wrote " << (path == "-" ? "to standard output" : path) << ": " << architecture.name << ", "
      << with_commas(model.parameter_count) << " parameters in " << with_commas(static_cast<std::int64_t>(bytes.size()))
      << " bytes\n";
}

}  // namespace

void run(std::span<const std::string> arguments, std::ostream& out, std::ostream& log) {
  const std::vector<Architecture> zoo = architectures();
  if (arguments.empty()) throw UsageError("no architecture given; --list shows them, --help their parameters");
  if (arguments.front().starts_with('-')) {
    const po::variables_map map = parse(arguments, common_options());
    if (map.count("help") > 0) return print_help(out, zoo);
    if (map.count("list") > 0) return print_list(out, zoo);
    throw UsageError("the architecture comes first; --list shows them");
  }
  const Architecture& architecture = find(zoo, arguments.front());
  po::options_description options = common_options();
  options.add(architecture_options(architecture));
  const po::variables_map map = parse(arguments.subspan(1), options);
  if (map.count("help") > 0) return print_help(out, {architecture});
  if (map.count("list") > 0) return print_list(out, zoo);
  write(architecture, map, log);
}

}  // namespace remora::zoo
