// SPDX-License-Identifier: Apache-2.0
#include "frontends/mlir/cost.hpp"

#include "frontends/mlir/flops.hpp"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace remora::mlir_frontend {
namespace {

/// Whether the op's regions, if any, are scalar bodies that say nothing about memory.
bool transparent(mlir::Operation& op) {
  if (op.getNumRegions() == 0) return true;
  return mlir::isa<mlir::linalg::LinalgOp, mlir::tensor::PadOp, mlir::tensor::GenerateOp>(op);
}

bool has_dynamic_tensor(mlir::Operation& op) {
  const auto dynamic = [](mlir::Type type) { return mlir::isa<mlir::TensorType>(type) && !tensor_bytes(type); };
  return llvm::any_of(op.getResultTypes(), dynamic) || llvm::any_of(op.getOperandTypes(), dynamic);
}

bool only_tensors(mlir::Operation& op) {
  return op.getNumResults() > 0 &&
         llvm::all_of(op.getResultTypes(), [](mlir::Type type) { return mlir::isa<mlir::RankedTensorType>(type); });
}

/// Reads an amount that must not be negative, if it is there; false if it is something else.
bool read_amount(mlir::Operation& op, const char* name, std::optional<std::int64_t>& amount) {
  const mlir::Attribute attribute = op.getAttr(name);
  if (!attribute) return true;
  const auto number = mlir::dyn_cast<mlir::IntegerAttr>(attribute);
  if (!number || number.getValue().isNegative() || number.getValue().getActiveBits() > 62) return false;
  amount = number.getValue().getSExtValue();
  return true;
}

/// What the op's attributes say, each on its own.
struct Attributes {
  std::optional<std::int64_t> cost{};
  std::optional<std::int64_t> workspace{};
  std::optional<bool> recompute{};
  std::string error{};
};

Attributes read_attributes(mlir::Operation& op) {
  Attributes result;
  for (const auto& [name, amount] :
       {std::pair(kCostAttribute, &result.cost), std::pair(kWorkspaceAttribute, &result.workspace)}) {
    if (!read_amount(op, name, *amount)) {
      result.error = std::string(name) + " must be an integer from 0 to 2^62, such as " + name + " = 4096 : i64";
      return result;
    }
  }
  if (const mlir::Attribute attribute = op.getAttr(kRecomputeAttribute)) {
    const auto flag = mlir::dyn_cast<mlir::BoolAttr>(attribute);
    if (flag) {
      result.recompute = flag.getValue();
    } else {
      result.error = std::string(kRecomputeAttribute) + " must be true or false";
    }
  }
  return result;
}

std::optional<OpCost> interface_cost(mlir::Operation& op) {
  mlir::Dialect* const dialect = op.getDialect();
  if (dialect == nullptr) return std::nullopt;
  const auto* const costs = dialect->getRegisteredInterface<CostInterface>();
  return costs == nullptr ? std::nullopt : costs->cost(op);
}

/// `vouched`: an attribute or an interface allows the op to run again. `known`: somebody knows its cost.
std::string obstacle_of(mlir::Operation& op, bool vouched, bool known) {
  if (has_dynamic_tensor(op)) return "a tensor of dynamic shape, of an unknown element type or of 2^62 bytes and more";
  if (!vouched && !transparent(op)) return "a region that cannot be seen through";
  if (!vouched && !free_of_effects(op)) return "side effects, or an op that MLIR knows nothing of";
  if (!only_tensors(op)) return "a result that is no tensor";
  if (!known) return "an op of unknown cost (remora.cost, or a CostInterface of its dialect, tells it)";
  return "";
}

}  // namespace

bool has_cost_attribute(mlir::Operation& op) {
  return op.hasAttr(kCostAttribute) || op.hasAttr(kWorkspaceAttribute) || op.hasAttr(kRecomputeAttribute);
}

bool free_of_effects(mlir::Operation& op) {
  if (!mlir::isMemoryEffectFree(&op)) return false;
  const auto inner = op.walk([&](mlir::Operation* nested) {
    return mlir::isMemoryEffectFree(nested) ? mlir::WalkResult::advance() : mlir::WalkResult::interrupt();
  });
  return !inner.wasInterrupted();
}

JudgedOp judge(mlir::Operation& op) {
  JudgedOp result;
  const Attributes attributes = read_attributes(op);
  if (!attributes.error.empty()) {
    result.error = attributes.error;
    return result;
  }
  const auto told = interface_cost(op);
  const auto counted = flops(op);
  if (told) result.cost = *told;
  if (!told && counted) result.cost.duration = *counted;
  if (attributes.cost) result.cost.duration = *attributes.cost;
  if (attributes.workspace) result.cost.workspace = *attributes.workspace;
  if (attributes.recompute) result.cost.recompute = *attributes.recompute;
  if (result.cost.duration < 0 || result.cost.workspace < 0) result.error = "its CostInterface gave a negative amount";
  const bool vouched = result.cost.recompute && (attributes.recompute || told);
  result.obstacle = result.cost.recompute ? obstacle_of(op, vouched, attributes.cost || told || counted) : "";
  result.cost.recompute = result.cost.recompute && result.obstacle.empty();
  return result;
}

}  // namespace remora::mlir_frontend
