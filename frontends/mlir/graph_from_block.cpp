// SPDX-License-Identifier: Apache-2.0
#include "frontends/mlir/graph_from_block.hpp"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "frontends/mlir/cost.hpp"
#include "llvm/ADT/SetVector.h"
#include "mlir/IR/BuiltinTypes.h"
#include "model/types.hpp"

namespace remora::mlir_frontend {
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
