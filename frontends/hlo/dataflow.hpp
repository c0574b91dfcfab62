// SPDX-License-Identifier: Apache-2.0
//
// Which memory the instructions of a module read and write, by the rules of XLA's dataflow and alias analysis
// (xla/hlo/analysis: hlo_dataflow_analysis, hlo_alias_analysis).
//
// A value is what one instruction writes into one array. Tuples, their elements and bitcasts are the values that they are made of; what a
// while loop carries unchanged is the value that came in. Values that must lie in the same memory have one storage:
//
//     u = copy(x)     w = while(u)     o = dynamic-update-slice(w, ..)        one storage: u, the loop's parameter and result, w, o
//
// Whoever writes a value into a storage destroys the one before it, so what reads that one has run by then, in any order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "frontends/hlo/module.hpp"
#include "model/types.hpp"

namespace remora::hlo {

using ValueId = Id<struct HloValueTag>;
using StorageId = Id<struct StorageTag>;

enum class ValueKind { parameter, constant, computed };

struct Value {
  Bytes size{};
  std::size_t computation = 0;
  std::size_t instruction = 0;
  ValueKind kind = ValueKind::computed;
};

/// An array that an instruction writes, as a leaf of its shape, in the memory of what it reads.
struct Pair {
  std::size_t output = 0;
  ValueId input{};
};

/// True if the instruction is no work: it gives what it is given, in parts or together.
bool is_alias(const Instruction& instruction);
/// True for opcodes with one leaf that work element by element (HloInstruction::IsElementwise).
bool is_elementwise(std::string_view opcode);

class Dataflow {
 public:
  /// `module` must outlive the object. Throws InputError for what is not known here: asynchronous instructions, donations and aliases
  /// of what is not there.
  explicit Dataflow(const Module& module);

  [[nodiscard]] const std::vector<Value>& values() const { return values_; }
  [[nodiscard]] const Value& operator[](ValueId value) const { return values_[value.index()]; }
  /// The values of the instruction, a leaf of its shape each.
  [[nodiscard]] const std::vector<ValueId>& leaves(std::size_t computation, std::size_t instruction) const {
    return leaves_[computation][instruction];
  }
  /// All values that the instruction reads, in the order of its operands; of an alias, what it stands for.
  [[nodiscard]] std::vector<ValueId> reads(std::size_t computation, std::size_t instruction) const;
  [[nodiscard]] StorageId storage(ValueId value) const;
  [[nodiscard]] std::size_t storages() const { return members_.size(); }
  [[nodiscard]] const std::vector<ValueId>& members(StorageId storage) const { return members_[storage.index()]; }
  /// True if an argument of the module or a constant lies there.
  [[nodiscard]] bool is_fixed(StorageId storage) const { return fixed_[storage.index()]; }

  /// Outputs that lie where an operand lies, always.
  [[nodiscard]] std::vector<Pair> in_place(std::size_t computation, std::size_t instruction) const;
  /// Outputs for which XLA takes the memory of an operand if nobody reads that one any more.
  [[nodiscard]] std::vector<Pair> may_share(std::size_t computation, std::size_t instruction) const;
  /// Buffers that the instruction reads and then destroys, itself or in a computation that it calls.
  [[nodiscard]] std::vector<ValueId> destroys(std::size_t computation, std::size_t instruction) const;
  /// The computations that the instruction calls and those that they call, but none of a fusion and none that works on single elements.
  [[nodiscard]] std::vector<std::size_t> runs_inside(const Instruction& instruction) const;

 private:
  void add(std::size_t computation, std::size_t instruction);
  void add_while(std::size_t computation, std::size_t instruction);
  void add_branches(std::size_t computation, std::size_t instruction);
  void add_fresh(std::size_t computation, std::size_t instruction, ValueKind kind);
  ValueId fresh(std::size_t computation, std::size_t instruction, Bytes size, ValueKind kind);
  void join(ValueId a, ValueId b);
  void join_parameters(std::size_t called, std::span<const ValueId> values);
  [[nodiscard]] std::optional<ValueId> passed_on(std::size_t called, ValueId made,
                                                 std::span<const ValueId> values) const;
  void join_donations();
  void number_storages();
  [[nodiscard]] ValueId root_of(ValueId value) const;
  [[nodiscard]] const std::vector<ValueId>& parameter_leaves(std::size_t computation, std::int64_t number) const;
  [[nodiscard]] ValueId leaf_at(std::size_t computation, std::size_t instruction,
                                const std::vector<std::int64_t>& index) const;
  [[nodiscard]] std::vector<Pair> fusion_pairs(std::size_t computation, std::size_t instruction) const;
  [[nodiscard]] bool is_elementwise_path(std::size_t computation, ValueId parameter) const;

  const Module& module_;
  std::vector<Value> values_;
  std::vector<std::vector<std::vector<ValueId>>> leaves_;
  /// A forest over values, whose roots stand for storages.
  mutable std::vector<ValueId> parents_;
  std::vector<StorageId> storage_;
  std::vector<std::vector<ValueId>> members_;
  std::vector<bool> fixed_;
};

}  // namespace remora::hlo
