// SPDX-License-Identifier: Apache-2.0
//
// The rules that find_shape_rule's table lists, grouped by what they do. Each throws InputError if inputs do not fit.
#pragma once

#include "frontends/onnx/infer/shape_rules.hpp"

namespace remora::onnx_frontend {

// shape_rules.cpp: the shape of an input.
OutputTypes same_as_first(const RuleContext& context);
OutputTypes broadcast(const RuleContext& context);
OutputTypes layer_normalization(const RuleContext& context);
OutputTypes quantize(const RuleContext& context);
OutputTypes dequantize(const RuleContext& context);

// shape_rules_layout.cpp: extents cut, joined, grown, counted.
OutputTypes reduce(const RuleContext& context);
OutputTypes split(const RuleContext& context);
OutputTypes pad(const RuleContext& context);
OutputTypes non_zero(const RuleContext& context);
OutputTypes center_crop_pad(const RuleContext& context);
OutputTypes range(const RuleContext& context);

// shape_rules_spatial.cpp: images and volumes.
OutputTypes pool(const RuleContext& context);
OutputTypes unpool(const RuleContext& context);
OutputTypes resize(const RuleContext& context);
OutputTypes deformable_convolution(const RuleContext& context);
OutputTypes column_to_image(const RuleContext& context);
OutputTypes grid_sample(const RuleContext& context);
OutputTypes affine_grid(const RuleContext& context);

// shape_rules_products.cpp
OutputTypes attention(const RuleContext& context);
OutputTypes matrix_product(const RuleContext& context);
OutputTypes einsum(const RuleContext& context);

}  // namespace remora::onnx_frontend
