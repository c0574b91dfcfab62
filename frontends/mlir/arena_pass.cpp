// SPDX-License-Identifier: Apache-2.0
#include "frontends/mlir/arena_pass.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "frontends/mlir/cost.hpp"
#include "frontends/mlir/passes.hpp"
#include "frontends/mlir/plan.hpp"
#include "frontends/text/text.hpp"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallVector.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Pass/Pass.h"
#include "model/types.hpp"

namespace remora::mlir_frontend {
namespace {

using mlir::memref::AllocOp;

/// The life of one allocation in its block.
struct Life {
  AllocOp alloc{};
  std::int64_t bytes = 0;
  /// The first and the last op that use it, counted in the block.
  std::int64_t first = 0;
  std::int64_t last = 0;
  mlir::Operation* last_user = nullptr;
  llvm::SmallVector<mlir::Operation*> releases{};
  bool returned = false;
  /// Why it keeps its own allocation; empty if it need not.
  std::string obstacle{};
};

/// True if a value of the type may lead to memory.
bool may_hold_address(mlir::Type type) {
  return !type.isIntOrIndexOrFloat() && !mlir::isa<mlir::VectorType, mlir::ComplexType, mlir::NoneType>(type);
}

/// True if the user keeps the address or changes who releases it, so that the end of its use is unknown.
bool hides_memory(mlir::OpOperand& use) {
  const llvm::StringRef name = use.getOwner()->getName().getStringRef();
  if (use.getOwner()->getDialect() != nullptr && use.getOwner()->getDialect()->getNamespace() == "llvm") return true;
  return name == "memref.extract_aligned_pointer_as_index" || name == "memref.realloc" ||
         name == "bufferization.dealloc" || name == "builtin.unrealized_conversion_cast" ||
         (name == "memref.store" && use.getOperandNumber() == 0);
}

/// Follows allocations through one block.
class LifeTracer {
 public:
  explicit LifeTracer(mlir::Block& block) : block_(block) {
    for (mlir::Operation& op : block) place_of_[&op] = static_cast<std::int64_t>(place_of_.size());
  }

  Life trace(AllocOp alloc) {
    Life life{.alloc = alloc, .bytes = bytes_of(alloc).value_or(0)};
    life.first = life.last = place_of_[alloc];
    life.last_user = alloc;
    if (life.bytes == 0) {
      life.obstacle = "no static size in row-major order";
      return life;
    }
    bool used = false;
    llvm::SetVector<mlir::Value> names;
    names.insert(alloc.getResult());
    for (std::size_t k = 0; k < names.size() && life.obstacle.empty(); ++k) {
      for (mlir::OpOperand& use : names[k].getUses()) follow(use, life, used, names);
    }
    return life;
  }

  static std::optional<std::int64_t> bytes_of(AllocOp alloc) {
    const mlir::MemRefType type = alloc.getType();
    if (!type.hasStaticShape() || !type.getLayout().isIdentity() || type.getMemorySpace() ||
        !mlir::TensorType::isValidElementType(type.getElementType())) {
      return std::nullopt;
    }
    return tensor_bytes(mlir::RankedTensorType::get(type.getShape(), type.getElementType()));
  }

 private:
  void follow(mlir::OpOperand& use, Life& life, bool& used, llvm::SetVector<mlir::Value>& names) {
    mlir::Operation* const user = use.getOwner();
    mlir::Operation* const outer = block_.findAncestorOpInBlock(*user);
    if (mlir::isa<mlir::memref::DeallocOp>(user)) {
      if (user == outer && use.get() == life.alloc.getResult()) {
        life.releases.push_back(user);
      } else {
        life.obstacle = "released in a region or by another name";
      }
      return;
    }
    if (hides_memory(use)) life.obstacle = "its address goes to " + user->getName().getStringRef().str();
    if (outer == block_.getTerminator()) life.returned = true;
    const std::int64_t place = place_of_[outer];
    life.first = used ? std::min(life.first, place) : place;
    if (!used || place > life.last) {
      life.last = place;
      life.last_user = outer;
    }
    used = true;
    // The op's results, and the arguments of its regions, may be this memory.
    for (mlir::Operation* op = user;; op = op->getParentOp()) {
      for (const mlir::Value result : op->getResults()) {
        if (may_hold_address(result.getType())) names.insert(result);
      }
      for (mlir::Region& region : op->getRegions()) {
        for (const mlir::BlockArgument argument : region.getArguments()) {
          if (may_hold_address(argument.getType())) names.insert(argument);
        }
      }
      if (op == outer) break;
    }
  }

  mlir::Block& block_;
  llvm::DenseMap<mlir::Operation*, std::int64_t> place_of_{};
};

class ArenaPass : public mlir::PassWrapper<ArenaPass, mlir::InterfacePass<mlir::FunctionOpInterface>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ArenaPass)

  explicit ArenaPass(const ArenaOptions& options = {}) {
    alignment_ = options.alignment;
    share_results_ = options.share_results;
  }
  ArenaPass(const ArenaPass& other) : PassWrapper(other) {}

  [[nodiscard]] llvm::StringRef getArgument() const override { return "remora-arena"; }
  [[nodiscard]] llvm::StringRef getDescription() const override {
    return "Place the buffers of a bufferized function in one allocation";
  }
  void getDependentDialects(mlir::DialectRegistry& registry) const override {
    registry.insert<mlir::arith::ArithDialect, mlir::memref::MemRefDialect>();
  }

  mlir::LogicalResult initialize(mlir::MLIRContext* context) override {
    const std::string fault = alignment_fault(alignment_);
    if (fault.empty()) return mlir::success();
    mlir::emitError(mlir::UnknownLoc::get(context)) << "remora-arena: alignment: " << fault;
    return mlir::failure();
  }

  void runOnOperation() override {
    mlir::FunctionOpInterface function = getOperation();
    if (function.isExternal()) return;
    const auto budget = function->getAttrOfType<mlir::StringAttr>(kBudgetAttribute);
    if (budget && budget.getValue() == "none") return;
    if (mlir::failed(place_all(function))) signalPassFailure();
  }

 private:
  /// The size and the alignment of the function's allocations.
  struct Promise {
    std::optional<std::int64_t> capacity{};
    std::int64_t alignment = 1;
  };

  mlir::InFlightDiagnostic error_at(mlir::FunctionOpInterface function) {
    return mlir::emitError(function.getLoc()) << "remora: @" << function.getName() << ": ";
  }

  std::optional<Promise> read_promise(mlir::FunctionOpInterface function) {
    Promise promise{.alignment = alignment_};
    const mlir::Attribute attribute = function->getAttr(kArenaAttribute);
    if (!attribute) return promise;
    const auto given = mlir::dyn_cast<mlir::DictionaryAttr>(attribute);
    const auto capacity = given ? given.getAs<mlir::IntegerAttr>("capacity") : mlir::IntegerAttr();
    const auto alignment = given ? given.getAs<mlir::IntegerAttr>("alignment") : mlir::IntegerAttr();
    const bool readable = capacity && alignment && capacity.getType().isInteger(64) &&
                          alignment.getType().isInteger(64) && alignment_fault(alignment.getInt()).empty();
    if (!readable) {
      error_at(function) << kArenaAttribute << " must be {alignment = N : i64, capacity = N : i64}";
      return std::nullopt;
    }
    promise.capacity = capacity.getInt();
    promise.alignment = alignment.getInt();
    return promise;
  }

  mlir::LogicalResult place_all(mlir::FunctionOpInterface function) {
    const auto promise = read_promise(function);
    if (!promise) return mlir::failure();
    if (!function.getFunctionBody().hasOneBlock()) {
      if (promise->capacity) return error_at(function) << "no arena for a body of several blocks";
      mlir::emitRemark(function.getLoc())
          << "remora: no arena: @" << function.getName() << ": a body of several blocks";
      return mlir::success();
    }
    mlir::Block& block = function.getFunctionBody().front();
    std::int64_t apart = 0;
    std::vector<Life> lives = find_lives(block, apart);
    if (lives.empty()) return mlir::success();
    std::vector<Buffer> buffers;
    std::int64_t before = 0;
    for (Life& life : lives) {
      const auto own = static_cast<std::int64_t>(life.alloc.getAlignment().value_or(1));
      buffers.push_back({.id = std::to_string(buffers.size()),
                         .lifespan = {life.first, life.last + 1},
                         .size = Bytes(life.bytes),
                         .alignment = Bytes(std::max(promise->alignment, own))});
      before = saturating_sum(before, life.bytes);
    }
    const std::int64_t most = promise->capacity ? *promise->capacity - apart : kSaturated;
    const ArenaPlan plan = plan_arena(buffers, Bytes(most));
    if (!plan.error.empty()) return error_at(function) << plan.error;
    rewrite(lives, buffers, plan);
    mlir::emitRemark(function.getLoc()) << "remora: @" << function.getName() << ": " << lives.size() << " buffers of "
                                        << text::exact_bytes_text(Bytes(before)) << " in an arena of "
                                        << text::exact_bytes_text(plan.size) << ", at least "
                                        << text::exact_bytes_text(plan.bound);
    placed_ += static_cast<unsigned>(lives.size());
    bytes_before_ += static_cast<std::uint64_t>(before);
    bytes_after_ += static_cast<std::uint64_t>(plan.size.count());
    return mlir::success();
  }

  /// The allocations that can be placed. The others get a remark, and their bytes are added to `apart`.
  std::vector<Life> find_lives(mlir::Block& block, std::int64_t& apart) {
    std::vector<Life> lives;
    LifeTracer tracer(block);
    block.walk([&](AllocOp alloc) {
      Life life = alloc->getBlock() == &block ? tracer.trace(alloc) : in_region(alloc);
      lives.push_back(std::move(life));
    });
    const auto returned = std::count_if(lives.begin(), lives.end(), [](const Life& life) { return life.returned; });
    const auto stays = [&](Life& life) {
      if (life.returned && returned > 1 && !share_results_) life.obstacle = "one of several returned buffers";
      if (life.obstacle.empty()) return false;
      mlir::emitRemark(life.alloc.getLoc()) << "remora: outside the arena: " << life.obstacle;
      outside_ += 1;
      apart = saturating_sum(apart, life.bytes);
      return true;
    };
    lives.erase(std::remove_if(lives.begin(), lives.end(), stays), lives.end());
    return lives;
  }

  static Life in_region(AllocOp alloc) {
    return {.alloc = alloc, .bytes = LifeTracer::bytes_of(alloc).value_or(0), .obstacle = "allocated in a region"};
  }

  static void rewrite(std::vector<Life>& lives, const std::vector<Buffer>& buffers, const ArenaPlan& plan) {
    Bytes alignment{1};
    for (const Buffer& buffer : buffers) alignment = std::max(alignment, buffer.alignment);
    const Life& last =
        *std::max_element(lives.begin(), lives.end(), [](const Life& a, const Life& b) { return a.last < b.last; });
    mlir::OpBuilder builder(lives.front().alloc);
    const auto type = mlir::MemRefType::get({plan.size.count()}, builder.getI8Type());
    auto arena =
        builder.create<AllocOp>(lives.front().alloc.getLoc(), type, builder.getI64IntegerAttr(alignment.count()));
    bool released = true;
    for (const Life& life : lives) released = released && !life.releases.empty() && !life.returned;
    if (released) {
      builder.setInsertionPointAfter(last.last_user);
      builder.create<mlir::memref::DeallocOp>(arena.getLoc(), arena);
    }
    for (std::size_t i = 0; i < lives.size(); ++i) {
      AllocOp alloc = lives[i].alloc;
      builder.setInsertionPoint(alloc);
      const mlir::Value shift = builder.create<mlir::arith::ConstantIndexOp>(alloc.getLoc(), plan.offsets[i].count());
      const mlir::Value view =
          builder.create<mlir::memref::ViewOp>(alloc.getLoc(), alloc.getType(), arena, shift, mlir::ValueRange());
      for (mlir::Operation* const release : lives[i].releases) release->erase();
      alloc.getResult().replaceAllUsesWith(view);
      alloc.erase();
    }
  }

  Option<std::int64_t> alignment_{
      *this, "alignment",
      llvm::cl::desc("Alignment of offsets: a power of two, in bytes; a function's remora.arena overrides it"),
      llvm::cl::init(kDefaultAlignment)};
  Option<bool> share_results_{
      *this, "share-results",
      llvm::cl::desc("Put returned buffers into the arena even if there are several; freeing one then frees all"),
      llvm::cl::init(false)};

  Statistic placed_{this, "buffers-placed", "Buffers in arenas"};
  Statistic outside_{this, "buffers-outside", "Allocations that stayed by themselves"};
  Statistic bytes_before_{this, "bytes-before", "Of the buffers placed, summed"};
  Statistic bytes_after_{this, "arena-bytes", "Of the arenas, summed"};
};

}  // namespace

std::unique_ptr<mlir::Pass> create_arena_pass(const ArenaOptions& options) {
  return std::make_unique<ArenaPass>(options);
}

}  // namespace remora::mlir_frontend
