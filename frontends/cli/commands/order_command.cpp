// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <iosfwd>
#include <iostream>
#include <memory>
#include <optional>
#include <ostream>
#include <sstream>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include "engine/ask/ask.hpp"
#include "engine/base/tasks.hpp"
#include "frontends/cli/commands/command.hpp"
#include "frontends/cli/commands/solve_run.hpp"
#include "frontends/cli/reading/arguments.hpp"
#include "frontends/cli/reading/graph_source.hpp"
#include "frontends/cli/reading/solve_options.hpp"
#include "frontends/cli/showing/summary.hpp"
#include "frontends/formats/document.hpp"
#include "frontends/formats/file.hpp"
#include "frontends/formats/json.hpp"
#include "frontends/onnx/read/onnx_reader.hpp"
#include "frontends/text/text.hpp"
#include "model/budget.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/graph.hpp"
#include "model/quote.hpp"
#include "model/types.hpp"

namespace remora::cli {
namespace po = boost::program_options;
namespace {

struct OrderFigures {
  std::string graph{};
  int ops = 0;
  Bytes fixed_memory{};
  /// Peaks of the input order and of the order found, and a lower bound for any order.
  Bytes input_peak{};
  Bytes peak{};
  Bytes lower_bound{};
  double seconds = 0;
  std::int64_t work = 0;
  std::int64_t seed = 0;
  int threads = 0;

  [[nodiscard]] bool is_optimal() const { return peak <= lower_bound; }
  /// The amount as a part of the input order's peak above fixed memory, as for budgets: 0.8 for 80 %.
  [[nodiscard]] double part(Bytes amount) const;
};

/// A line for the input order and for every better one as soon as it is found:
///
///      seconds          peak   of the input order's
///         0.02      3.21 GiB                 81.2 %
class OrderTable {
 public:
  OrderTable(const Graph& graph, Bytes input_peak, std::ostream& out)
      : fixed_memory_(graph.fixed_memory), input_peak_(input_peak), out_(out) {}

  void add(double seconds, Bytes peak);

 private:
  Bytes fixed_memory_;
  Bytes input_peak_;
  std::ostream& out_;
  bool header_printed_ = false;
};

double OrderFigures::part(Bytes amount) const {
  return part_of_peak(amount, fixed_memory, input_peak);
}

void OrderTable::add(double seconds, Bytes peak) {
  if (!header_printed_) out_ << "  seconds          peak  of the input order's\n";
  header_printed_ = true;
  std::array<char, 120> line{};
  std::snprintf(line.data(), line.size(), "%9.2f  %12s  %20s\n", seconds, text::bytes_text(peak).c_str(),
                text::percent_text(part_of_peak(peak, fixed_memory_, input_peak_), 1).c_str());
  out_ << line.data() << std::flush;
}

/// For people.
void print_order_text(std::ostream& stream, const OrderFigures& figures, int width) {
  std::ostringstream out;
  out << "graph       " << (figures.graph.empty() ? "without a name" : printable(figures.graph)) << ": " << figures.ops
      << " ops\n"
      << "before      " << text::exact_bytes_text(figures.input_peak) << "\n"
      << "after       " << text::exact_bytes_text(figures.peak) << ", "
      << text::percent_text(figures.part(figures.peak), 1) << " of it above fixed memory\n"
      << "bound       " << text::exact_bytes_text(figures.lower_bound) << ", "
      << text::percent_text(figures.part(figures.lower_bound), 1) << ": no order needs less"
      << (figures.is_optimal()
              ? "; proved optimal"
              : "; distance " + text::percent_text(figures.part(figures.peak) - figures.part(figures.lower_bound), 1))
      << "\n"
      << "search      " << text::fixed(figures.seconds, 2) << " s, work " << text::grouped(figures.work) << ", seed "
      << figures.seed << ", " << figures.threads << (figures.threads == 1 ? " thread\n" : " threads\n");
  stream << text::wrapped_lines(out.str(), kWordColumns, width);
}

/// One JSON object; docs/guide/order.md lists its keys.
void print_order_json(std::ostream& out, const OrderFigures& figures) {
  const nlohmann::ordered_json text{{"graph", figures.graph},
                                    {"ops", figures.ops},
                                    {"fixed_memory", figures.fixed_memory.count()},
                                    {"input_peak_memory", figures.input_peak.count()},
                                    {"peak_memory", figures.peak.count()},
                                    {"lower_bound", figures.lower_bound.count()},
                                    {"status", figures.is_optimal() ? "optimal" : "feasible"},
                                    {"seconds", figures.seconds},
                                    {"work", figures.work},
                                    {"seed", figures.seed},
                                    {"threads", figures.threads}};
  out << json::dump(text, 1) << "\n";
}

OptionGroup limit_options() {
  OptionGroup group("The search");
  group.add_options()(
      "target", po::value<std::string>()->value_name("B"),
      "stop at an order of this peak: bytes (12GiB, fixed memory included) or a percentage of the input "
      "order's peak above fixed memory (80%)");
  add_table_options(group, limit_rows());
  return group;
}

OptionGroup order_output() {
  OptionGroup group("Output");
  group.add_options()("output,o", output_file(),
                      "where to write the graph with its ops in the order found: as remora-graph JSON (- for "
                      "standard output), or as an ONNX model if the file is named *.onnx")(
      "json", "print the figures as JSON")("quiet,q", "no progress table, no warnings");
  return group;
}

/// Where the graph goes; empty for nowhere.
std::string read_output(const Arguments& arguments) {
  if (!arguments.has("output")) return "";
  std::string output = arguments.output("output");
  if (output == "-" && arguments.has("json")) {
    throw UsageError("--json: the graph goes to standard output; name a file with -o");
  }
  json::check_writable(output);
  return output;
}

/// The graph, and the model or the graph with devices where one is to be written.
struct Source {
  LoadedGraph graph{};
  std::optional<LoadedModel> model{};
  std::shared_ptr<const DeviceGraph> devices{};
};

Source load_graph_source(const FileText& file, const Arguments& arguments) {
  const auto devices = load_device_graph(file, arguments);
  if (!devices) return {.graph = load_graph(file, arguments, arguments.has("quiet"))};
  std::optional<Graph> graph = of_one_device(*devices->graph);
  if (!graph) {
    throw InputError(
        file.path,
        "an order has a peak on one device, and this graph leaves open where ops run or tensors are; 'remora "
        "solve --order free' chooses devices and order together");
  }
  return {.graph = {std::make_shared<const Graph>(*std::move(graph)), devices->sha256}, .devices = devices->graph};
}

Source load_source(const Arguments& arguments, const std::string& output) {
  const FileText file = read_once(arguments.file("GRAPH"));
  const bool is_onnx = onnx_frontend::looks_like_onnx(file.content);
  if (!is_onnx || !json::is_model_name(output)) {
    Source source = load_graph_source(file, arguments);
    if (!is_onnx) {
      refuse_model_name(output, file.path + " is no ONNX model, so its order is none either; name a .json file");
    }
    return source;
  }
  if (arguments.has("training")) refuse_model_name(output, kNoTrainingNodes);
  Source source{.model = load_model(file, arguments, arguments.has("quiet"))};
  check_rewritable(*source.model, output);
  source.graph = source.model->graph;
  return source;
}

FoundOrder order_as_asked(const Arguments& arguments, const Request& request, Bytes input_peak) {
  const Graph& graph = *request.graph;
  SignalGuard signals;
  signals.watch_memory();
  Bytes target;
  if (arguments.has("target")) {
    target = read_budget(arguments.get<std::string>("target"), graph.fixed_memory, input_peak, "--target");
  }
  OrderTable table(graph, input_peak, std::cerr);
  OrderCallbacks callbacks{.cancel = &signals.flag()};
  if (!arguments.has("quiet")) {
    table.add(0, input_peak);
    callbacks.improved = [&](double seconds, Bytes peak) { table.add(seconds, peak); };
  }
  return find_order(request, target, callbacks);
}

void write_order(const Files& files, const Source& source, const Order& order, const std::string& output) {
  if (source.model) {
    const Instance instance(source.graph.graph, {.order = OrderMode::free});
    const std::string bytes = rewritten_bytes(*source.model, schedule_of(instance, order), output);
    files.write(output, [&](std::ostream& out) { out << bytes; });
  } else if (source.devices) {
    files.write(output, [&](std::ostream& out) { json::write_graph(out, reordered(*source.devices, order)); });
  } else {
    files.write(output, [&](std::ostream& out) { json::write_graph(out, reordered(*source.graph.graph, order)); });
  }
}

}  // namespace

int order_command(const Words& words) {
  Arguments arguments("order", "Finds an order of GRAPH's ops with a low memory peak, without recomputation.",
                      {{"GRAPH", kGraphHelp}});
  for (const OptionGroup& group : {limit_options(), graph_options(), order_output()}) arguments.add(group);
  arguments.may_write_model("output");
  arguments.set_notes(
      "SIGINT and SIGTERM end the search with the best order so far; a second signal ends the program at once.");
  if (!arguments.parse(words)) return kSuccess;
  Request request{.options = read_limits(arguments)};
  const std::string output = read_output(arguments);
  const Source source = load_source(arguments, output);
  const Graph& graph = *source.graph.graph;
  request.graph = source.graph.graph;
  expect_one_mode(graph, "an order without recomputation");
  const FoundOrder found = order_as_asked(arguments, request, baseline_peak(Instance(source.graph.graph, {})));
  if (!output.empty()) write_order(arguments.files(), source, found.order, output);

  const OrderFigures figures{.graph = graph.name,
                             .ops = static_cast<int>(graph.ops.size()),
                             .fixed_memory = graph.fixed_memory,
                             .input_peak = found.input_peak,
                             .peak = found.peak,
                             .lower_bound = found.lower_bound,
                             .seconds = found.seconds,
                             .work = found.work,
                             .seed = request.options.seed,
                             .threads = thread_count(request.options)};
  if (arguments.has("json")) {
    print_order_json(std::cout, figures);
  } else if (output != "-" || !arguments.has("quiet")) {
    const bool to_error = output == "-";
    print_order_text(to_error ? std::cerr : std::cout, figures,
                     text::terminal_width(to_error ? STDERR_FILENO : STDOUT_FILENO, kNoWidth));
  }
  return kSuccess;
}

}  // namespace remora::cli
