// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/reading/model_source.hpp"

#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>

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

}  // namespace

LoadedModel load_model(const std::string& path, const Arguments& arguments, bool quiet) {
  LoadedModel model{.path = path, .options = read_onnx_options(arguments)};
  model.content = json::read_file(path);
  if (!looks_like_onnx(model.content)) throw InputError(path, "is no ONNX model: only those can be rewritten");
  model.lowered = lower_onnx(model.content, path, model.options);
  note_data_files(model.content, path, arguments.files());
  model.graph = {std::make_shared<const Graph>(model.lowered.graph), text::sha256_hex(model.content)};
  if (quiet) return model;
  for (const std::string& warning : model.lowered.network.warnings) std::cerr << "remora: warning: " << warning << "\n";
  return model;
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
