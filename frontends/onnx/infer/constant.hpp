// SPDX-License-Identifier: Apache-2.0
//
// Small tensors whose elements are known while a model is read: target shapes, slice bounds, scales.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "frontends/onnx/model/network.hpp"

namespace onnx {
class TensorProto;
}  // namespace onnx

namespace remora::onnx_frontend {

// What ONNX knows of a tensor while a model is being read: the exact data type and the shape.

/// TensorProto.DataType's number (newer numbers than the installed library's included) and a fully known shape.
struct TensorType {
  int data_type = 0;
  Shape shape{};

  friend bool operator==(const TensorType&, const TensorType&) = default;
};

/// Width and kind of the elements; none for strings and for numbers that ONNX does not define.
std::optional<ElementType> element_type(int data_type);

/// "float", "int64", ...; "data type 99" for an unknown number.
std::string data_type_name(int data_type);

/// "1x3x224x224"; "scalar" for the empty shape.
std::string shape_text(const Shape& shape);

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
