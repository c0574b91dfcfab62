// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "frontends/formats/wire.hpp"
#include "frontends/hlo/copies.hpp"
#include "frontends/hlo/message_fields.hpp"
#include "frontends/hlo/reader.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/quote.hpp"

namespace remora::hlo {
namespace {

class Writer {
 public:
  explicit Writer(const LoweredModule& lowered)
      : module_(lowered.module),
        source_(module_.computations[lowered.computation]),
        copies_(module_),
        current_(source_.instructions.size(), -1),
        runs_(source_.instructions.size()) {
    entry_ = {.source = lowered.computation,
              .place = lowered.computation,
              .replaces = true,
              .name = source_.name,
              .id = source_.id};
  }

  void run(const LoweredModule& lowered, std::span<const OpId> sequence) {
    for (const std::size_t i : source_.order) {
      const std::string& opcode = source_.instructions[i].opcode;
      if (opcode == "parameter" || opcode == "constant") put(i, {});
    }
    for (const OpId op : sequence) {
      const std::size_t i = lowered.instructions[op.index()];
      put(i, operands_of(i));
    }
    entry_.root_id = latest(source_.root);
  }

  [[nodiscard]] std::string bytes(std::string_view old) {
    copies_.added.push_back(std::move(entry_));
    return write_module(old, module_, copies_.added);
  }

 private:
  /// The latest copy of what the instruction gives; of an alias one of what it stands for now, made where there is none.
  std::int64_t latest(std::size_t i) {
    if (!is_alias(source_.instructions[i])) {
      ensure(current_[i] >= 0, "hlo writer: an op runs before what it reads");
      return current_[i];
    }
    std::vector<std::int64_t> operands = operands_of(i);
    const auto [made, is_new] = aliases_.try_emplace({i, operands}, 0);
    if (is_new) made->second = put(i, std::move(operands));
    return made->second;
  }

  std::vector<std::int64_t> operands_of(std::size_t i) {
    std::vector<std::int64_t> operands;
    for (const std::size_t operand : source_.instructions[i].operands) operands.push_back(latest(operand));
    return operands;
  }

  std::int64_t put(std::size_t i, std::vector<std::int64_t> operands) {
    const Instruction& instruction = source_.instructions[i];
    const bool is_first = ++runs_[i] == 1;
    WrittenComputation::Copy copy{.instruction = i, .operands = std::move(operands)};
    copy.name = is_first ? instruction.name : copies_.fresh().name(instruction.name);
    copy.id = is_first ? instruction.id : copies_.fresh().instruction(source_.id);
    for (const std::size_t before : instruction.control_predecessors) {
      copy.control_predecessors.push_back(source_.instructions[before].id);
    }
    if (is_first) {
      for (const std::size_t c : instruction.called) copy.called.push_back(module_.computations[c].id);
    } else {
      copy.called = copies_.called_by(instruction, entry_.place);
    }
    current_[i] = copy.id;
    entry_.copies.push_back(std::move(copy));
    return current_[i];
  }

  const Module& module_;
  const Computation& source_;
  Copies copies_;
  /// By instruction: the id of its latest copy, and how many there are.
  std::vector<std::int64_t> current_;
  std::vector<int> runs_;
  std::map<std::pair<std::size_t, std::vector<std::int64_t>>, std::int64_t> aliases_;
  WrittenComputation entry_;
};

/// Numbers for expressions: equal ones for instructions that say the same of the same, whatever their names and ids.
class Expressions {
 public:
  /// The id of the entry's root.
  std::int64_t root(const Module& module) {
    std::vector<std::int64_t> computations;
    for (const Computation& computation : module.computations) {
      std::vector<std::int64_t> numbers;
      for (const Instruction& instruction : computation.instructions) {
        numbers.push_back(number(instruction, numbers, computations));
      }
      computations.push_back(numbers[computation.root]);
    }
    return computations[module.entry];
  }

 private:
  std::int64_t number(const Instruction& instruction, const std::vector<std::int64_t>& numbers,
                      const std::vector<std::int64_t>& computations) {
    std::string said;
    wire::Reader reader(instruction.bytes);
    while (!reader.at_end()) {
      const auto field = reader.next();
      ensure(field.has_value(), "hlo: a module that was read");
      using namespace instruction_field;
      const bool names_parts = field->number >= id && field->number <= called_computation_ids;
      if (field->number == name || names_parts) continue;
      said += instruction.bytes.substr(field->start, reader.place() - field->start);
    }
    std::vector<std::int64_t> parts;
    for (const std::size_t operand : instruction.operands) parts.push_back(numbers[operand]);
    parts.push_back(-1);
    for (const std::size_t called : instruction.called) parts.push_back(computations[called]);
    return known_.try_emplace({std::move(said), std::move(parts)}, static_cast<std::int64_t>(known_.size()))
        .first->second;
  }

  std::map<std::pair<std::string, std::vector<std::int64_t>>, std::int64_t> known_;
};

/// Reads what was written, without what was known when it was written: every instruction says what one of the module says, the result is
/// the same expression, nothing is read that is destroyed, and the effects are the same in number and order.
void check_written(const LoweredModule& lowered, const std::string& bytes) {
  const LoweredModule again =
      lower_module(bytes, "the rewritten module", {}, lowered.module.computations[lowered.computation].name);
  Expressions expressions;
  ensure(expressions.root(lowered.module) == expressions.root(again.module), "hlo: rewriting changed the result");
  const auto fixed = [](const LoweredModule& one) {
    std::vector<std::string> names;
    for (const std::size_t i : one.module.computations[one.computation].order) {
      const Instruction& instruction = one.module.computations[one.computation].instructions[i];
      if (instruction.has_side_effect) names.push_back(instruction.name);
    }
    return names;
  };
  ensure(fixed(lowered) == fixed(again), "hlo: rewriting changed the effects");
}

}  // namespace

std::string rewrite_module(const LoweredModule& lowered, std::span<const OpId> sequence) {
  if (const std::vector<OpId> stale = stale_reads(lowered, sequence); !stale.empty()) {
    throw InputError(lowered.source, "in this order " + quote(lowered.graph[stale.front()].name) +
                                         " would read what an op before it has destroyed");
  }
  Writer writer(lowered);
  writer.run(lowered, sequence);
  std::string bytes = writer.bytes(*lowered.bytes);
  check_written(lowered, bytes);
  return bytes;
}

}  // namespace remora::hlo
