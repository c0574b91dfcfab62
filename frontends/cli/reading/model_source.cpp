// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/reading/model_source.hpp"

#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>

#include "frontends/cli/reading/output.hpp"
#include "frontends/formats/file.hpp"
#include "frontends/onnx/write/onnx_writer.hpp"
#include "frontends/text/sha256.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"

namespace remora::cli {
namespace fs = std::filesystem;
using namespace onnx_frontend;
namespace {

/// The folders that places of external data count from; of standard input that is the current one.
ModelFolders folders_of(const std::string& input, const std::string& output) {
  const auto folder = [](const std::string& file) {
    const fs::path parent = fs::path(file).parent_path();
    return parent.empty() ? fs::path(".") : parent;
  };
  ModelFolders folders{.from = folder(input)};
  if (output == "-") return folders;
  const std::optional<std::string> file = json::resolve_links(output);
  if (file) folders.to = folder(*file);
  return folders;
}

void check_not_data(const std::string& content, const std::string& path, const std::string& output) {
  for (const fs::path& file : data_files(content, folders_of(path, output).from)) {
    check_not_read(output, file, "data of the model");
  }
}

}  // namespace

LoadedModel load_model(const std::string& path, const Arguments& arguments, bool quiet) {
  LoadedModel model{.path = path, .options = read_onnx_options(arguments)};
  model.content = json::read_file(path);
  if (!looks_like_onnx(model.content)) throw InputError(path, "is no ONNX model: only those can be rewritten");
  model.lowered = lower_onnx(model.content, path, model.options);
  model.graph = {std::make_shared<const Graph>(model.lowered.graph), text::sha256_hex(model.content)};
  if (quiet) return model;
  for (const std::string& warning : model.lowered.network.warnings) std::cerr << "remora: warning: " << warning << "\n";
  return model;
}

void check_read_files(const Arguments& arguments, const std::string& output) {
  for (const char* const option : {"schedule", "warm-start", "device"}) {
    if (!arguments.has(option)) continue;
    check_not_read(output, arguments.get<std::string>(option), std::string("the file of --") + option);
  }
}

void check_data_files(const LoadedModel& model, const std::string& output) {
  check_not_data(model.content, model.path, output);
}

void check_data_files(const std::string& graph, const std::string& output) {
  // Standard input has been read, and standard output is no file.
  if (graph == "-" || output.empty() || output == "-") return;
  const std::string content = json::read_file(graph);
  if (looks_like_onnx(content)) check_not_data(content, graph, output);
}

void check_rewritable(const LoadedModel& model, const std::string& output) {
  const std::vector<OpId> order = input_order(Instance(model.graph.graph, {}));
  static_cast<void>(rewrite_model(model.content, model.lowered, order, folders_of(model.path, output)));
}

std::string rewritten_bytes(const LoadedModel& model, const Schedule& schedule, const std::string& output) {
  std::string bytes = rewrite_model(model.content, model.lowered, ops_of(schedule), folders_of(model.path, output));
  check_rewritten(bytes, "the rewritten model", model.options, schedule);
  return bytes;
}

}  // namespace remora::cli
