// SPDX-License-Identifier: Apache-2.0
#include "frontends/hlo/loop_numbers.hpp"

#include <algorithm>
#include <limits>
#include <string_view>

namespace remora::hlo {
namespace {

bool is_flat(const Shape& shape) {
  return shape.tuple &&
         std::none_of(shape.parts.begin(), shape.parts.end(), [](const Shape& one) { return one.tuple; });
}

/// Truth values and integers of XLA's types 1 to 9.
bool is_number(const Shape& shape) {
  constexpr int kLastInteger = 9;
  return !shape.tuple && shape.dimensions.empty() && shape.type >= 1 && shape.type <= kLastInteger;
}

Number compared(std::string_view comparison, std::int64_t a, std::int64_t b) {
  if (comparison == "LT") return a < b;
  if (comparison == "LE") return a <= b;
  if (comparison == "GT") return a > b;
  if (comparison == "GE") return a >= b;
  if (comparison == "EQ") return a == b;
  if (comparison == "NE") return a != b;
  return {};
}

/// Numbers beyond 31 bits are not followed, so that nothing wraps around.
Number small(std::int64_t number) {
  constexpr std::int64_t kMaximum = std::numeric_limits<std::int32_t>::max();
  return number >= -kMaximum && number <= kMaximum ? Number(number) : std::nullopt;
}

Number of_two(const Instruction& instruction, std::int64_t a, std::int64_t b) {
  const std::string_view opcode = instruction.opcode;
  if (opcode == "add") return small(a + b);
  if (opcode == "subtract") return small(a - b);
  if (opcode == "multiply") return small(a * b);
  if (opcode == "minimum") return std::min(a, b);
  if (opcode == "maximum") return std::max(a, b);
  if (opcode == "compare") return compared(instruction.comparison, a, b);
  if (instruction.shape.type == 1 && opcode == "and") return a & b;
  if (instruction.shape.type == 1 && opcode == "or") return a | b;
  return {};
}

Number computed(const Module& module, const Frame& frame, std::size_t i, std::size_t leaf) {
  const Instruction& instruction = module.computations[frame.computation].instructions[i];
  const auto operand = [&](std::size_t k, std::size_t part = 0) {
    return k < instruction.operands.size() ? number_of(module, frame, instruction.operands[k], part) : std::nullopt;
  };
  const std::string_view opcode = instruction.opcode;
  if (opcode == "parameter") {
    if (frame.state != nullptr) return leaf < frame.state->size() ? (*frame.state)[leaf] : std::nullopt;
    if (frame.caller == nullptr) return {};
    const Instruction& call = module.computations[frame.caller->computation].instructions[frame.call];
    const auto number = static_cast<std::size_t>(instruction.parameter_number);
    return number < call.operands.size() ? number_of(module, *frame.caller, call.operands[number], leaf) : std::nullopt;
  }
  if (opcode == "tuple") return operand(leaf);
  if (opcode == "get-tuple-element") return operand(0, static_cast<std::size_t>(instruction.tuple_index));
  if ((opcode == "fusion" || opcode == "call") && instruction.called.size() == 1) {
    const Frame inner{.computation = instruction.called[0], .caller = &frame, .call = i};
    return number_of(module, inner, module.computations[inner.computation].root, leaf);
  }
  if (!is_number(instruction.shape)) return {};
  if (opcode == "constant") return instruction.literal ? small(*instruction.literal) : std::nullopt;
  if (opcode == "copy" || opcode == "bitcast" || opcode == "reshape" || opcode == "convert") {
    const Shape& from = module.computations[frame.computation].instructions[part_of(instruction.operands, 0)].shape;
    return from.type == instruction.shape.type || opcode == "convert" ? operand(0) : std::nullopt;
  }
  if (opcode == "select") {
    const Number is = operand(0);
    return is ? operand(*is != 0 ? 1 : 2) : std::nullopt;
  }
  const Number a = operand(0);
  const Number b = operand(1);
  return a && b && instruction.operands.size() == 2 ? of_two(instruction, *a, *b) : std::nullopt;
}

}  // namespace

Number number_of(const Module& module, const Frame& frame, std::size_t i, std::size_t leaf) {
  const Instruction& instruction = module.computations[frame.computation].instructions[i];
  if (!instruction.shape.tuple && !is_number(instruction.shape)) return {};
  if (instruction.shape.tuple && !is_flat(instruction.shape)) return {};
  const auto known = frame.known.find({i, leaf});
  if (known != frame.known.end()) return known->second;
  return frame.known[{i, leaf}] = computed(module, frame, i, leaf);
}

std::vector<std::int64_t> Loop::leaf(std::size_t leaf) const {
  std::vector<std::int64_t> numbers;
  for (const std::vector<Number>& state : states) {
    if (!state[leaf]) return {};
    numbers.push_back(*state[leaf]);
  }
  return numbers;
}

std::optional<Loop> counted_loop(const Module& module, std::size_t computation, std::size_t i) {
  const Instruction& instruction = module.computations[computation].instructions[i];
  if (instruction.opcode != "while" || !is_flat(instruction.shape)) return {};
  Loop loop{.computation = computation,
            .instruction = i,
            .body = part_of(instruction.called, 0),
            .condition = part_of(instruction.called, 1)};
  const Frame outside{.computation = computation};
  std::vector<Number> state;
  for (std::size_t leaf = 0; leaf < instruction.shape.parts.size(); ++leaf) {
    state.push_back(number_of(module, outside, part_of(instruction.operands, 0), leaf));
  }
  while (true) {
    const Frame asked{.computation = loop.condition, .state = &state};
    const Number goes_on = number_of(module, asked, module.computations[loop.condition].root);
    if (!goes_on || loop.trips() > kMaxIterations) return {};
    if (*goes_on == 0) return loop;
    const Frame run{.computation = loop.body, .state = &state};
    std::vector<Number> next;
    for (std::size_t leaf = 0; leaf < state.size(); ++leaf) {
      next.push_back(number_of(module, run, module.computations[loop.body].root, leaf));
    }
    loop.states.push_back(std::move(state));
    state = std::move(next);
  }
}

}  // namespace remora::hlo
