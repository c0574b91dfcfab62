// SPDX-License-Identifier: Apache-2.0
//
// Costs of ops, and if they may run again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "frontends/mlir/cost_interface.hpp"
#include "mlir/IR/Operation.h"
#include "mlir/IR/Types.h"

namespace remora::mlir_frontend {

// Costs of ops of linalg, tensor, arith and math: for each iteration of the static loop nest the scalar ops of the
// body, functions such as exp as several, and one at least, for moving an element is not free.
//
//     linalg.matmul 64x32x16          64 * 32 * 16 iterations, mulf + addf      65536
//     linalg.generic 64x64, tanh      64 * 64 iterations, tanh counts as 6      24576
//     linalg.transpose 64x64          64 * 64 iterations, an empty body          4096

/// Nothing for ops that are not known here and for dynamic shapes. Saturates at 2^62.
std::optional<std::int64_t> flops(mlir::Operation& op);

/// The bytes of a ranked tensor of static shape whose elements are numbers, each in the bytes that LLVM gives it in an
/// array (i1 in 1, i24 in 4, f80 in 16); nothing for every
/// other type and for more than 2^62.
std::optional<std::int64_t> tensor_bytes(mlir::Type type);

// Cost of one op, and if it may run again, from the first source that has it: the op's attributes, its dialect's
// CostInterface (cost_interface.hpp), the table of flops.

struct JudgedOp {
  OpCost cost{};
  /// Why the op must be left alone, for a remark; empty if it may run again.
  std::string obstacle{};
  /// Error in its attributes; empty if there is none.
  std::string error{};
};

JudgedOp judge(mlir::Operation& op);

/// True if the op says something of its cost itself, in an attribute.
bool has_cost_attribute(mlir::Operation& op);

/// True if MLIR knows that the op, with all inside it, neither reads nor writes memory.
bool free_of_effects(mlir::Operation& op);

}  // namespace remora::mlir_frontend
