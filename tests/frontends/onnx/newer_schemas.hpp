// SPDX-License-Identifier: Apache-2.0
//
// Schemas of ops that the installed libonnx does not have, or has in an older form, and that Remora's own rules read
// (shape_rules.hpp): no more of each than mutated_nodes.hpp draws from.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "onnx/defs/schema.h"
#include "onnx/onnx_pb.h"

namespace remora::onnx_frontend::test {

/// A line: domain (- for the default one), name, opset; inputs (f float, i int64, u uint8) and how many must be there;
/// outputs; attributes (:i number, :l list, :s text).
inline onnx::OpSchema schema_of(const std::string& line) {
  std::istringstream words(line);
  std::string domain;
  std::string name;
  std::string inputs;
  std::string attribute;
  int since = 0;
  int least = 0;
  int outputs = 0;
  words >> domain >> name >> since >> inputs >> least >> outputs;
  onnx::OpSchema schema(name, __FILE__, __LINE__);
  schema.SetDomain(domain == "-" ? "" : domain).SinceVersion(since);
  for (int k = 0; k < static_cast<int>(inputs.size()); ++k) {
    const char kind = inputs[static_cast<std::size_t>(k)];
    const std::string type = kind == 'f' ? "tensor(float)" : kind == 'i' ? "tensor(int64)" : "tensor(uint8)";
    schema.Input(k, "i" + std::to_string(k), "", type, k < least ? onnx::OpSchema::Single : onnx::OpSchema::Optional);
  }
  for (int k = 0; k < outputs; ++k) {
    const auto option = k == 0 ? onnx::OpSchema::Single : onnx::OpSchema::Optional;
    schema.Output(k, "o" + std::to_string(k), "", "tensor(float)", option);
  }
  while (words >> attribute) {
    const auto type = attribute.back() == 'i'   ? onnx::AttributeProto::INT
                      : attribute.back() == 'l' ? onnx::AttributeProto::INTS
                                                : onnx::AttributeProto::STRING;
    schema.Attr(attribute.substr(0, attribute.size() - 2), "", type, false);
  }
  schema.Finalize();
  return schema;
}

inline std::vector<onnx::OpSchema> newer_schemas() {
  std::vector<onnx::OpSchema> schemas;
  for (const char* const line : {
           "- AffineGrid 20 fi 2 1 align_corners:i",
           "- Attention 23 ffffff 3 4 q_num_heads:i kv_num_heads:i",
           "- AveragePool 19 f 1 1 kernel_shape:l strides:l dilations:l pads:l ceil_mode:i auto_pad:s",
           "- BitwiseAnd 18 ii 2 1",
           "- CenterCropPad 18 fi 2 1 axes:l",
           "- Col2Im 18 fii 3 1 dilations:l pads:l strides:l",
           "- DeformConv 19 fffff 3 1 dilations:l pads:l strides:l kernel_shape:l group:i",
           "- DequantizeLinear 21 uff 2 1 axis:i block_size:i output_dtype:i",
           "- Gelu 20 f 1 1 approximate:s",
           "- GridSample 20 ff 2 1 mode:s",
           "- GroupNormalization 21 fff 3 1 num_groups:i",
           "- LpPool 18 f 1 1 kernel_shape:l strides:l dilations:l pads:l ceil_mode:i p:i auto_pad:s",
           "- MaxPool 22 f 1 2 kernel_shape:l strides:l dilations:l pads:l ceil_mode:i auto_pad:s",
           "- Pad 21 fifi 2 1 mode:s",
           "- QuantizeLinear 21 ffu 2 1 axis:i block_size:i output_dtype:i",
           "- RMSNormalization 23 ff 2 1 axis:i",
           "- ReduceMax 20 fi 1 1 keepdims:i noop_with_empty_axes:i",
           "- ReduceMean 18 fi 1 1 keepdims:i noop_with_empty_axes:i",
           "- Resize 19 fffi 1 1 axes:l mode:s keep_aspect_ratio_policy:s coordinate_transformation_mode:s",
           "- RotaryEmbedding 23 fffi 3 1 num_heads:i interleaved:i",
           "- Split 18 fi 1 4 axis:i num_outputs:i",
           "ai.onnx.preview FlexAttention 1 fff 3 1 q_num_heads:i kv_num_heads:i",
           "com.microsoft Attention 1 ffffff 2 2 num_heads:i qkv_hidden_sizes:l",
           "com.microsoft BiasGelu 1 ff 2 1",
           "com.microsoft EmbedLayerNormalization 1 iifffff 3 3",
           "com.microsoft FusedConv 1 ffff 2 1 kernel_shape:l strides:l dilations:l pads:l group:i auto_pad:s",
           "com.microsoft FusedMatMul 1 ff 2 1 transA:i transB:i transBatchA:i",
           "com.microsoft GroupQueryAttention 1 fffffiiff 1 3 num_heads:i kv_num_heads:i",
           "com.microsoft MatMulNBits 1 fuff 3 1 K:i N:i bits:i block_size:i",
           "com.microsoft MultiHeadAttention 1 ffffffff 1 3 num_heads:i",
           "com.microsoft QLinearAdd 1 ufuufuf 6 1",
           "com.microsoft QLinearAveragePool 1 ufufu 4 1 kernel_shape:l strides:l pads:l ceil_mode:i auto_pad:s",
           "com.microsoft QLinearConcat 1 fuufuufu 5 1 axis:i",
           "com.microsoft QLinearGlobalAveragePool 1 ufufu 4 1 channels_last:i",
           "com.microsoft SkipLayerNormalization 1 fffff 3 4",
       }) {
    schemas.push_back(schema_of(line));
  }
  return schemas;
}

}  // namespace remora::onnx_frontend::test
