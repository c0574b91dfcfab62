// SPDX-License-Identifier: Apache-2.0
#include "frontends/hlo/costs.hpp"

#include <algorithm>
#include <string_view>

#include "frontends/hlo/dataflow.hpp"

namespace remora::hlo {
namespace {

std::int64_t bytes_in(const Shape& shape) {
  std::int64_t bytes = shape.size.count();
  for (const Shape& part : shape.parts) bytes = saturating_sum(bytes, bytes_in(part));
  return bytes;
}

std::int64_t elements_in(const Shape& shape) {
  if (!shape.tuple) {
    std::int64_t elements = 1;
    for (const std::int64_t dimension : shape.dimensions) elements = saturating_product(elements, dimension);
    return elements;
  }
  std::int64_t elements = 0;
  for (const Shape& part : shape.parts) elements = saturating_sum(elements, elements_in(part));
  return elements;
}

/// True if it reads no more of its first operand than it writes.
bool is_lookup(std::string_view opcode) {
  return opcode == "slice" || opcode == "dynamic-slice" || opcode == "gather";
}

constexpr Duration kLongest(std::int64_t{1} << 50);

class Counts {
 public:
  explicit Counts(const Module& module) : module_(module) {}

  /// Floating-point operations: two for each product that is summed, one for each element otherwise.
  [[nodiscard]] std::int64_t flops(std::size_t c, std::size_t i) const {
    const Computation& computation = module_.computations[c];
    const Instruction& instruction = computation.instructions[i];
    const auto operand = [&](std::size_t k) -> const Shape& {
      return computation.instructions[instruction.operands[k]].shape;
    };
    const std::int64_t made = elements_in(instruction.shape);
    if (instruction.opcode == "fusion") return inside(instruction.called.at(0));
    if (instruction.opcode == "dot" && !instruction.operands.empty()) {
      std::int64_t summed = 1;
      for (const std::int64_t k : instruction.contracting) {
        if (k >= 0 && static_cast<std::size_t>(k) < operand(0).dimensions.size()) {
          summed = saturating_product(summed, operand(0).dimensions[static_cast<std::size_t>(k)]);
        }
      }
      return saturating_product(2, saturating_product(made, summed));
    }
    if (instruction.kernel_output_dimension && instruction.operands.size() > 1) {
      const auto k = static_cast<std::size_t>(*instruction.kernel_output_dimension);
      const std::int64_t features = k < operand(1).dimensions.size() ? operand(1).dimensions[k] : 1;
      return saturating_product(
          2, saturating_product(made, elements_in(operand(1)) / std::max<std::int64_t>(1, features)));
    }
    if (instruction.opcode == "reduce-window") return saturating_product(made, instruction.window);
    if (instruction.opcode == "reduce" && !instruction.operands.empty()) return elements_in(operand(0));
    const bool is_free = is_alias(instruction) || instruction.opcode == "parameter" ||
                         instruction.opcode == "constant" || instruction.opcode == "broadcast" ||
                         is_lookup(instruction.opcode);
    return is_free ? 0 : made;
  }

  /// Bytes read and written; of what is only looked up in, no more than is written.
  [[nodiscard]] std::int64_t bytes(std::size_t c, std::size_t i) const {
    const Computation& computation = module_.computations[c];
    const Instruction& instruction = computation.instructions[i];
    const bool is_fusion = instruction.opcode == "fusion";
    const std::int64_t made = is_fusion ? written_inside(instruction.called.at(0)) : bytes_in(instruction.shape);
    if (is_lookup(instruction.opcode)) return saturating_sum(made, made);
    if (instruction.opcode == "dynamic-update-slice" && instruction.operands.size() > 1) {
      const std::int64_t update = bytes_in(computation.instructions[instruction.operands[1]].shape);
      return saturating_sum(update, update);
    }
    std::int64_t moved = made;
    for (std::size_t k = 0; k < instruction.operands.size(); ++k) {
      std::int64_t read = bytes_in(computation.instructions[instruction.operands[k]].shape);
      if (is_fusion) read = std::min(read, read_inside(instruction.called.at(0), k));
      moved = saturating_sum(moved, read);
    }
    return moved;
  }

 private:
  [[nodiscard]] std::int64_t inside(std::size_t c) const {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < module_.computations[c].instructions.size(); ++i)
      sum = saturating_sum(sum, flops(c, i));
    return sum;
  }

  /// Bytes that a fusion writes: for an update in place, no more than the update.
  [[nodiscard]] std::int64_t written_inside(std::size_t c) const {
    const Computation& fused = module_.computations[c];
    const Instruction& root = fused.instructions[fused.root];
    const bool is_update = root.opcode == "dynamic-update-slice" && root.operands.size() > 1;
    return bytes_in(is_update ? fused.instructions[root.operands[1]].shape : root.shape);
  }

  /// Bytes that a fusion reads of its parameter k: all of it, unless it only looks things up.
  [[nodiscard]] std::int64_t read_inside(std::size_t c, std::size_t k) const {
    const Computation& fused = module_.computations[c];
    std::int64_t read = 0;
    for (std::size_t i = 0; i < fused.instructions.size(); ++i) {
      const Instruction& user = fused.instructions[i];
      for (std::size_t place = 0; place < user.operands.size(); ++place) {
        const Instruction& parameter = fused.instructions[user.operands[place]];
        const bool is_it =
            parameter.opcode == "parameter" && parameter.parameter_number == static_cast<std::int64_t>(k);
        if (!is_it) continue;
        const bool is_updated = user.opcode == "dynamic-update-slice" && place == 0;
        if (!is_updated && (place > 0 || !is_lookup(user.opcode))) return kSaturated;
        read = saturating_sum(read, is_updated ? 0 : bytes_in(user.shape));
      }
    }
    return read;
  }

  const Module& module_;
};

}  // namespace

Duration duration_of(const Module& module, std::size_t c, std::size_t i, const Machine& machine) {
  const Instruction& instruction = module.computations[c].instructions[i];
  const bool is_free = is_alias(instruction) || instruction.opcode == "parameter" || instruction.opcode == "constant";
  if (is_free) return Duration(0);
  const bool has_inner =
      instruction.opcode == "while" || instruction.opcode == "call" || instruction.opcode == "conditional";
  if (has_inner) {
    std::int64_t sum = 0;
    std::int64_t longest = 0;
    for (const std::size_t called : instruction.called) {
      std::int64_t one = 0;
      for (std::size_t k = 0; k < module.computations[called].instructions.size(); ++k) {
        one = saturating_sum(one, duration_of(module, called, k, machine).count());
      }
      sum = saturating_sum(sum, one);
      longest = std::max(longest, one);
    }
    const std::int64_t total =
        instruction.opcode == "conditional" ? longest : saturating_product(sum, instruction.trips);
    return Duration(std::min(total, kLongest.count()));
  }
  const Counts counts(module);
  return std::min(nanoseconds(machine.seconds({.operations = counts.flops(c, i), .moved = counts.bytes(c, i)})),
                  kLongest);
}

}  // namespace remora::hlo
