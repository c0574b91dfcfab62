// SPDX-License-Identifier: Apache-2.0
//
// An ONNX model that is read to be written again in another order of its nodes: what every command that does so checks
// and calls.
#pragma once

#include <span>
#include <string>

#include "frontends/cli/reading/arguments.hpp"
#include "frontends/cli/reading/graph_source.hpp"
#include "frontends/onnx/read/onnx_reader.hpp"
#include "model/schedule.hpp"

namespace remora::cli {

/// The model as it was read.
struct LoadedModel {
  std::string path{};
  std::string content{};
  onnx_frontend::OnnxOptions options{};
  onnx_frontend::LoweredModel lowered{};
  LoadedGraph graph{};
};

/// Reads the model; prints warnings as load_graph does. Throws InputError with the file's name, also for a graph that is
/// no ONNX model.
LoadedModel load_model(const std::string& path, const Arguments& arguments, bool quiet);

/// Throws before the search, not after it, what would be thrown for any order: the model's own is written and dropped.
void check_rewritable(const LoadedModel& model, const std::string& output);

/// The bytes of the model in the order of the schedule, of which is checked that it needs no more than the schedule
/// says. Not for a training step. Throws InputError as rewrite_model does.
std::string rewritten_bytes(const LoadedModel& model, const Schedule& schedule, const std::string& output);

}  // namespace remora::cli
