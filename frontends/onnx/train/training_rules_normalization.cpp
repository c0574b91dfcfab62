// SPDX-License-Identifier: Apache-2.0
//
// Gradient rules of the normalizations and of softmax.
//
// A normalization's backward needs the statistics of its forward (mean and inverse deviation, a few bytes a row or a
// channel). Where the network has them as outputs they are read; where it doesn't, they are found again from the input:
// outputs so small are not worth a tensor of their own in the schedule.
#include "frontends/onnx/train/training_rules.hpp"

namespace remora::onnx_frontend {

void add_normalization_rules(RuleTable& table) {
  table.add({"LayerNormalization"}, {.operands = {{.of = 0, .inputs = {0, 1}, .outputs = {1, 2}},
                                                  {.of = 1, .inputs = {0}, .outputs = {1, 2}},
                                                  {.of = 2}},
                                     .differentiable_outputs = 1});
  // Training uses the statistics of the batch: the running ones (inputs 3 and 4) are neither read nor differentiated.
  // Outputs 3 and 4 are the saved statistics of opsets before 14.
  table.add({"BatchNormalization"}, {.operands = {{.of = 0, .inputs = {0, 1}, .outputs = {3, 4}},
                                                  {.of = 1, .inputs = {0}, .outputs = {3, 4}},
                                                  {.of = 2}},
                                     .differentiable_outputs = 1});
  table.add({"InstanceNormalization", "GroupNormalization"},
            {.operands = {{.of = 0, .inputs = {0, 1}}, {.of = 1, .inputs = {0}}, {.of = 2}}});
  const Rule root_mean_square{
      .operands = {{.of = 0, .inputs = {0, 1}, .outputs = {1}}, {.of = 1, .inputs = {0}, .outputs = {1}}},
      .differentiable_outputs = 1};
  table.add({"RMSNormalization", "SimplifiedLayerNormalization"}, root_mean_square);
  table.add({"MeanVarianceNormalization"}, {.operands = {{.of = 0, .inputs = {0}}}});
  table.add({"LpNormalization", "LRN"}, {.operands = {{.of = 0, .inputs = {0}, .outputs = {0}}}});
  table.add({"Softmax", "LogSoftmax"}, {.operands = {{.of = 0, .outputs = {0}}}});
}

}  // namespace remora::onnx_frontend
