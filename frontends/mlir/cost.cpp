// SPDX-License-Identifier: Apache-2.0
#include "frontends/mlir/cost.hpp"

#include <algorithm>

#include "llvm/ADT/StringSwitch.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "model/types.hpp"

namespace remora::mlir_frontend {
namespace {

/// The product of static extents; nothing if one is dynamic.
std::optional<std::int64_t> product(llvm::ArrayRef<std::int64_t> extents) {
  std::int64_t result = 1;
  for (const std::int64_t extent : extents) {
    if (mlir::ShapedType::isDynamic(extent)) return std::nullopt;
    result = saturating_product(result, extent);
  }
  return result;
}

std::optional<std::int64_t> elements(mlir::Type type) {
  const auto shaped = mlir::dyn_cast<mlir::RankedTensorType>(type);
  return shaped ? product(shaped.getShape()) : std::optional<std::int64_t>(1);
}

/// As frontends/onnx counts them.
std::int64_t scalar_cost(mlir::Operation& op) {
  if (mlir::isa<mlir::linalg::YieldOp, mlir::tensor::YieldOp>(op)) return 0;
  return llvm::StringSwitch<std::int64_t>(op.getName().getStringRef())
      .Cases("arith.constant", "linalg.index", "arith.extf", "arith.truncf", "arith.bitcast", "arith.index_cast", 0)
      .Cases("math.exp", "math.exp2", "math.expm1", "math.log", "math.log2", "math.log1p", 4)
      .Cases("math.sin", "math.cos", "math.tan", "math.atan", "math.atan2", 6)
      .Cases("math.tanh", "math.sinh", "math.cosh", 6)
      .Cases("math.erf", "math.powf", 8)
      .Default(1);
}

std::int64_t body_cost(mlir::Operation& op) {
  std::int64_t total = 0;
  for (mlir::Region& region : op.getRegions()) {
    region.walk([&](mlir::Operation* inner) { total = saturating_sum(total, scalar_cost(*inner)); });
  }
  return std::max<std::int64_t>(1, total);
}

/// The number of elements of all its results, or of the source for insertions, which write only that.
std::optional<std::int64_t> moved_elements(mlir::Operation& op) {
  if (auto insertion = mlir::dyn_cast<mlir::tensor::InsertSliceOp>(op)) return elements(insertion.getSourceType());
  std::int64_t total = 0;
  for (const mlir::Type type : op.getResultTypes()) {
    const auto one = elements(type);
    if (!one) return std::nullopt;
    total = saturating_sum(total, *one);
  }
  return total;
}

/// Bytes that LLVM allocates for a number in an array: a power of two up to 16, multiples of 16 beyond.
std::int64_t allocated_bytes(unsigned bits) {
  constexpr std::int64_t kByte = 8;
  constexpr std::int64_t kWidest = 16;
  const std::int64_t bytes = (static_cast<std::int64_t>(bits) + kByte - 1) / kByte;
  if (bytes > kWidest) return (bytes + kWidest - 1) / kWidest * kWidest;
  std::int64_t result = 1;
  while (result < bytes) result *= 2;
  return result;
}

}  // namespace

std::optional<std::int64_t> flops(mlir::Operation& op) {
  if (auto structured = mlir::dyn_cast<mlir::linalg::LinalgOp>(op)) {
    const auto iterations = product(structured.getStaticLoopRanges());
    if (!iterations) return std::nullopt;
    return saturating_product(*iterations, body_cost(op));
  }
  const auto moved = moved_elements(op);
  if (!moved) return std::nullopt;
  if (mlir::isa<mlir::linalg::SoftmaxOp>(op)) {
    constexpr std::int64_t kSoftmax = 5;
    return saturating_product(kSoftmax, *moved);
  }
  if (mlir::isa<mlir::tensor::GenerateOp>(op)) return saturating_product(*moved, body_cost(op));
  if (mlir::isa<mlir::tensor::EmptyOp>(op)) return 0;
  const llvm::StringRef dialect = op.getName().getDialectNamespace();
  if (dialect == "tensor") return moved;
  // Whatever these do to tensors, they do to each element.
  if (dialect == "arith" || dialect == "math")
    return saturating_product(*moved, std::max<std::int64_t>(1, scalar_cost(op)));
  return std::nullopt;
}

std::optional<std::int64_t> tensor_bytes(mlir::Type type) {
  const auto tensor = mlir::dyn_cast<mlir::RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape() || tensor.getEncoding()) return std::nullopt;
  mlir::Type element = tensor.getElementType();
  std::int64_t parts = 1;
  if (const auto complex = mlir::dyn_cast<mlir::ComplexType>(element)) {
    element = complex.getElementType();
    parts = 2;
  }
  constexpr std::int64_t kIndexBytes = 8;
  std::int64_t bytes = kIndexBytes;
  if (element.isIntOrFloat()) {
    bytes = allocated_bytes(element.getIntOrFloatBitWidth());
  } else if (!element.isIndex()) {
    return std::nullopt;
  }
  const std::int64_t total = saturating_product(saturating_product(bytes, parts), *product(tensor.getShape()));
  return total < kSaturated ? std::optional<std::int64_t>(total) : std::nullopt;
}

namespace {

/// True if the op's regions, if any, are scalar bodies without effect on memory.
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

/// The op's attributes, each read on its own.
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
  if (!vouched && !transparent(op)) return "a region other than that of linalg, tensor.pad or tensor.generate";
  if (!vouched && !free_of_effects(op)) return "side effects, or an op with unknown effects";
  if (!only_tensors(op)) return "a result that is not a tensor";
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
  const auto stated = interface_cost(op);
  const auto counted = flops(op);
  if (stated) result.cost = *stated;
  if (!stated && counted) result.cost.duration = *counted;
  if (attributes.cost) result.cost.duration = *attributes.cost;
  if (attributes.workspace) result.cost.workspace = *attributes.workspace;
  if (attributes.recompute) result.cost.recompute = *attributes.recompute;
  if (result.cost.duration < 0 || result.cost.workspace < 0) result.error = "its CostInterface gave a negative amount";
  const bool vouched = result.cost.recompute && (attributes.recompute || stated);
  result.obstacle = result.cost.recompute ? obstacle_of(op, vouched, attributes.cost || stated || counted) : "";
  result.cost.recompute = result.cost.recompute && result.obstacle.empty();
  return result;
}

}  // namespace remora::mlir_frontend
