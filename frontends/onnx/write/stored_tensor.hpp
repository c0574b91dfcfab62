// SPDX-License-Identifier: Apache-2.0
//
// Initializers: integers, and parts of those of a model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/axes.hpp"
#include "onnx/onnx_pb.h"

namespace remora::onnx_frontend {

/// An initializer of 64-bit integers.
onnx::TensorProto integer_tensor(const std::string& name, const std::vector<std::int64_t>& shape,
                                 const std::vector<std::int64_t>& elements);

/// The entries of one dimension. Throws InputError for data that is not as long as the shape says, and for elements of
/// a part of a byte or text.
onnx::TensorProto part_of(const onnx::TensorProto& tensor, const std::string& name, std::size_t dim, Range entries);

}  // namespace remora::onnx_frontend
