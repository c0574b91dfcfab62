// SPDX-License-Identifier: Apache-2.0
//
// What one op costs and whether it may run again, from the first source that knows: the op's attributes, its dialect's
// CostInterface (cost_interface.hpp), the table of flops.hpp.
#pragma once

#include <string>

#include "frontends/mlir/cost_interface.hpp"

namespace remora::mlir_frontend {

struct JudgedOp {
  OpCost cost{};
  /// Why the op must be left alone, for a remark; empty if it may run again.
  std::string obstacle{};
  /// What is wrong with its attributes; empty if nothing.
  std::string error{};
};

JudgedOp judge(mlir::Operation& op);

/// Whether the op says something of its cost itself, in an attribute.
bool has_cost_attribute(mlir::Operation& op);

/// Whether MLIR knows that the op, with all inside it, neither reads nor writes memory.
bool free_of_effects(mlir::Operation& op);

}  // namespace remora::mlir_frontend
