// SPDX-License-Identifier: Apache-2.0
//
// What libonnx 1.12's inference functions take for granted and crash without: found by running all of them on random
// nodes. A node that does not hold it is wrong anyway, so it is an error of the node here, not a crash there.
#pragma once

#include <string>

#include "frontends/onnx/infer/shape_rules.hpp"

namespace remora::onnx_frontend {

/// Why libonnx must not see this node, one line; empty if it may.
std::string schema_objection(const RuleContext& context);

}  // namespace remora::onnx_frontend
