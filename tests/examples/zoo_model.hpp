// SPDX-License-Identifier: Apache-2.0
//
// What the zoo's tests see of a model: only the protobuf message, read with libonnx and nothing of the zoo's own.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <onnx/onnx_pb.h>

#include "examples/zoo/architecture.hpp"

namespace remora::zoo {

using Given = std::map<std::string, std::string>;

/// The architecture `name` with the settings `given`.
Model make(const std::string& name, const Given& given = {}, std::int64_t batch = 1);

/// Elements of the floating-point weights in the model, without the running statistics of its batch normalizations.
std::int64_t count_parameters(const onnx::ModelProto& model);

/// Shapes as "2x3x?": every value that libonnx's strict inference gives a complete shape, by name. The model's own
/// output shapes are removed first, so that they are inferred too. A symbolic extent reads as its name.
std::map<std::string, std::string> infer_shapes(const onnx::ModelProto& model);

/// The shapes that the model states for its outputs, in the same form.
std::vector<std::string> stated_output_shapes(const onnx::ModelProto& model);

}  // namespace remora::zoo
