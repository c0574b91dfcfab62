// SPDX-License-Identifier: Apache-2.0
#include "frontends/mlir/block_units.hpp"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "frontends/mlir/cost.hpp"
#include "llvm/ADT/SetVector.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/Interfaces/DestinationStyleOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/RegionUtils.h"
#include "model/types.hpp"

namespace remora::mlir_frontend {
namespace {

using mlir::memref::CollapseShapeOp;
using mlir::memref::ExpandShapeOp;
using mlir::memref::SubViewOp;

mlir::MemRefType row_major(mlir::Value value) {
  const auto type = mlir::cast<mlir::RankedTensorType>(value.getType());
  return mlir::MemRefType::get(type.getShape(), type.getElementType());
}

/// The type of the buffer that bufferization will give the value, a ranked tensor.
mlir::MemRefType buffer_of(mlir::Value value) {
  if (auto slice = value.getDefiningOp<mlir::tensor::ExtractSliceOp>()) {
    return mlir::cast<mlir::MemRefType>(
        SubViewOp::inferRankReducedResultType(slice.getType().getShape(), buffer_of(slice.getSource()),
                                              slice.getMixedOffsets(), slice.getMixedSizes(), slice.getMixedStrides()));
  }
  if (auto expansion = value.getDefiningOp<mlir::tensor::ExpandShapeOp>()) {
    const auto type = ExpandShapeOp::computeExpandedType(
        buffer_of(expansion.getSrc()), expansion.getResultType().getShape(), expansion.getReassociationIndices());
    if (mlir::succeeded(type)) return *type;
  }
  if (auto collapse = value.getDefiningOp<mlir::tensor::CollapseShapeOp>(); collapse && is_view(*collapse)) {
    return CollapseShapeOp::computeCollapsedType(buffer_of(collapse.getSrc()), collapse.getReassociationIndices());
  }
  auto cast = value.getDefiningOp<mlir::tensor::CastOp>();
  if (cast && mlir::isa<mlir::RankedTensorType>(cast.getSource().getType())) return buffer_of(cast.getSource());
  return row_major(value);
}

}  // namespace

bool is_view(mlir::Operation& op) {
  if (auto collapse = mlir::dyn_cast<mlir::tensor::CollapseShapeOp>(op)) {
    return CollapseShapeOp::isGuaranteedCollapsible(buffer_of(collapse.getSrc()), collapse.getReassociationIndices());
  }
  if (auto reshape = mlir::dyn_cast<mlir::tensor::ReshapeOp>(op)) {
    const mlir::Value source = reshape.getSource();
    return mlir::isa<mlir::RankedTensorType>(source.getType()) && buffer_of(source).getLayout().isIdentity();
  }
  return mlir::isa<mlir::tensor::CastOp, mlir::tensor::ExpandShapeOp, mlir::tensor::ExtractSliceOp>(op);
}

namespace {

using mlir::tensor::InsertSliceOp;

/// True if the op is a constant. Traits would say so, but a template's type id is made from its name as the compiler
/// spells it, and MLIR may come from another compiler: no hasTrait here.
bool is_constant(mlir::Operation& op) {
  if (op.getNumOperands() != 0 || op.getNumRegions() != 0 || !mlir::isMemoryEffectFree(&op)) return false;
  llvm::SmallVector<mlir::OpFoldResult> folded;
  return mlir::succeeded(op.fold({}, folded)) && folded.size() == 1 && mlir::isa<mlir::Attribute>(folded.front());
}

/// Makes a buffer whose contents nobody knows.
bool makes_undefined(mlir::Operation& op) {
  return mlir::isa<mlir::tensor::EmptyOp>(op) ||
         (op.getName().getStringRef() == "bufferization.alloc_tensor" && op.getNumOperands() == 0);
}

/// True if the op writes its result into the operand.
bool is_destination_of(mlir::OpOperand& use) {
  auto style = mlir::dyn_cast<mlir::DestinationStyleOpInterface>(use.getOwner());
  return style && style.isDpsInit(&use);
}

class Grouping {
 public:
  explicit Grouping(mlir::Block& block) : block_(block) {}

  BlockUnits run() {
    for (mlir::Operation& op : block_.without_terminator()) {
      if (is_resident(op)) {
        result_.residents.insert(&op);
      } else if (!op.use_empty() && is_view(op) && !source_is_overwritten(op)) {
        result_.views.insert(&op);
      } else if (is_destination(op)) {
        result_.destinations.insert(&op);
      }
    }
    for (mlir::Operation& op : block_.without_terminator()) {
      if (!result_.residents.contains(&op) && !result_.views.contains(&op) && !result_.destinations.contains(&op)) {
        add_unit(op);
      }
    }
    return std::move(result_);
  }

 private:
  bool is_resident(mlir::Operation& op) const {
    if (is_constant(op)) return true;
    const auto is_tensor = [](mlir::Type type) { return mlir::isa<mlir::TensorType>(type); };
    return op.getNumRegions() == 0 && mlir::isPure(&op) && op.getNumResults() > 0 &&
           llvm::none_of(op.getResultTypes(), is_tensor) &&
           llvm::all_of(op.getOperands(), [&](mlir::Value value) { return stays(value); });
  }

  /// True if some op writes into the buffer that the view would share. Bufferization then copies the viewed or the
  /// written tensor.
  static bool source_is_overwritten(mlir::Operation& view) {
    mlir::Value source = view.getOperand(0);
    while (source.getDefiningOp() != nullptr && is_view(*source.getDefiningOp())) {
      source = source.getDefiningOp()->getOperand(0);
    }
    return llvm::any_of(source.getUses(), is_destination_of);
  }

  /// True if the value is permanently resident.
  bool stays(mlir::Value value) const {
    mlir::Operation* const producer = value.getDefiningOp();
    return producer == nullptr || result_.residents.contains(producer);
  }

  bool used_in_block_only_by_ops(mlir::Operation& op) const {
    return llvm::all_of(op.getUsers(), [&](mlir::Operation* user) {
      return user->getBlock() == &block_ && user != block_.getTerminator();
    });
  }

  bool only_written_into(mlir::Operation& op) const {
    return used_in_block_only_by_ops(op) && llvm::all_of(op.getUses(), is_destination_of);
  }

  /// Decided in block order: what an op is written into comes before it.
  bool is_destination(mlir::Operation& op) const {
    if (op.use_empty() || op.getNumResults() != 1 || has_cost_attribute(op)) return false;
    if (makes_undefined(op)) {
      // Nobody can tell one undefined tensor from another, so every kind of use gets its own.
      return used_in_block_only_by_ops(op) &&
             llvm::none_of(op.getUsers(), [](mlir::Operation* user) { return is_view(*user); });
    }
    if (!only_written_into(op)) return false;
    auto style = mlir::dyn_cast<mlir::DestinationStyleOpInterface>(op);
    if (!style || !written_into_destination(style)) return false;
    if (mlir::isa<mlir::linalg::FillOp>(op)) return true;
    if (!op.hasOneUse()) return false;
    if (mlir::isa<InsertSliceOp>(op)) return mlir::isa<InsertSliceOp>(*op.user_begin());
    return mlir::isa<mlir::linalg::LinalgOp>(op) && free_of_effects(op) &&
           llvm::all_of(style.getDpsInputs(), [&](mlir::Value value) { return stays(value); });
  }

  bool written_into_destination(mlir::DestinationStyleOpInterface style) const {
    return llvm::all_of(style.getDpsInits(), [&](mlir::Value value) {
      return value.getDefiningOp() != nullptr && result_.destinations.contains(value.getDefiningOp());
    });
  }

  void add_unit(mlir::Operation& op) {
    Unit unit;
    llvm::SetVector<mlir::Operation*> ops;
    collect(op, ops);
    unit.ops.assign(ops.begin(), ops.end());
    JudgedOp judged = judge(op);
    if (!judged.error.empty() && result_.faulty == nullptr) {
      result_.faulty = &op;
      result_.fault = judged.error;
    }
    unit.cost = judged.cost;
    unit.obstacle = std::move(judged.obstacle);
    unit.effects = !free_of_effects(op) && !judged.cost.recompute;
    unit.guarded = !mlir::isSpeculatable(&op);
    for (mlir::Operation* const destination : llvm::ArrayRef(unit.ops).drop_back()) {
      unit.cost.duration = saturating_sum(unit.cost.duration, flops(*destination).value_or(0));
    }
    unit.cost.workspace = saturating_sum(unit.cost.workspace, read_empties(op));
    result_.units.push_back(std::move(unit));
  }

  /// The op's destinations, theirs first.
  void collect(mlir::Operation& op, llvm::SetVector<mlir::Operation*>& ops) const {
    for (const mlir::Value value : op.getOperands()) {
      mlir::Operation* const producer = value.getDefiningOp();
      if (producer != nullptr && result_.destinations.contains(producer)) collect(*producer, ops);
    }
    ops.insert(&op);
  }

  /// Empty tensors that the op does not write into get a buffer beside its results: the window of a pooling op.
  static std::int64_t read_empties(mlir::Operation& op) {
    std::int64_t total = 0;
    for (mlir::OpOperand& use : op.getOpOperands()) {
      mlir::Operation* const producer = use.get().getDefiningOp();
      if (producer == nullptr || !makes_undefined(*producer) || is_destination_of(use)) continue;
      total = saturating_sum(total, tensor_bytes(use.get().getType()).value_or(0));
    }
    return total;
  }

  mlir::Block& block_;
  BlockUnits result_{};
};

}  // namespace

BlockUnits find_units(mlir::Block& block) {
  return Grouping(block).run();
}

llvm::SmallVector<mlir::Value> values_read(mlir::Operation& op) {
  llvm::SetVector<mlir::Value> values(op.operand_begin(), op.operand_end());
  mlir::getUsedValuesDefinedAbove(op.getRegions(), values);
  return values.takeVector();
}

namespace {

/// Where the op stands in its file, as the text of a JSON object; empty if that is not known.
std::string location_of(mlir::Operation& op) {
  const auto place = op.getLoc()->findInstanceOf<mlir::FileLineColLoc>();
  if (!place) return "";
  const std::string text =
      place.getFilename().str() + ":" + std::to_string(place.getLine()) + ":" + std::to_string(place.getColumn());
  const nlohmann::json object{{"location", text}};
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

class Builder {
 public:
  Builder(mlir::Block& block, const BlockUnits& units, Residents residents)
      : block_(block), units_(units), residents_(residents) {}

  Graph build(std::string name) {
    graph_.name = std::move(name);
    graph_.meta = R"({"source": "mlir", "duration_unit": "flop"})";
    add_residents();
    for (std::size_t k = 0; k < units_.units.size(); ++k) add_unit(k);
    for (const mlir::Value value : block_.getTerminator()->getOperands()) {
      for (const TensorId tensor : tensors_behind(value)) {
        if (!is_input(tensor)) graph_.tensors[static_cast<std::size_t>(tensor)].keep = true;
      }
    }
    return std::move(graph_);
  }

 private:
  void add_residents() {
    for (const mlir::BlockArgument argument : block_.getArguments()) {
      add_input(argument, "argument." + std::to_string(argument.getArgNumber()));
    }
    int constants = 0;
    for (mlir::Operation& op : block_.without_terminator()) {
      if (!units_.residents.contains(&op)) continue;
      for (const mlir::Value value : op.getResults()) add_input(value, "constant." + std::to_string(constants++));
    }
    input_count_ = static_cast<std::int32_t>(graph_.tensors.size());
  }

  void add_input(mlir::Value value, std::string name) {
    const auto bytes = tensor_bytes(value.getType());
    if (!bytes) return;
    if (residents_ == Residents::fixed_memory) {
      graph_.fixed_memory = Bytes(saturating_sum(graph_.fixed_memory.count(), *bytes));
    } else {
      tensors_[value] = graph_.add_tensor(std::move(name), Bytes(*bytes));
    }
  }

  [[nodiscard]] bool is_input(TensorId tensor) const { return tensor < input_count_; }

  void add_unit(std::size_t k) {
    const Unit& unit = units_.units[k];
    mlir::Operation& op = unit.op();
    Op added;
    added.type = op.getName().getStringRef().str();
    added.name = added.type + "." + std::to_string(k);
    added.duration = Duration(unit.cost.duration);
    added.workspace = Bytes(unit.cost.workspace);
    added.recompute = unit.cost.recompute;
    added.extra = location_of(op);
    llvm::SetVector<std::int32_t> inputs;
    for (mlir::Operation* const part : unit.ops) {
      for (const mlir::Value value : values_read(*part)) {
        for (const TensorId tensor : tensors_behind(value)) inputs.insert(tensor);
      }
    }
    added.inputs.reserve(inputs.size());
    for (const std::int32_t tensor : inputs) added.inputs.emplace_back(tensor);
    added.outputs.reserve(op.getNumResults() + 1);
    for (const mlir::OpResult result : op.getResults()) {
      const TensorId tensor = graph_.add_tensor(added.name + "." + std::to_string(result.getResultNumber()),
                                                Bytes(tensor_bytes(result.getType()).value_or(0)));
      tensors_[result] = tensor;
      added.outputs.push_back(tensor);
    }
    // Every op of a graph has an output; this one's is its effect.
    if (added.outputs.empty()) added.outputs.push_back(graph_.add_tensor(added.name + ".effect", Bytes(0)));
    const OpId id(k);
    if ((unit.effects || unit.guarded) && last_effect_.valid()) added.after.push_back(last_effect_);
    if (unit.effects) last_effect_ = id;
    graph_.add_op(std::move(added));
  }

  /// The graph's tensors that must be there for the value to be: none for scalars that stay and for destinations, whose
  /// own inputs their unit reads; the source's for a view.
  llvm::SmallVector<TensorId> tensors_behind(mlir::Value value) const {
    const auto found = tensors_.find(value);
    if (found != tensors_.end()) return {found->second};
    llvm::SmallVector<TensorId> result;
    mlir::Operation* const producer = value.getDefiningOp();
    if (producer == nullptr || !units_.views.contains(producer)) return result;
    for (const mlir::Value source : producer->getOperands()) result.append(tensors_behind(source));
    return result;
  }

  mlir::Block& block_;
  const BlockUnits& units_;
  Residents residents_;
  Graph graph_{};
  llvm::DenseMap<mlir::Value, TensorId> tensors_{};
  std::int32_t input_count_ = 0;
  OpId last_effect_{};
};

}  // namespace

Graph graph_from_block(mlir::Block& block, const BlockUnits& units, std::string name, Residents residents) {
  return Builder(block, units, residents).build(std::move(name));
}

bool sums_fit(const Graph& graph, int max_computes) {
  std::int64_t bytes = graph.fixed_memory.count();
  for (const Tensor& tensor : graph.tensors) bytes = saturating_sum(bytes, tensor.size.count());
  std::int64_t duration = 0;
  std::int64_t workspace = 0;
  for (const Op& op : graph.ops) {
    duration = saturating_sum(duration, op.duration.count());
    workspace = std::max(workspace, op.workspace.count());
  }
  // An op runs at most once in each stage, and there are as many stages as ops.
  const auto computes = std::min(static_cast<std::int64_t>(max_computes), static_cast<std::int64_t>(graph.ops.size()));
  return saturating_sum(bytes, workspace) < kSaturated &&
         duration < kSaturated / std::max(computes, kComputesWithin64Bits);
}

}  // namespace remora::mlir_frontend
