// SPDX-License-Identifier: Apache-2.0
//
// Memory on a device in addition to a training step's activations.
#pragma once

#include <string>
#include <vector>

#include "frontends/onnx/model/network.hpp"
#include "model/types.hpp"

namespace remora::onnx_frontend {

/// Names of optimizers, "none" the last.
std::vector<std::string> optimizer_names();

/// Bytes.
struct TrainingMemory {
  /// Bytes of the parameters that are trained.
  Bytes gradients{};
  /// State of the optimizer, and the maximum that a later step of it needs beyond parameters, gradients and state: of
  /// PyTorch's implementations, the one for each tensor of lists on GPUs, the loop over parameters on CPUs.
  Bytes state{};
  Bytes update{};
};

/// Memory of a network from differentiate(). The optimizer's state has the type of its parameters. Throws InputError
/// for a name
/// that is none of optimizer_names().
TrainingMemory training_memory(const Network& network, const std::string& optimizer, bool on_cpu);

}  // namespace remora::onnx_frontend
