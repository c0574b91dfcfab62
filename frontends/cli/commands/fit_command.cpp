// SPDX-License-Identifier: Apache-2.0
//
// `remora fit MODEL --device A,B`: whether a model fits on devices that need not be there, and at what price. An ONNX
// model is planned here; a config.json of transformers is built and planned by the Python package (remora/fit.py).
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <unistd.h>

#include "engine/ask/ask.hpp"
#include "frontends/cli/commands/command.hpp"
#include "frontends/cli/reading/arguments.hpp"
#include "frontends/cli/reading/graph_source.hpp"
#include "frontends/cli/reading/solve_options.hpp"
#include "frontends/formats/file.hpp"
#include "frontends/formats/json_text.hpp"
#include "frontends/onnx/read/onnx_reader.hpp"
#include "frontends/onnx/train/training_memory.hpp"
#include "frontends/text/text.hpp"
#include "model/budget.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/instance.hpp"
#include "model/quote.hpp"

namespace remora::cli {
namespace po = boost::program_options;
using onnx_frontend::LoweredModel;
using onnx_frontend::TrainingMemory;

namespace {

/// The part of the tensors that a GPU's allocator may lose to fragmentation.
constexpr double kHoles = 0.1;

/// A line of what lies on the device.
struct Item {
  std::string name{};
  Bytes size{};
  std::string note{};
};

/// The answer for the model on one device.
struct Fit {
  Machine machine{};
  Bytes budget{};
  std::vector<Item> items{};
  /// Bytes of the tensors that the schedule moves: without recomputation, and as planned (none without a schedule).
  Bytes unscheduled{};
  std::optional<Bytes> planned{};
  /// While the optimizer works; 0 without one.
  Bytes update{};
  /// A budget that is enough, and an op that alone needs more than the budget, with what it needs; nothing where none is known.
  Bytes least{};
  std::string op{};
  Bytes op_needs{};
  bool is_proved = false;
  std::int64_t recomputes = 0;
  double overhead = 0;
  double least_overhead = 0;
  double seconds = 0;

  [[nodiscard]] Bytes resident() const {
    Bytes total;
    for (const Item& item : items) total += item.size;
    return total;
  }
  [[nodiscard]] Bytes highest() const { return std::max(resident() + planned.value_or(unscheduled), update); }
  [[nodiscard]] bool fits() const { return planned && highest() <= budget; }
};

OptionGroup fit_options() {
  OptionGroup group("The device and its memory");
  group.add_options()("device", po::value<std::string>()->value_name("NAMES"),
                      "names, or device files (*.json) with their memory, as measure_device of remora.torch writes "
                      "them, with commas between")("devices", "print the known devices and links, and exit")(
      "budget,b", po::value<std::string>()->value_name("B"),
      "bytes (20GiB) for everything on the device; default: its memory, less a tenth of the tensors for fragmentation")(
      "optimizer", po::value<std::string>()->default_value("none")->value_name("NAME"),
      ("with --training: " + list_text(onnx_frontend::optimizer_names())).c_str())(
      "accumulate", po::value<int>()->default_value(1)->value_name("N"),
      "with --training: micro-steps before each update; from 2 on the answer is for a later one, with gradients "
      "allocated")("reserve", po::value<std::string>()->value_name("SIZE"),
                   "bytes (2GiB) that other software uses on the device");
  return group;
}

OptionGroup fit_limits() {
  OptionGroup group("The search, for each device");
  add_table_options(group, limit_rows());
  return group;
}

OptionGroup fit_output() {
  OptionGroup group("Output");
  group.add_options()("output,o", output_file(), "where to write the answers as JSON; - for standard output")(
      "quiet,q", "no warnings");
  return group;
}

/// Devices whose memory nothing is known of have durations only.
void print_devices() {
  const auto print = [](const std::string& name, const std::string& said) {
    std::array<char, 160> line{};
    std::snprintf(line.data(), line.size(), "%-20s  %10s\n", name.c_str(), said.c_str());
    std::cout << line.data();
  };
  for (const Machine& device : known_machines()) {
    print(device.name, device.memory > Bytes(0) ? text::bytes_text(device.memory) : "-");
  }
  for (const LinkModel& link : known_links()) print(link.name, "link");
}

std::vector<Machine> read_devices(const Arguments& arguments) {
  if (!arguments.has("device")) throw UsageError("--device: name one, or several with commas between (--devices)");
  std::vector<Machine> devices;
  const std::string& names = arguments.get<std::string>("device");
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find(',', begin), names.size());
    const std::string name = names.substr(begin, end - begin);
    if (!is_known_device(name)) arguments.files().will_read(name, "--device");
    devices.push_back(read_device(name));
    if (devices.back().memory == Bytes(0)) {
      throw InputError(name, "$.memory: missing; whether something fits depends on it");
    }
    begin = end + 1;
  }
  return devices;
}

/// True for a configuration of transformers, or its folder.
bool is_configuration(const std::string& word) {
  std::filesystem::path path(word);
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) path /= "config.json";
  if (!std::filesystem::is_regular_file(path, error)) return false;
  const std::string content = json::read_file(path.string());
  return content.find_first_not_of(" \t\r\n") == content.find('{') &&
         content.find("\"model_type\"") != std::string::npos;
}

/// Becomes the Python package's part, with the same words. Throws InputError where there is no Python.
[[noreturn]] void become_python(const Words& words, const std::string& configuration) {
  constexpr const char* kProgram =
      "import sys\n"
      "try:\n"
      "    from remora.fit import main\n"
      "except ImportError as error:\n"
      "    print(f'remora: {sys.argv[1]}: needs the Python package remora: {error}', file=sys.stderr)\n"
      "    sys.exit(65)\n"
      "sys.exit(main(sys.argv[2:]))\n";
  const char* const given = std::getenv("REMORA_PYTHON");
  std::vector<std::string> all{given != nullptr ? given : "python3", "-c", kProgram, configuration};
  all.insert(all.end(), words.begin(), words.end());
  std::vector<char*> arguments;
  arguments.reserve(all.size() + 1);
  for (std::string& word : all) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execvp(arguments.front(), arguments.data());
  throw InputError(configuration, "needs the Python package remora, and " + all.front() + " cannot be run");
}

/// Throws UsageError.
std::string read_optimizer(const Arguments& arguments) {
  const std::string& name = arguments.get<std::string>("optimizer");
  const std::vector<std::string> names = onnx_frontend::optimizer_names();
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    throw UsageError("--optimizer: '" + name + "' is not one of " + list_text(names));
  }
  if (name != "none" && !arguments.has("training")) throw UsageError("--optimizer needs --training");
  return name;
}

/// True if the step is a later micro-step. Throws UsageError.
bool read_accumulates(const Arguments& arguments) {
  const int count = arguments.get<int>("accumulate");
  if (count < 1) throw UsageError("--accumulate: at least 1");
  if (count == 1) return false;
  if (!arguments.has("training")) throw UsageError("--accumulate needs --training");
  if (arguments.has("gradients")) throw UsageError("--gradients: not with --accumulate, which says where they are");
  return true;
}

class FitCommand {
 public:
  FitCommand(const Arguments& arguments, const Request& request, const SignalGuard& signals)
      : path_(arguments.file("MODEL")),
        optimizer_(read_optimizer(arguments)),
        request_(request),
        signals_(signals),
        options_(read_model_options(arguments)) {
    if (arguments.has("budget")) {
      const std::string& text = arguments.get<std::string>("budget");
      if (text.ends_with('%')) throw UsageError("--budget: bytes (20GiB): all that lies on the device counts");
      budget_ = read_budget(text, Bytes(0), Bytes(0));
    }
    if (arguments.has("reserve")) reserve_ = parse_bytes(arguments.get<std::string>("reserve"), Bytes(0));
    // A gradient is resident from where it is computed to the update, or throughout, from an earlier micro-step.
    if (read_accumulates(arguments)) {
      options_.training->gradients = onnx_frontend::ParameterGradients::accumulate;
    } else if (options_.training && !arguments.has("gradients")) {
      options_.training->gradients = onnx_frontend::ParameterGradients::keep;
    }
    const FileText file = read_once(path_);
    content_ = file.content;
    options_.folder = std::filesystem::path(path_).parent_path();
    if (options_.folder->empty()) options_.folder = ".";
    if (!onnx_frontend::looks_like_onnx(content_)) {
      throw InputError(
          path_,
          "is neither an ONNX model nor a config.json of transformers; remora solve plans any graph under a "
          "budget");
    }
    note_data_files(content_, path_, arguments.files());
  }

  Fit fit(const Machine& device, bool quiet) {
    options_.machine = device;
    const LoweredModel model = onnx_frontend::lower_onnx(content_, path_, options_);
    if (!quiet && !std::exchange(has_warned_, true)) {
      for (const std::string& warning : model.network.warnings) std::cerr << "remora: warning: " << warning << "\n";
    }
    Fit fit{.machine = device};
    const auto graph = std::make_shared<const Graph>(model.graph);
    const TrainingMemory memory = onnx_frontend::training_memory(model.network, optimizer_, device.kind == "cpu");
    const Instance instance(graph, {});
    const Bytes in_graph = instance.base_memory();
    add_items(fit, graph->fixed_memory, in_graph, model.network.extra_fixed_memory, memory);
    fit.unscheduled = baseline_peak(instance) - in_graph;
    fit.budget = budget_.value_or(all_of(device));
    if (optimizer_ != "none") {
      const Bytes gradients =
          options_.training->gradients == onnx_frontend::ParameterGradients::keep ? memory.gradients : Bytes(0);
      fit.update = fit.resident() + gradients + memory.update;
    }
    plan(fit, graph, in_graph);
    return fit;
  }

 private:
  /// Parameters, the model's inputs, and what the device itself takes. `in_graph`: fixed memory and inputs;
  /// `gradients`: what of the fixed memory they take.
  void add_items(Fit& fit, Bytes fixed, Bytes in_graph, Bytes gradients, const TrainingMemory& memory) const {
    const bool accumulates =
        options_.training && options_.training->gradients == onnx_frontend::ParameterGradients::accumulate;
    const auto add = [&](const char* name, Bytes size, const char* note) {
      if (size > Bytes(0)) fit.items.push_back({name, size, note});
    };
    add("parameters", fixed - gradients, "exact");
    add("gradients", gradients,
        accumulates ? "exact, of earlier micro-steps" : "exact, throughout (--gradients fixed)");
    add("inputs", in_graph - fixed, "exact");
    add("optimizer state", memory.state, "as in PyTorch");
    add("context", fit.machine.context, "a constant; differs by driver");
    add("workspaces", fit.machine.workspaces, "a constant, of cuBLAS or the like");
    add("reserved", reserve_, "as given");
  }

  static Bytes all_of(const Machine& device) {
    if (device.kind == "cpu") return device.memory;
    const Bytes constant = device.context + device.workspaces;
    return constant +
           Bytes(static_cast<std::int64_t>(static_cast<double>((device.memory - constant).count()) / (1 + kHoles)));
  }

  void plan(Fit& fit, const std::shared_ptr<const Graph>& graph, Bytes in_graph) const {
    const Bytes beside = fit.resident() - in_graph;
    if (fit.update > fit.budget) {
      fit.is_proved = true;
      return;
    }
    Request request = request_;
    request.graph = graph;
    request.budget = std::max(Bytes(0), fit.budget - beside);
    const Answer answer = solve(request, {.cancel = &signals_.flag()});
    const Schedule& schedule = answer.schedule;
    fit.is_proved = schedule.status == Status::infeasible;
    if (!schedule.has_schedule()) {
      const Refusal& refusal = answer.refusal;
      if (refusal.enough > Bytes(0)) fit.least = std::max(refusal.enough + beside, fit.update);
      if (refusal.cause == Refusal::Cause::op) {
        fit.op = (*graph)[refusal.op].name;
        fit.op_needs = refusal.needed + beside;
      }
      return;
    }
    fit.planned = schedule.peak_memory - in_graph;
    fit.recomputes = static_cast<std::int64_t>(schedule.steps.size()) - static_cast<std::int64_t>(graph->ops.size());
    fit.overhead = schedule.overhead();
    fit.least_overhead = schedule.least_overhead();
    fit.seconds = std::max(static_cast<double>(schedule.duration.count()) * 1e-9,
                           static_cast<double>(schedule.steps.size()) * fit.machine.host);
  }

  std::string path_;
  std::string optimizer_;
  Request request_;
  const SignalGuard& signals_;
  onnx_frontend::OnnxOptions options_;
  std::optional<Bytes> budget_{};
  Bytes reserve_{};
  std::string content_{};
  bool has_warned_ = false;
};

std::string time_text(double seconds) {
  return text::duration_text(Duration(static_cast<std::int64_t>(seconds * 1e9)), "ns");
}

std::string verdict(const Fit& fit) {
  if (fit.fits()) {
    return fit.recomputes > 0 ? "fits, with " + text::grouped(fit.recomputes) + " recomputes"
                              : "fits without recompute";
  }
  std::string why = fit.update > fit.budget ? "the update alone takes more" : "no schedule stays within the budget";
  if (!fit.op.empty()) {
    why += ": while " + printable(fit.op) + " runs, " + text::bytes_text(fit.op_needs) +
           " are resident, whatever is recomputed (a smaller batch, or that op in parts, needs less)";
  }
  if (fit.least > Bytes(0)) why += "; " + text::exact_bytes_text(fit.least) + " is enough";
  return "does not fit: " + why + (fit.is_proved ? "" : " (none was found; none is not proved)");
}

void print(std::ostream& out, const std::string& name, const Fit& fit) {
  constexpr int kName = 24;
  const auto row = [&](const std::string& what, Bytes size, const std::string& note) {
    std::array<char, 200> line{};
    std::snprintf(line.data(), line.size(), "  %-*s %10s%s%s\n", kName, what.c_str(), text::bytes_text(size).c_str(),
                  note.empty() ? "" : "  ", note.c_str());
    out << line.data();
  };
  out << printable(name) << " on " << printable(fit.machine.name) << ", budget " << text::bytes_text(fit.budget) << ": "
      << verdict(fit) << "\n";
  for (const Item& item : fit.items) row(item.name, item.size, item.note);
  row("without recompute", fit.resident() + fit.unscheduled, "the peak of the step");
  if (fit.planned) row("as planned", fit.resident() + *fit.planned, "the peak of the step");
  if (fit.update > Bytes(0)) row("in the update", fit.update, "with PyTorch's optimizer");
  if (!fit.planned) return;
  out << "  " << time_text(fit.seconds) << " (" << text::percent_text(fit.overhead) << " by recompute, at least "
      << text::percent_text(fit.least_overhead) << "), expected within "
      << time_text(fit.seconds * fit.machine.range[0]) << " and " << time_text(fit.seconds * fit.machine.range[1])
      << "; " << (fit.machine.fitted.empty() ? "not calibrated on this device" : fit.machine.fitted) << "\n";
}

void write_json(std::ostream& out, const std::string& name, const std::vector<Fit>& fits) {
  std::string text;
  json::ObjectText object(text, ",\n  ");
  object.string("format", "remora-fit-onnx");
  object.integer("version", 1);
  object.string("model", name);
  object.key("devices");
  json::append_lines(text, 2, fits.size(), [&](std::size_t i) {
    const Fit& fit = fits[i];
    json::ObjectText row(text);
    row.string("device", fit.machine.name);
    row.integer("budget", fit.budget.count());
    row.boolean("fits", fit.fits());
    row.boolean("proved", fit.fits() || fit.is_proved);
    for (const Item& item : fit.items) {
      std::string key = item.name;
      std::replace(key.begin(), key.end(), ' ', '_');
      row.integer(key, item.size.count());
    }
    row.integer("without_recompute", (fit.resident() + fit.unscheduled).count());
    if (fit.update > Bytes(0)) row.integer("update", fit.update.count());
    if (fit.planned) {
      row.integer("planned", (fit.resident() + *fit.planned).count());
      row.integer("recomputes", fit.recomputes);
      row.number("overhead", fit.overhead);
      row.number("least_overhead", fit.least_overhead);
      row.number("seconds", fit.seconds);
    } else if (fit.least > Bytes(0)) {
      row.integer("least_known_budget", fit.least.count());
      if (!fit.op.empty()) {
        row.string("op", fit.op);
        row.integer("op_needs", fit.op_needs.count());
      }
    }
    row.close();
  });
  object.close();
  out << text << "\n";
}

}  // namespace

int fit_command(const Words& words) {
  if (std::find(words.begin(), words.end(), "--devices") != words.end()) {
    print_devices();
    return kSuccess;
  }
  const auto configuration = std::find_if(words.begin(), words.end(), is_configuration);
  if (configuration != words.end()) become_python(words, *configuration);
  Arguments arguments(
      "fit", "Reports whether a model fits on devices you do not have, and how much slower it is there.",
      {{"MODEL",
        "an ONNX model (- for standard input), or with the Python package a config.json of transformers, "
        "for which 'remora fit config.json --help' shows the options"}});
  for (const OptionGroup& group : {fit_options(), model_options(), fit_limits(), fit_output()}) arguments.add(group);
  arguments.set_notes(
      "Without --gradients they are tensors of their own (keep). Times are of a roofline with the shares of a device's "
      "peaks "
      "that its table has. Exit: 0 it fits on one of the "
      "devices, 20 proved that it fits on none, 21 no schedule was found.");
  if (!arguments.parse(words)) return kSuccess;
  Request request{.options = read_limits(arguments)};
  const std::vector<Machine> devices = read_devices(arguments);
  const bool has_output = arguments.has("output");
  if (has_output) json::check_writable(arguments.output("output"));
  SignalGuard signals;
  signals.watch_memory();
  FitCommand command(arguments, request, signals);
  const std::string name = std::filesystem::path(arguments.file("MODEL")).filename().string();
  std::ostream& text_out = has_output && arguments.output("output") == "-" ? std::cerr : std::cout;
  std::vector<Fit> fits;
  for (const Machine& device : devices) {
    fits.push_back(command.fit(device, arguments.has("quiet")));
    print(text_out, name, fits.back());
  }
  if (has_output) {
    arguments.files().write(arguments.output("output"), [&](std::ostream& out) { write_json(out, name, fits); });
  }
  if (std::any_of(fits.begin(), fits.end(), [](const Fit& fit) { return fit.fits(); })) return kSuccess;
  const bool is_proved = std::all_of(fits.begin(), fits.end(), [](const Fit& fit) { return fit.is_proved; });
  return is_proved ? kInfeasible : kNoSchedule;
}

}  // namespace remora::cli
