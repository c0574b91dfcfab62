// SPDX-License-Identifier: Apache-2.0
//
// Ops that no gradient flows through: their derivative is zero almost everywhere, or their result doesn't depend on the
// values of their inputs. Ops with integer results alone need no entry, for integers carry no gradient, but the usual
// ones are listed so that they never look unknown.
#include "frontends/onnx/train/training_rules.hpp"

namespace remora::onnx_frontend {

void add_stopping_rules(RuleTable& table) {
  const Rule stop{};
  table.add({"Sign", "Floor", "Ceil", "Round", "Hardmax"}, stop);
  table.add({"ArgMax", "ArgMin", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "IsNaN", "IsInf",
             "NonZero", "NonMaxSuppression"},
            stop);
  table.add({"Not", "And", "Or", "Xor", "BitShift", "BitwiseNot", "BitwiseAnd", "BitwiseOr", "BitwiseXor"}, stop);
  table.add({"Shape", "Size", "Constant", "ConstantOfShape", "EyeLike", "Range", "OneHot"}, stop);
  table.add({"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"},
            stop);
  table.add({"HannWindow", "HammingWindow", "BlackmanWindow", "MelWeightMatrix"}, stop);
  // Quantized inference: there is no straight-through estimator here.
  table.add({"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul",
             "MatMulInteger", "ConvInteger"},
            stop);
}

}  // namespace remora::onnx_frontend
