// SPDX-License-Identifier: Apache-2.0
//
// Ops of the default domain whose result has the first input's type, each element computed from those at its place.
#pragma once

#include <array>

namespace remora::onnx_frontend {

/// The result has the first input's shape.
inline constexpr std::array kMappedOps{
    "Relu",    "LeakyRelu",   "PRelu",      "Elu",   "Celu",     "Selu",     "ThresholdedRelu",
    "Sigmoid", "HardSigmoid", "HardSwish",  "Tanh",  "Softplus", "Softsign", "Clip",
    "Exp",     "Log",         "Sqrt",       "Abs",   "Neg",      "Erf",      "Identity",
    "Dropout", "Shrink",      "Reciprocal", "Floor", "Ceil",     "Round",    "Sign"};

/// All inputs are broadcast.
inline constexpr std::array kArithmeticOps{"Add", "Sub", "Mul", "Div", "Pow", "Mod", "Min", "Max", "Sum", "Mean"};

}  // namespace remora::onnx_frontend
