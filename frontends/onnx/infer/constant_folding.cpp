// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/infer/constant_folding.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <string_view>

#include "frontends/onnx/infer/shape_rules.hpp"
#include "model/error.hpp"
#include "model/quote.hpp"
#include "onnx/onnx_pb.h"

namespace remora::onnx_frontend {
namespace {

struct FoldRow {
  FoldFunction fill;
  /// The op's first inputs, which must be there.
  std::size_t least_inputs = 1;
  /// Every input must broadcast to the output.
  bool broadcasts = false;
};

using FoldTable = std::map<std::string_view, FoldRow, std::less<>>;

const FoldTable& fold_table() {
  static const FoldTable kTable{
      {"Shape", {fold_shape, 1}},
      {"Size", {fold_size, 1}},
      {"ConstantOfShape", {fold_fill, 1}},
      {"Range", {fold_range, 3}},
      {"Reshape", {fold_copy, 1}},
      {"Squeeze", {fold_copy, 1}},
      {"Unsqueeze", {fold_copy, 1}},
      {"Flatten", {fold_copy, 1}},
      {"Identity", {fold_copy, 1}},
      {"Cast", {fold_cast, 1}},
      {"Concat", {fold_concat, 1}},
      {"Gather", {fold_gather, 2}},
      {"Slice", {fold_slice, 1}},
      {"Split", {fold_split, 1}},
      {"Transpose", {fold_transpose, 1}},
      {"Expand", {fold_expand, 1}},
      {"NonZero", {fold_non_zero, 1}},
      {"Where", {fold_where, 3, true}},
      {"Add", {fold_elementwise, 2, true}},
      {"Sub", {fold_elementwise, 2, true}},
      {"Mul", {fold_elementwise, 2, true}},
      {"Div", {fold_elementwise, 2, true}},
      {"Mod", {fold_elementwise, 2, true}},
      {"Pow", {fold_elementwise, 2, true}},
      {"And", {fold_elementwise, 2, true}},
      {"Or", {fold_elementwise, 2, true}},
      {"Equal", {fold_elementwise, 2, true}},
      {"Less", {fold_elementwise, 2, true}},
      {"Greater", {fold_elementwise, 2, true}},
      {"LessOrEqual", {fold_elementwise, 2, true}},
      {"GreaterOrEqual", {fold_elementwise, 2, true}},
      {"Min", {fold_elementwise, 1, true}},
      {"Max", {fold_elementwise, 1, true}},
      {"Neg", {fold_unary, 1}},
      {"Abs", {fold_unary, 1}},
      {"Floor", {fold_unary, 1}},
      {"Ceil", {fold_unary, 1}},
      {"Round", {fold_unary, 1}},
      {"Sqrt", {fold_unary, 1}},
      {"Reciprocal", {fold_unary, 1}},
      {"Not", {fold_unary, 1}},
      {"ReduceProd", {fold_reduce, 1}},
      {"ReduceSum", {fold_reduce, 1}},
      {"ReduceMax", {fold_reduce, 1}},
      {"ReduceMin", {fold_reduce, 1}},
  };
  return kTable;
}

bool small(const OutputTypes& types) {
  for (const auto& type : types) {
    if (type && element_count(type->shape) > kLargestConstant) return false;
  }
  return true;
}

bool inputs_known(const RuleContext& context) {
  for (std::size_t k = 0; k < context.inputs.size(); ++k) {
    if (context.inputs[k] != nullptr && context.constants[k] == nullptr) return false;
  }
  return true;
}

bool broadcasts_to(const Shape& from, const Shape& to) {
  if (from.size() > to.size()) return false;
  for (std::size_t back = 1; back <= from.size(); ++back) {
    const std::int64_t extent = from[from.size() - back];
    if (extent != 1 && extent != to[to.size() - back]) return false;
  }
  return true;
}

bool fits(const FoldRow& row, const RuleContext& context, const TensorType& output) {
  for (std::size_t k = 0; k < std::max(row.least_inputs, context.inputs.size()); ++k) {
    if (!context.has_input(k)) {
      if (k < row.least_inputs) return false;
    } else if (row.broadcasts && !broadcasts_to(context.inputs[k]->shape, output.shape)) {
      return false;
    }
  }
  return true;
}

bool fill(const FoldRow& row, const FoldContext& context, Constant& constant) {
  try {
    return row.fill(context, constant);
  } catch (const InputError&) {
    return false;  // an axis out of range: the shapes came from the file, and disagree with the node
  }
}

}  // namespace

std::vector<std::optional<Constant>> fold(const RuleContext& context, const OutputTypes& types) {
  std::vector<std::optional<Constant>> result(types.size());
  if (!context.node.domain.empty() && context.node.domain != "ai.onnx") return result;
  const auto entry = fold_table().find(std::string_view(context.node.type));
  if (entry == fold_table().end() || !small(types)) return result;
  const bool shape_only = context.node.type == "Shape" || context.node.type == "Size";
  if (!shape_only && !inputs_known(context)) return result;

  for (std::size_t k = 0; k < types.size(); ++k) {
    if (!types[k] || !fits(entry->second, context, *types[k])) continue;
    Constant constant{.type = *types[k]};
    const auto count = static_cast<std::size_t>(element_count(constant.type.shape));
    // Without elements there is nothing to fill, however long the other axes are.
    const bool done = count == 0 || fill(entry->second, {context, k}, constant);
    if (done && constant.size() == count) result[k] = std::move(constant);
  }
  return result;
}

namespace {

struct DataTypeRow {
  int number;
  std::string_view name;
  ElementType type;
};

// TensorProto.DataType up to ONNX 1.23; 8 is a string, which has no fixed width.
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
    DataTypeRow{24, "float8e8m0", {8, true}},     DataTypeRow{25, "uint2", {2, false}},
    DataTypeRow{26, "int2", {2, false}},
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

namespace {

using onnx::TensorProto;

/// How constants of a type are kept: not at all, as integers, or as reals.
enum class Storage { none, integers, reals };

Storage storage_of(int data_type) {
  switch (data_type) {
    case TensorProto::FLOAT:
    case TensorProto::DOUBLE:
      return Storage::reals;
    case TensorProto::INT8:
    case TensorProto::INT16:
    case TensorProto::INT32:
    case TensorProto::INT64:
    case TensorProto::UINT8:
    case TensorProto::UINT16:
    case TensorProto::UINT32:
    case TensorProto::UINT64:
    case TensorProto::BOOL:
      return Storage::integers;
    default:
      return Storage::none;
  }
}

/// Raw data is little-endian by definition, as are all machines that Remora is built for.
static_assert(std::endian::native == std::endian::little);

template <class Stored, class Element>
void append_raw(const std::string& raw, std::vector<Element>& elements) {
  for (std::size_t offset = 0; offset + sizeof(Stored) <= raw.size(); offset += sizeof(Stored)) {
    Stored stored;
    std::memcpy(&stored, raw.data() + offset, sizeof(Stored));
    elements.push_back(static_cast<Element>(stored));
  }
}

void read_raw(const std::string& raw, Constant& constant) {
  switch (constant.type.data_type) {
    case TensorProto::FLOAT:
      return append_raw<float>(raw, constant.reals);
    case TensorProto::DOUBLE:
      return append_raw<double>(raw, constant.reals);
    case TensorProto::BOOL:
    case TensorProto::UINT8:
      return append_raw<std::uint8_t>(raw, constant.integers);
    case TensorProto::INT8:
      return append_raw<std::int8_t>(raw, constant.integers);
    case TensorProto::UINT16:
      return append_raw<std::uint16_t>(raw, constant.integers);
    case TensorProto::INT16:
      return append_raw<std::int16_t>(raw, constant.integers);
    case TensorProto::UINT32:
      return append_raw<std::uint32_t>(raw, constant.integers);
    case TensorProto::INT32:
      return append_raw<std::int32_t>(raw, constant.integers);
    default:
      return append_raw<std::int64_t>(raw, constant.integers);
  }
}

void read_fields(const TensorProto& tensor, Constant& constant) {
  const auto append_integer = [&](auto element) { constant.integers.push_back(static_cast<std::int64_t>(element)); };
  switch (constant.type.data_type) {
    case TensorProto::FLOAT:
      constant.reals.assign(tensor.float_data().begin(), tensor.float_data().end());
      return;
    case TensorProto::DOUBLE:
      constant.reals.assign(tensor.double_data().begin(), tensor.double_data().end());
      return;
    case TensorProto::INT64:
      constant.integers.assign(tensor.int64_data().begin(), tensor.int64_data().end());
      return;
    case TensorProto::UINT32:
    case TensorProto::UINT64:
      for (const auto element : tensor.uint64_data()) append_integer(element);
      return;
    default:
      constant.integers.assign(tensor.int32_data().begin(), tensor.int32_data().end());
  }
}

}  // namespace

bool Constant::real() const {
  return storage_of(type.data_type) == Storage::reals;
}

TensorType type_of(const TensorProto& tensor) {
  const std::string place = "initializer " + printable(tensor.name());
  if (!element_type(tensor.data_type())) {
    throw InputError(place,
                     data_type_name(tensor.data_type()) + " has no fixed size; only numeric tensors are supported");
  }
  TensorType type{.data_type = tensor.data_type(), .shape = {tensor.dims().begin(), tensor.dims().end()}};
  try {
    byte_size(type.shape, *element_type(type.data_type));
  } catch (const InputError& error) {
    throw InputError(place, error.what());
  }
  return type;
}

std::optional<Constant> read_constant(const TensorProto& tensor) {
  if (storage_of(tensor.data_type()) == Storage::none) return std::nullopt;
  if (tensor.data_location() == TensorProto::EXTERNAL) return std::nullopt;
  Constant constant{.type = type_of(tensor)};
  const std::int64_t count = element_count(constant.type.shape);
  if (count > kLargestConstant) return std::nullopt;
  if (tensor.has_raw_data()) {
    read_raw(tensor.raw_data(), constant);
  } else {
    read_fields(tensor, constant);
  }
  // A file may be stripped of its weights: dims are enough.
  if (constant.size() == 0 && count > 0) return std::nullopt;
  if (static_cast<std::int64_t>(constant.size()) != count) {
    throw InputError("initializer " + printable(tensor.name()),
                     "has data for " + std::to_string(constant.size()) + " elements, but its shape " +
                         shape_text(constant.type.shape) + " has " + std::to_string(count));
  }
  return constant;
}

TensorProto to_proto(const Constant& constant) {
  TensorProto tensor;
  tensor.set_data_type(constant.type.data_type);
  for (const std::int64_t extent : constant.type.shape) tensor.add_dims(extent);
  for (const double element : constant.reals) {
    if (constant.type.data_type == TensorProto::FLOAT) {
      tensor.add_float_data(static_cast<float>(element));
    } else {
      tensor.add_double_data(element);
    }
  }
  for (const std::int64_t element : constant.integers) {
    switch (constant.type.data_type) {
      case TensorProto::INT64:
        tensor.add_int64_data(element);
        break;
      case TensorProto::UINT32:
      case TensorProto::UINT64:
        tensor.add_uint64_data(static_cast<std::uint64_t>(element));
        break;
      default:
        tensor.add_int32_data(static_cast<std::int32_t>(element));
    }
  }
  return tensor;
}

}  // namespace remora::onnx_frontend
