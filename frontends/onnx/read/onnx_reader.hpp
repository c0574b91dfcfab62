// SPDX-License-Identifier: Apache-2.0
//
// From a .onnx file to a remora::Graph in one call.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/formats/interchange.hpp"
#include "frontends/onnx/loops/writable_axes.hpp"
#include "frontends/onnx/model/network.hpp"
#include "frontends/onnx/read/cost.hpp"
#include "frontends/onnx/train/training.hpp"

namespace remora::onnx_frontend {

/// Along which axes ops may be computed in slices (loops/axes.hpp).
enum class AxesWanted {
  none,
  all,
  writable  ///< those of which a rewritten model can have the slices (loops/writable_axes.hpp)
};

struct OnnxOptions {
  /// Values for symbolic dimensions: {"batch", 8}.
  std::map<std::string, std::int64_t> dimensions{};
  /// Upper bounds for extents that depend on data: by the name of a node, of what it writes, or of its op type.
  std::map<std::string, std::int64_t> bounds{};
  /// Results whose size nobody can say count as 0 bytes, instead of being errors; the nodes that make or read them run once.
  /// Not of a training step.
  bool allow_unknown = false;
  /// Derive loss and backward ops; without it the graph is inference.
  std::optional<TrainingOptions> training{};
  CostModel cost = CostModel::roofline;
  Machine machine{};
  AxesWanted axes = AxesWanted::none;
  /// Measured durations instead, as far as they go: by the names of ops, of nodes, or of what they write. A backward op
  /// that has none takes its forward op's, by the ratio of their FLOPs.
  std::optional<interchange::CostTable> costs{};
  /// The model's folder, from which places of data outside its file count; none: links are not looked at.
  std::optional<std::filesystem::path> folder{};
  /// Data outside that folder is no error. It is never opened, but a rewritten model refers to it.
  bool allow_external = false;
};

struct OnnxResult {
  Graph graph{};
  /// How many ops have measured costs, in one line; empty without any.
  std::string covered{};
  /// Warnings for the user, one line each.
  std::vector<std::string> warnings{};
};

/// A model as a graph, and what each op and tensor of the graph is in the model.
struct LoweredModel {
  /// As in OnnxResult.
  std::string covered{};
  /// Network of --training, loss and backward nodes included.
  Network network{};
  Graph graph{};
  /// By op.
  std::vector<NodeId> op_nodes{};
  /// By tensor: the value that has the memory.
  std::vector<ValueId> tensor_values{};
  /// By op, of AxesWanted::writable: how it is cut along each of its axes.
  std::vector<std::vector<WritableAxis>> writable{};
};

/// True if the bytes look like a serialized ONNX model (and not like JSON text). Never throws.
bool looks_like_onnx(std::string_view content);

/// Reads a model from the bytes of a file. `source` names it in errors and in the graph's meta.
/// Throws InputError that names the node and the remedy: truncated or garbage files, an empty model, sequences, shapes
/// that stay unknown, a dimension or a bound that names nothing.
OnnxResult read_onnx(std::string_view content, const std::string& source, const OnnxOptions& options);

/// The same, for who needs to know which node an op is.
LoweredModel lower_onnx(std::string_view content, const std::string& source, const OnnxOptions& options);

/// The steps of read_onnx, for tests and for other front ends.
Network build_network(std::string_view content, const std::string& source, const OnnxOptions& options);
Graph lower(const Network& network, CostModel cost, const Machine& machine);
LoweredModel lower_network(Network network, CostModel cost, const Machine& machine);

}  // namespace remora::onnx_frontend
