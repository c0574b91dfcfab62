// SPDX-License-Identifier: Apache-2.0
//
// Gradient rules of the ops that move elements: their gradients move them back, and read indices and masks at most.
#include "frontends/onnx/train/training_rules.hpp"

namespace remora::onnx_frontend {

namespace {

/// data, indices, updates: overwritten data gets no gradient, added data gets all of it. A product or an extremum of
/// data and updates reads everything.
Rule scatter(const Node& node) {
  const std::string reduction = node.attributes.get("reduction", std::string("none"));
  if (reduction == "add") return {.operands = {{.of = 0}, {.of = 2, .inputs = {1}}}};
  if (reduction == "none") return {.operands = {{.of = 0, .inputs = {1}}, {.of = 2, .inputs = {1}}}};
  return {.operands = {{.of = 0, .inputs = {0, 1, 2}, .outputs = {0}}, {.of = 2, .inputs = {0, 1, 2}, .outputs = {0}}}};
}

/// The indices if they are an output that the network uses; else they are found again.
Rule top_k(const Node& node) {
  if (node.outputs.size() > 1 && node.outputs[1].valid()) return {.operands = {{.of = 0, .outputs = {1}}}};
  return {.operands = {{.of = 0, .inputs = {0, 1}, .outputs = {0}}}};
}

}  // namespace

void add_movement_rules(RuleTable& table) {
  const Rule linear{.operands = {{.of = 0}}};
  table.add({"Reshape",  "Flatten", "Squeeze", "Unsqueeze", "Identity",      "Transpose",    "Slice",
             "Split",    "Pad",     "Tile",    "Expand",    "DepthToSpace",  "SpaceToDepth", "Resize",
             "Upsample", "CumSum",  "Trilu",   "Crop",      "CenterCropPad", "Col2Im",       "AffineGrid"},
            linear);
  table.add({"Concat"}, {.operands = {{.of = kEvery}}});
  table.add({"Gather", "GatherElements", "GatherND", "Compress", "ReverseSequence"},
            {.operands = {{.of = 0, .inputs = {1}}}});
  table.add({"ScatterND", "ScatterElements", "Scatter"}, scatter);
  table.add({"TopK"}, top_k);
  table.add({"GridSample"}, {.operands = {{.of = 0, .inputs = {1}}, {.of = 1, .inputs = {0, 1}}}});
  table.add({"Dropout"}, {.operands = {{.of = 0, .outputs = {1}}}, .differentiable_outputs = 1, .mask = 1});
}

}  // namespace remora::onnx_frontend
