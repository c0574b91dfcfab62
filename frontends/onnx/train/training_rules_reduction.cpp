// SPDX-License-Identifier: Apache-2.0
//
// Gradient rules of the reductions. The axes (input 1 of newer opsets) are known integers and get no gradient.
#include "frontends/onnx/train/training_rules.hpp"

namespace remora::onnx_frontend {

void add_reduction_rules(RuleTable& table) {
  table.add({"ReduceSum", "ReduceMean"}, {.operands = {{.of = 0}}});
  table.add({"ReduceL1", "ReduceSumSquare"}, {.operands = {{.of = 0, .inputs = {0}}}});
  // y = ln(sum x): grad x = grad y * exp(-y)
  table.add({"ReduceLogSum"}, {.operands = {{.of = 0, .outputs = {0}}}});
  table.add({"ReduceMax", "ReduceMin", "ReduceProd", "ReduceL2", "ReduceLogSumExp"},
            {.operands = {{.of = 0, .inputs = {0}, .outputs = {0}}}});
}

}  // namespace remora::onnx_frontend
