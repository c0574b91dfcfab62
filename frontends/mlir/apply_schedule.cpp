// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "frontends/mlir/block_units.hpp"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/IRMapping.h"

namespace remora::mlir_frontend {
namespace {

/// The largest number that an earlier run of the pass left in the block. No run comes as far as 2^62: such numbers are
/// somebody else's, and none of this run's will be equal to them.
std::int64_t last_copy(mlir::Block& block) {
  constexpr std::int64_t kMaximum = std::int64_t{1} << 62;
  std::int64_t last = 0;
  for (mlir::Operation& op : block) {
    const auto number = mlir::dyn_cast_or_null<mlir::IntegerAttr>(op.getAttr(kCopyAttribute));
    if (number && number.getType().isInteger(64) && number.getInt() < kMaximum) last = std::max(last, number.getInt());
  }
  return last;
}

/// Writes at the block's end, before the terminator, op after op. What has not been written yet stands before that, and
/// in the end only the residents do.
class Rewriter {
 public:
  Rewriter(mlir::Block& block, const BlockUnits& units)
      : block_(block), units_(units), builder_(block.getParentOp()->getContext()), copy_(last_copy(block)) {}

  void run(std::span<const OpId> sequence) {
    for (const OpId unit : sequence) emit_unit(units_.units[static_cast<std::size_t>(unit)]);
    redirect(*block_.getTerminator());
  }

 private:
  void emit_unit(const Unit& unit) {
    for (mlir::Operation* const op : unit.ops) {
      const bool clone = placed_.contains(op);
      mlir::Operation& put = place(*op);
      if (clone || op != &unit.op()) put.setAttr(kCopyAttribute, builder_.getI64IntegerAttr(++copy_));
    }
  }

  /// The op itself, or a clone if it stands already, reading the current copies; its results become the current ones.
  mlir::Operation& place(mlir::Operation& op) {
    mlir::Operation* put = &op;
    if (placed_.contains(&op)) {
      mlir::IRMapping copies = current_copies(op);
      builder_.setInsertionPoint(block_.getTerminator());
      put = builder_.clone(op, copies);
    } else {
      redirect(op);
      op.moveBefore(block_.getTerminator());
      placed_.insert(&op);
    }
    for (const auto& [original, result] : llvm::zip(op.getResults(), put->getResults())) {
      current_[original] = result;
      original_[result] = original;
    }
    return *put;
  }

  void redirect(mlir::Operation& op) {
    const mlir::IRMapping copies = current_copies(op);
    op.walk([&](mlir::Operation* inner) {
      for (mlir::OpOperand& use : inner->getOpOperands()) use.set(copies.lookupOrDefault(use.get()));
    });
  }

  mlir::IRMapping current_copies(mlir::Operation& op) {
    mlir::IRMapping copies;
    for (const mlir::Value value : values_read(op)) copies.map(value, current(value));
    return copies;
  }

  /// `value`: as in the block before, or any copy of it, for an op that stands reads the copies of its own time.
  mlir::Value current(mlir::Value value) {
    const auto found = original_.find(value);
    const mlir::Value original = found == original_.end() ? value : found->second;
    mlir::Operation* const producer = original.getDefiningOp();
    if (producer != nullptr && units_.views.contains(producer)) renew_view(*producer);
    const auto copy = current_.find(original);
    return copy == current_.end() ? original : copy->second;
  }

  /// Makes the current view one of the current copies of what it views.
  void renew_view(mlir::Operation& view) {
    llvm::SmallVector<mlir::Value> sources;
    for (const mlir::Value source : view.getOperands()) sources.push_back(current(source));
    const auto latest = current_.find(view.getResult(0));
    if (latest != current_.end() && llvm::equal(latest->second.getDefiningOp()->getOperands(), sources)) return;
    place(view);
  }

  mlir::Block& block_;
  const BlockUnits& units_;
  mlir::OpBuilder builder_;
  llvm::DenseSet<mlir::Operation*> placed_{};
  /// The latest copy of each value of the block before, and of each copy the value it is one of.
  llvm::DenseMap<mlir::Value, mlir::Value> current_{};
  llvm::DenseMap<mlir::Value, mlir::Value> original_{};
  std::int64_t copy_;
};

}  // namespace

bool destinations_in_place(const BlockUnits& units) {
  return llvm::all_of(units.units, [&](const Unit& unit) {
    for (mlir::Operation* op = unit.ops.front(); op != &unit.op(); op = op->getNextNode()) {
      const bool own = llvm::is_contained(unit.ops, op);
      if (!own && !units.residents.contains(op) && !units.views.contains(op)) return false;
    }
    return true;
  });
}

void apply_schedule(mlir::Block& block, const BlockUnits& units, std::span<const OpId> sequence) {
  Rewriter(block, units).run(sequence);
}

}  // namespace remora::mlir_frontend
