// SPDX-License-Identifier: Apache-2.0
//
// A schedule told in the names of the model (remora-runtime-schedule 1, docs/rewrite.md), for a runtime to execute:
// what every node reads and writes, which values share memory, and for each step what is allocated, run and released.
// Of a training step a model cannot be written: ONNX has no nodes for its backward pass.
#pragma once

#include <string>

#include "frontends/onnx/read/onnx_reader.hpp"
#include "model/schedule.hpp"

namespace remora::onnx_frontend {

/// The JSON text. `schedule`: a valid one of the graph. Throws InputError for a name that is not UTF-8.
std::string runtime_schedule(const LoweredModel& lowered, const Schedule& schedule);

}  // namespace remora::onnx_frontend
