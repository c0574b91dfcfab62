// SPDX-License-Identifier: Apache-2.0
#include "frontends/hlo/pair_states.hpp"

#include <algorithm>

#include "frontends/formats/wire.hpp"
#include "model/error.hpp"
#include "model/quote.hpp"

namespace remora::hlo {
namespace {

void leave_out(State& state, const std::set<std::size_t>& leaves) {
  std::vector<std::string> shapes;
  for (std::size_t leaf = 0; leaf < state.numbers.size(); ++leaf) {
    state.numbers[leaf] = leaves.contains(leaf) ? std::nullopt : std::optional(shapes.size());
    if (state.numbers[leaf]) shapes.push_back(state.shapes[leaf]);
  }
  state.shapes = std::move(shapes);
}

}  // namespace

PairStates::PairStates(const LoweredModule& lowered, const LoopPair& loops, std::span<const TensorId> saved_tensors,
                       std::size_t slots_asked)
    : module(lowered.module),
      dataflow(module),
      pair(loops),
      slot_count(slots_asked),
      copies(module),
      forward(module.computations[pair.forward.body]),
      backward(module.computations[pair.backward.body]) {
  for (const TensorId tensor : saved_tensors) saved.insert(pair.values.at(tensor.index()));
  choose_stacks();
}

void PairStates::cannot(const std::string& why) const {
  throw InputError("loop " + quote(module.computations[pair.computation()].instructions[pair.forward.instruction].name),
                   why);
}

const Instruction& PairStates::at(std::size_t c, std::size_t i) const {
  return module.computations[c].instructions[i];
}

void PairStates::choose_stacks() {
  forward_state = state_of(pair.forward);
  backward_state = state_of(pair.backward);
  for (const Stack& stack : pair.stacks) {
    const bool is_used = !stack.can_go || (saved.contains(stack.value) && !holders.contains(stack.value));
    if (!is_used) {
      dropped[stack.leaf] = &stack;
      continue;
    }
    if (!stack.backward.empty()) holders.try_emplace(stack.value, &stack);
  }
  std::set<std::size_t> without;
  for (const auto& [leaf, stack] : dropped) without.insert(stack->backward.begin(), stack->backward.end());
  std::set<std::size_t> leaves;
  for (const auto& [leaf, stack] : dropped) leaves.insert(leaf);
  leave_out(forward_state, leaves);
  leave_out(backward_state, without);
  for (const Origin& value : saved) {
    if (!holders.contains(value)) add_stack(value);
  }
}

State PairStates::state_of(const Loop& loop) const {
  State state{.shapes = parts_of(shape_of(at(loop.computation, loop.instruction)))};
  for (std::size_t leaf = 0; leaf < state.shapes.size(); ++leaf) state.numbers.emplace_back(leaf);
  return state;
}

void PairStates::add_stack(const Origin& value) {
  const ArrayShape shape(value_shape(value));
  const ArrayShape slice = value.kind == Origin::update ? shape : shape.stacked(1);
  ArrayShape all = slice;
  all.dimensions[0] = static_cast<std::int64_t>(slot_count > 0 ? slot_count : pair.forward.trips());
  forward_state.shapes.push_back(all.bytes());
  backward_state.shapes.push_back(all.bytes());
  added.push_back({value, slice, all, forward_state.shapes.size() - 1, backward_state.shapes.size() - 1});
}

std::string PairStates::value_shape(const Origin& value) const {
  const Loop& loop = pair.forward;
  if (value.kind == Origin::state) return parts_of(shape_of(at(loop.computation, loop.instruction)))[value.leaf];
  const Instruction& made = at(loop.body, value.instruction);
  if (value.kind == Origin::update) return std::string(shape_of(at(made.called[0], stack_of(value).update)));
  return made.shape.tuple ? parts_of(shape_of(made))[value.leaf] : std::string(shape_of(made));
}

const Stack& PairStates::stack_of(const Origin& update) const {
  return *std::find_if(pair.stacks.begin(), pair.stacks.end(),
                       [&](const Stack& stack) { return stack.writer == update.instruction; });
}

Draft PairStates::state_in(std::size_t c, const State& state) {
  const Computation& computation = module.computations[c];
  const std::size_t parameter = parameter_in(computation);
  Draft draft(module, copies, c);
  Draft::Copy copy = draft.as_is(parameter);
  copy.fields = with_shape(computation.instructions[parameter], state);
  draft.put(std::move(copy));
  for (const std::size_t i : computation.order) {
    if (is_element(computation, i, parameter)) keep_element(draft, computation, i, state);
  }
  return draft;
}

Slots PairStates::slots() const {
  return {.steps = static_cast<std::int64_t>(pair.forward.trips()) - 1,
          .segments = static_cast<std::int64_t>(slot_count) - 1};
}
std::size_t parameter_in(const Computation& computation) {
  std::size_t i = 0;
  while (computation.instructions[i].opcode != "parameter") ++i;
  return i;
}

std::string element_fields(std::string_view shape, std::size_t leaf) {
  std::string text = new_fields("get-tuple-element", shape);
  wire::put_number(text, instruction_field::tuple_index, leaf);
  return text;
}

bool is_element(const Computation& computation, std::size_t i, std::size_t parameter) {
  const Instruction& one = computation.instructions[i];
  return one.opcode == "get-tuple-element" && part_of(one.operands, 0) == parameter;
}

void keep_element(Draft& draft, const Computation& computation, std::size_t i, const State& state) {
  const Instruction& one = computation.instructions[i];
  const std::optional<std::size_t> number = part_of(state.numbers, static_cast<std::size_t>(one.tuple_index));
  if (!number) return;
  Draft::Copy copy = draft.as_is(i);
  copy.fields = fields_of(one, {instruction_field::tuple_index});
  wire::put_number(*copy.fields, instruction_field::tuple_index, *number);
  draft.put(std::move(copy));
}

std::string with_shape(const Instruction& instruction, const State& state) {
  std::string text = fields_of(instruction, {instruction_field::shape});
  wire::put_bytes(text, instruction_field::shape, tuple_of(state.shapes));
  return text;
}

std::vector<std::int64_t> state_operands(const Instruction& tuple, const State& state, const Computation& computation) {
  std::vector<std::int64_t> operands;
  for (std::size_t leaf = 0; leaf < tuple.operands.size(); ++leaf) {
    if (part_of(state.numbers, leaf)) operands.push_back(computation.instructions[tuple.operands[leaf]].id);
  }
  return operands;
}
}  // namespace remora::hlo
