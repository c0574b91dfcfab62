// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/infer/tensor_type.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace remora::onnx_frontend {
namespace {

struct DataTypeRow {
  int number;
  std::string_view name;
  ElementType type;
};

// TensorProto.DataType up to ONNX 1.19 (IR version 12); 8 is a string, which has no fixed width.
constexpr std::array kDataTypes{
    DataTypeRow{1, "float", {32, true}},          DataTypeRow{2, "uint8", {8, false}},
    DataTypeRow{3, "int8", {8, false}},           DataTypeRow{4, "uint16", {16, false}},
    DataTypeRow{5, "int16", {16, false}},         DataTypeRow{6, "int32", {32, false}},
    DataTypeRow{7, "int64", {64, false}},         DataTypeRow{9, "bool", {8, false}},
    DataTypeRow{10, "float16", {16, true}},       DataTypeRow{11, "double", {64, true}},
    DataTypeRow{12, "uint32", {32, false}},       DataTypeRow{13, "uint64", {64, false}},
    DataTypeRow{14, "complex64", {64, true}},     DataTypeRow{15, "complex128", {128, true}},
    DataTypeRow{16, "bfloat16", {16, true}},      DataTypeRow{17, "float8e4m3fn", {8, true}},
    DataTypeRow{18, "float8e4m3fnuz", {8, true}}, DataTypeRow{19, "float8e5m2", {8, true}},
    DataTypeRow{20, "float8e5m2fnuz", {8, true}}, DataTypeRow{21, "uint4", {4, false}},
    DataTypeRow{22, "int4", {4, false}},          DataTypeRow{23, "float4e2m1", {4, true}},
    DataTypeRow{24, "float8e8m0", {8, true}},
};

const DataTypeRow* find_row(int data_type) {
  const auto* const row = std::find_if(kDataTypes.begin(), kDataTypes.end(),
                                       [&](const DataTypeRow& candidate) { return candidate.number == data_type; });
  return row == kDataTypes.end() ? nullptr : row;
}

}  // namespace

std::optional<ElementType> element_type(int data_type) {
  const DataTypeRow* const row = find_row(data_type);
  if (row == nullptr) return std::nullopt;
  return row->type;
}

std::string data_type_name(int data_type) {
  constexpr int kString = 8;
  if (data_type == kString) return "string";
  const DataTypeRow* const row = find_row(data_type);
  return row == nullptr ? "data type " + std::to_string(data_type) : std::string(row->name);
}

std::string shape_text(const Shape& shape) {
  if (shape.empty()) return "scalar";
  std::string text;
  for (const std::int64_t extent : shape) {
    if (!text.empty()) text += 'x';
    text += std::to_string(extent);
  }
  return text;
}

}  // namespace remora::onnx_frontend
