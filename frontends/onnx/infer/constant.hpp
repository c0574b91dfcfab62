// SPDX-License-Identifier: Apache-2.0
//
// Small tensors whose elements are known while a model is read: target shapes, slice bounds, scales.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "frontends/onnx/infer/tensor_type.hpp"
#include "onnx/onnx_pb.h"

namespace remora::onnx_frontend {

/// Elements in row-major order. Integers and Booleans stand in `integers`, real numbers in `reals`; the other is empty.
struct Constant {
  TensorType type{};
  std::vector<std::int64_t> integers{};
  std::vector<double> reals{};

  [[nodiscard]] bool real() const;
  [[nodiscard]] std::size_t size() const { return real() ? reals.size() : integers.size(); }
};

/// Constants with more elements are not kept: nothing that decides a shape is that long.
inline constexpr std::int64_t kLargestConstant = 1 << 16;

/// The data type and dims of an initializer. Throws InputError for strings and negative dims.
TensorType type_of(const onnx::TensorProto& tensor);

/// The elements of a small tensor that is stored in the file; none if it is large, stored elsewhere, or of a type with
/// no use in shapes (float16, complex, ...). Throws InputError where data and dims disagree.
std::optional<Constant> read_constant(const onnx::TensorProto& tensor);

/// The same as protobuf message, for the library's shape inference.
onnx::TensorProto to_proto(const Constant& constant);

}  // namespace remora::onnx_frontend
