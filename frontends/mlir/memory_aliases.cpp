// SPDX-License-Identifier: Apache-2.0
#include "frontends/mlir/memory_aliases.hpp"

#include "llvm/ADT/STLExtras.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace remora::mlir_frontend {
namespace {

/// Reads one kind of value and gives the other. What is written into a memref that was made of a tensor changes the
/// tensor, too.
bool turns_memory_into_tensors_or_back(mlir::Operation& op) {
  const auto is_tensor = [](mlir::Type type) { return mlir::isa<mlir::TensorType>(type); };
  const auto is_memory = [](mlir::Type type) { return mlir::isa<mlir::BaseMemRefType>(type); };
  return (llvm::any_of(op.getOperandTypes(), is_memory) && llvm::any_of(op.getResultTypes(), is_tensor)) ||
         (llvm::any_of(op.getOperandTypes(), is_tensor) && llvm::any_of(op.getResultTypes(), is_memory));
}

/// With the ops inside it.
bool may_write(mlir::Operation& op) {
  if (mlir::isMemoryEffectFree(&op)) return false;
  const auto effects = mlir::getEffectsRecursively(&op);
  return !effects || llvm::any_of(*effects, [](const mlir::MemoryEffects::EffectInstance& effect) {
    return !mlir::isa<mlir::MemoryEffects::Read, mlir::MemoryEffects::Allocate>(effect.getEffect());
  });
}

}  // namespace

bool may_write_what_tensors_are_made_of(mlir::Block& block) {
  bool aliases = false;
  bool writes = false;
  for (mlir::Operation& outer : block.without_terminator()) {
    writes = writes || may_write(outer);
    outer.walk([&](mlir::Operation* op) { aliases = aliases || turns_memory_into_tensors_or_back(*op); });
  }
  return aliases && writes;
}

}  // namespace remora::mlir_frontend
