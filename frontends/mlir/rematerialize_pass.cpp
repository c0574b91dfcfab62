// SPDX-License-Identifier: Apache-2.0
//
// The pass `remora-rematerialize`: reads a function's block (block_units.hpp), asks the engine
// for a schedule within the budget (plan.hpp), and writes it back (apply_schedule.cpp). `remora-arena` (arena_pass.hpp)
// comes later, when tensors have become buffers.
//
//     mlir-opt-19 --load-pass-plugin=libremora_mlir.so
//                 --pass-pipeline='builtin.module(func.func(remora-rematerialize{memory-budget=80%}))'

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/options.hpp"
#include "frontends/mlir/arena_pass.hpp"
#include "frontends/mlir/block_units.hpp"
#include "frontends/mlir/passes.hpp"
#include "frontends/mlir/plan.hpp"
#include "llvm/ADT/STLExtras.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Tools/Plugins/PassPlugin.h"
#include "model/api.hpp"

namespace remora::mlir_frontend {
namespace {

// Tensors that are somebody else's memory. As a rule a tensor is a value: whoever reads it reads the same, however
// late. One that was made of a memref is that memref's buffer, and says so nowhere but at the op that made it:
//
//     %x = bufferization.to_tensor %m restrict      %x is %m's buffer
//     %a = linalg.exp ins(%x) ...                   has no effects, but reads %m
//     memref.store %v, %m[%i, %i]                   %a, moved behind this, is another tensor

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

/// True if the block, with everything inside it, has an op that turns memory into tensors or back, and one that may
/// write memory: with other effects than reads and allocations, or with unknown ones.
bool may_write_what_tensors_are_made_of(mlir::Block& block) {
  bool aliases = false;
  bool writes = false;
  for (mlir::Operation& outer : block.without_terminator()) {
    writes = writes || may_write(outer);
    outer.walk([&](mlir::Operation* op) { aliases = aliases || turns_memory_into_tensors_or_back(*op); });
  }
  return aliases && writes;
}

/// The function's name after those of what it stands in, outermost first and without the whole module's; what has no
/// name is told by its place.
std::vector<std::string> names_of(mlir::FunctionOpInterface function) {
  std::vector<std::string> names;
  for (mlir::Operation* op = function; op->getParentOp() != nullptr; op = op->getParentOp()) {
    const auto name = op->getAttrOfType<mlir::StringAttr>(mlir::SymbolTable::getSymbolAttrName());
    if (name) {
      names.push_back(name.str());
      continue;
    }
    const auto before = std::distance(op->getBlock()->begin(), mlir::Block::iterator(op));
    names.push_back("@" + std::to_string(before));
  }
  std::reverse(names.begin(), names.end());
  return names;
}

class RematerializePass : public mlir::PassWrapper<RematerializePass, mlir::InterfacePass<mlir::FunctionOpInterface>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(RematerializePass)

  explicit RematerializePass(const RematerializeOptions& options = {}) {
    budget_ = options.budget;
    order_ = options.order;
    time_limit_ = options.time_limit;
    work_limit_ = options.work_limit;
    seed_ = options.seed;
    threads_ = options.threads;
    max_computes_ = options.max_computes;
    arena_ = options.arena;
    alignment_ = options.alignment;
    report_ = options.report;
  }
  // MLIR copies passes for its threads; options and statistics are copied by the base class's rules.
  RematerializePass(const RematerializePass& other) : PassWrapper(other) {}

  [[nodiscard]] llvm::StringRef getArgument() const override { return "remora-rematerialize"; }
  /// The name in messages about pipelines that it cannot be part of.
  [[nodiscard]] llvm::StringRef getName() const override { return getArgument(); }
  [[nodiscard]] llvm::StringRef getDescription() const override {
    return "Reorder and recompute tensor ops so that a function's tensors fit a memory budget";
  }

  mlir::LogicalResult initialize(mlir::MLIRContext* context) override {
    const std::string fault = check_options(options());
    if (fault.empty()) return mlir::success();
    mlir::emitError(mlir::UnknownLoc::get(context)) << "remora-rematerialize: " << fault;
    return mlir::failure();
  }

  void runOnOperation() override {
    mlir::FunctionOpInterface function = getOperation();
    if (function.isExternal()) return;
    RematerializeOptions asked = options();
    if (!read_budget(function, asked)) return signalPassFailure();
    if (asked.budget == "none") return;
    if (!function.getFunctionBody().hasOneBlock()) return leave_alone(function, "a body of several blocks");
    if (may_write_what_tensors_are_made_of(function.getFunctionBody().front())) {
      return leave_alone(function,
                         "tensors made from memrefs, or memrefs from tensors, and an op that may write memory");
    }
    if (mlir::failed(rematerialize(function, asked))) signalPassFailure();
  }

 private:
  [[nodiscard]] RematerializeOptions options() const {
    return {.budget = budget_,
            .order = order_,
            .time_limit = time_limit_,
            .work_limit = work_limit_,
            .seed = seed_,
            .threads = threads_,
            .max_computes = max_computes_,
            .arena = arena_,
            .alignment = alignment_,
            .report = report_};
  }

  void leave_alone(mlir::FunctionOpInterface function, const std::string& why) {
    left_alone_ += 1;
    mlir::emitRemark(function.getLoc()) << "remora: left alone: @" << function.getName() << ": " << why;
  }

  static bool read_budget(mlir::FunctionOpInterface function, RematerializeOptions& asked) {
    if (const mlir::Attribute attribute = function->getAttr(kBudgetAttribute)) {
      const auto text = mlir::dyn_cast<mlir::StringAttr>(attribute);
      if (!text) {
        mlir::emitError(function.getLoc())
            << "remora: " << kBudgetAttribute << " must be a string such as \"80%\" or \"none\"";
        return false;
      }
      asked.budget = text.str();
    }
    if (!asked.budget.empty()) return true;
    mlir::emitError(function.getLoc())
        << "remora: no memory-budget: give the option (memory-budget=12MiB, memory-budget=80%) or the attribute "
        << kBudgetAttribute;
    return false;
  }

  mlir::LogicalResult rematerialize(mlir::FunctionOpInterface function, const RematerializeOptions& asked) {
    mlir::Block& block = function.getFunctionBody().front();
    const BlockUnits units = find_units(block);
    if (units.faulty != nullptr) return mlir::emitError(units.faulty->getLoc()) << "remora: " << units.fault;
    const Graph graph =
        graph_from_block(block, units, function.getName().str(), arena_ ? Residents::fixed_memory : Residents::inputs);
    const auto empty = [](const Tensor& tensor) { return tensor.size == Bytes(0); };
    remark_on(units);
    if (units.units.empty() || llvm::all_of(graph.tensors, empty)) return mlir::success();
    if (!sums_fit(graph, most_computes(asked))) {
      leave_alone(function, "bytes or work beyond 64 bits");
      return mlir::success();
    }
    Plan plan = make_plan(graph, asked, names_of(function));
    if (!plan.error.empty())
      return mlir::emitError(function.getLoc()) << "remora: @" << function.getName() << ": " << plan.error;
    if (!plan.nothing_to_gain.empty()) {
      leave_alone(function, plan.nothing_to_gain);
      return mlir::success();
    }
    plan.changes = plan.changes || !destinations_in_place(units);
    if (plan.changes) apply_schedule(block, units, plan.sequence);
    if (plan.schedule.arena) promise_arena(function, plan.schedule.budget - graph.fixed_memory);
    mlir::emitRemark(function.getLoc()) << "remora: @" << function.getName() << ": " << plan.summary;
    count(units, plan);
    return mlir::success();
  }

  void promise_arena(mlir::FunctionOpInterface function, Bytes capacity) {
    mlir::Builder builder(&getContext());
    const mlir::NamedAttribute entries[] = {
        builder.getNamedAttr("alignment", builder.getI64IntegerAttr(alignment_)),
        builder.getNamedAttr("capacity", builder.getI64IntegerAttr(capacity.count()))};
    function->setAttr(kArenaAttribute, builder.getDictionaryAttr(entries));
  }

  /// A remark for each op that handles tensors and stays as it is.
  void remark_on(const BlockUnits& units) {
    const auto is_tensor = [](mlir::Type type) { return mlir::isa<mlir::TensorType>(type); };
    for (const Unit& unit : units.units) {
      mlir::Operation& op = unit.op();
      if (unit.obstacle.empty() ||
          !(llvm::any_of(op.getOperandTypes(), is_tensor) || llvm::any_of(op.getResultTypes(), is_tensor))) {
        continue;
      }
      left_alone_ += 1;
      mlir::emitRemark(op.getLoc()) << "remora: left alone: " << op.getName().getStringRef() << ": " << unit.obstacle;
    }
  }

  void count(const BlockUnits& units, const Plan& plan) {
    const auto amount = [](auto quantity) { return static_cast<std::uint64_t>(quantity.count()); };
    units_ += static_cast<unsigned>(units.units.size());
    recomputes_ += static_cast<unsigned>(plan.recomputes);
    changed_ += plan.changes ? 1U : 0U;
    peak_before_ += amount(plan.schedule.baseline_peak_memory);
    peak_after_ += amount(plan.schedule.peak_memory);
    work_before_ += amount(plan.schedule.baseline_duration);
    work_after_ += amount(plan.schedule.duration);
  }

  Option<std::string> budget_{
      *this, "memory-budget",
      llvm::cl::desc("Memory for a function's tensors, its arguments and constants included: bytes "
                     "(12MiB) or a percentage of the input order's peak without recomputation (80%)")};
  Option<double> time_limit_{*this, "time-limit", llvm::cl::desc("Limit in seconds for each function"),
                             llvm::cl::init(10.0)};
  Option<std::string> order_{*this, "order",
                             llvm::cl::desc("input: first runs keep their order; free: any order; auto: free if a "
                                            "quick search finds another that fits within the budget or needs "
                                            "clearly less memory"),
                             llvm::cl::init("input")};
  Option<std::int64_t> seed_{*this, "seed", llvm::cl::desc("Seed of all random choices"), llvm::cl::init(1)};
  Option<std::string> report_{
      *this, "report",
      llvm::cl::desc("Folder for FUNCTION.graph.json and FUNCTION.schedule.json, after the names "
                     "of nested modules: MODULE.FUNCTION.graph.json")};
  Option<std::int64_t> work_limit_{
      *this, "work-limit",
      llvm::cl::desc("Limit in units of work for each function, 0 for none; under it the same seed gives "
                     "the same schedule"),
      llvm::cl::init(0)};
  Option<std::string> max_computes_{
      *this, "max-computes",
      llvm::cl::desc("Maximum runs per op, the first included; auto: two, and more if the "
                     "budget needs them or the schedule gets shorter"),
      llvm::cl::init("auto")};
  Option<bool> arena_{*this, "arena",
                      llvm::cl::desc("Find a schedule whose buffers fit one arena within the budget, for remora-arena "
                                     "after bufferization"),
                      llvm::cl::init(false)};
  Option<std::int64_t> alignment_{*this, "alignment",
                                  llvm::cl::desc("Alignment of offsets in the arena: a power of two, in bytes"),
                                  llvm::cl::init(kDefaultAlignment)};
  Option<int> threads_{*this, "threads", llvm::cl::desc("Threads for each function, 0 for one per core"),
                       llvm::cl::init(0)};

  Statistic units_{this, "units", "Ops, each with its destinations"};
  Statistic left_alone_{this, "left-alone", "Ops and functions that were left alone"};
  Statistic changed_{this, "functions-changed",
                     "Functions that were reordered, recompute something or had their destinations separated"};
  Statistic recomputes_{this, "recomputes", "Clones of units"};
  Statistic peak_before_{this, "peak-before", "Predicted peak bytes before, summed over functions"};
  Statistic peak_after_{this, "peak-after", "Predicted peak bytes after, summed over functions"};
  Statistic work_before_{this, "work-before", "Scalar operations before"};
  Statistic work_after_{this, "work-after", "Scalar operations after"};
};

}  // namespace

std::unique_ptr<mlir::Pass> create_rematerialize_pass(const RematerializeOptions& options) {
  return std::make_unique<RematerializePass>(options);
}

}  // namespace remora::mlir_frontend

/// Entry point of `mlir-opt --load-pass-plugin`: its last field registers the pass with the tool.
extern "C" REMORA_API mlir::PassPluginLibraryInfo mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "remora", remora::version(), [] {
            mlir::registerPass([] { return remora::mlir_frontend::create_rematerialize_pass(); });
            mlir::registerPass([] { return remora::mlir_frontend::create_arena_pass(); });
          }};
}
