// SPDX-License-Identifier: Apache-2.0
//
// What ONNX knows of a tensor while a model is being read: the exact data type and the shape.
#pragma once

#include <optional>
#include <string>

#include "frontends/onnx/model/network.hpp"

namespace remora::onnx_frontend {

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

}  // namespace remora::onnx_frontend
