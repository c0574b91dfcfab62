// SPDX-License-Identifier: Apache-2.0
//
// One row of the zoo: what an architecture is called, where it was published, its parameters and how it is built.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "examples/zoo/graph_builder.hpp"
#include "examples/zoo/settings.hpp"

namespace remora::zoo {

struct Architecture {
  /// As typed on the command line.
  std::string name{};
  /// One line: what it is.
  std::string summary{};
  /// Where its definition was published.
  std::string source{};
  /// Beside the batch size, which all have.
  std::vector<Parameter> parameters{};
  /// Appends the network, inputs and outputs included. `batch` is the first extent of every input: a count, or
  /// kSymbolicBatch. Throws UsageError if the settings do not fit together.
  std::function<void(GraphBuilder& graph, const Settings& settings, std::int64_t batch)> build{};
};

/// A finished model and the elements of its weights.
struct Model {
  onnx::ModelProto proto{};
  std::int64_t parameter_count = 0;
};

/// The whole zoo, in the order of --list.
std::vector<Architecture> architectures();

/// Builds one model. It records the architecture's source and every setting in the model's documentation and metadata.
Model build_model(const Architecture& architecture, const Settings& settings, std::int64_t batch);

}  // namespace remora::zoo
