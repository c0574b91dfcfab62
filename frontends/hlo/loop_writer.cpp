// SPDX-License-Identifier: Apache-2.0
//
// A pair of loops with other stacks (pair_states.hpp). Unused instructions are pruned at the end.
#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

#include "frontends/formats/wire.hpp"
#include "frontends/hlo/loops.hpp"
#include "frontends/hlo/pair_states.hpp"
#include "model/error.hpp"
#include "model/quote.hpp"

namespace remora::hlo {
namespace {

/// With the number of the counter's leaf as XLA notes it: {"known_induction_variable":{"tuple_index":"0"}}.
std::string renumbered(std::string config, const State& state) {
  constexpr std::string_view kMark = "\"known_induction_variable\":{\"tuple_index\":\"";
  const std::size_t mark = config.find(kMark);
  if (mark == std::string::npos) return config;
  std::size_t leaf = 0;
  const char* const first = config.data() + mark + kMark.size();
  const auto read = std::from_chars(first, config.data() + config.size(), leaf);
  if (read.ec != std::errc() || leaf >= state.numbers.size() || !state.numbers[leaf]) {
    throw InputError("", "XLA notes a counter that is no part of the loop");
  }
  return config.replace(mark + kMark.size(), static_cast<std::size_t>(read.ptr - first),
                        std::to_string(*state.numbers[leaf]));
}

class PairWriter {
 public:
  PairWriter(const LoweredModule& lowered, const LoopPair& pair, std::span<const TensorId> saved, std::size_t slots)
      : states_(lowered, pair, saved, slots), module_(states_.module), pair_(states_.pair), forward_(states_.forward) {}

  std::string bytes(std::string_view old) {
    WrittenComputation backward = hlo::write_backward(states_);
    std::vector<WrittenComputation> written;
    WrittenComputation forward = write_forward();
    WrittenComputation around = write_around();
    written.push_back(write_condition(pair_.forward, states_.forward_state));
    written.push_back(write_condition(pair_.backward, states_.backward_state));
    written.push_back(std::move(forward));
    for (WrittenComputation& one : states_.copies.added) written.push_back(std::move(one));
    written.push_back(std::move(backward));
    written.push_back(std::move(around));
    return write_module(old, module_, written);
  }

 private:
  // F's body, the conditions, and what is around the loops.

  WrittenComputation write_forward() {
    const std::size_t parameter = parameter_in(forward_);
    Draft draft(module_, states_.copies, pair_.forward.body);
    Draft head(module_, states_.copies, pair_.forward.body);
    std::vector<std::int64_t> added(states_.added.size());
    const std::int64_t given = forward_.instructions[parameter].id;
    const std::string counter_shape = states_.forward_state.shapes.empty()
                                          ? ""
                                          : states_.forward_state.shapes[*states_.forward_state.numbers[pair_.counter]];
    std::int64_t slot = 0;
    std::int64_t zero = 0;
    if (!states_.added.empty()) {
      const std::optional<std::string> fields = constant_fields(ArrayShape(counter_shape), 0);
      if (!fields) states_.cannot("it counts with numbers of a type that is not known here");
      zero = head.add("constant", *fields, {});
      const std::int64_t counter = head.add(
          "get-tuple-element", element_fields(counter_shape, *states_.forward_state.numbers[pair_.counter]), {given});
      slot = states_.slot_count == 0 ? head.add("copy", new_fields("copy", counter_shape), {counter})
                                     : slot_in_forward(head, counter, counter_shape);
    }
    const auto write = [&](Draft& into, std::size_t k, std::int64_t value) {
      const NewStack& stack = states_.added[k];
      const std::int64_t whole =
          head.add("get-tuple-element", element_fields(stack.shape.bytes(), stack.forward_leaf), {given});
      const std::int64_t slice = into.add("bitcast", new_fields("bitcast", stack.slice.bytes()), {value});
      std::vector<std::int64_t> operands{whole, slice, slot};
      operands.resize(2 + stack.slice.dimensions.size(), zero);
      added[k] = into.add("dynamic-update-slice", new_fields("dynamic-update-slice", stack.shape.bytes()), operands);
    };
    for (std::size_t k = 0; k < states_.added.size(); ++k) {
      const Origin& value = states_.added[k].value;
      if (value.kind != Origin::state) continue;
      const std::size_t leaf = *states_.forward_state.numbers[value.leaf];
      write(head, k, head.add("get-tuple-element", element_fields(states_.forward_state.shapes[leaf], leaf), {given}));
    }
    for (const std::size_t i : forward_.order) {
      if (i == parameter || i == forward_.root || is_element(forward_, i, parameter) || is_dropped_writer(i)) continue;
      draft.keep(i);
      for (std::size_t k = 0; k < states_.added.size(); ++k) {
        const Origin& value = states_.added[k].value;
        if (value.kind != Origin::output || value.instruction != i) continue;
        const Instruction& made = forward_.instructions[i];
        const std::int64_t id =
            made.shape.tuple
                ? draft.add("get-tuple-element", element_fields(states_.value_shape(value), value.leaf), {made.id})
                : made.id;
        write(draft, k, id);
      }
    }
    Draft::Copy root = draft.as_is(forward_.root);
    root.operands = state_operands(forward_.instructions[forward_.root], states_.forward_state, forward_);
    root.operands.insert(root.operands.end(), added.begin(), added.end());
    root.fields = with_shape(forward_.instructions[forward_.root], states_.forward_state);
    draft.put(std::move(root));
    const Draft first = states_.state_in(pair_.forward.body, states_.forward_state);
    return draft.behind({&first, &head});
  }

  /// The first slot that saves an iteration from this one on: the last that is written there stays.
  std::int64_t slot_in_forward(Draft& head, std::int64_t counter, const std::string& shape) const {
    const auto number = [&](std::int64_t value) {
      return head.add("constant", *constant_fields(ArrayShape(shape), value), {});
    };
    const auto of_two = [&](const char* opcode, std::int64_t a, std::int64_t b) {
      return head.add(opcode, new_fields(opcode, shape), {a, b});
    };
    const auto [steps, segments] = states_.slots();
    const std::int64_t scaled = of_two("multiply", counter, number(segments));
    return of_two("divide", of_two("add", scaled, number(steps - 1)), number(steps));
  }

  [[nodiscard]] bool is_dropped_writer(std::size_t i) const {
    return std::any_of(states_.dropped.begin(), states_.dropped.end(),
                       [&](const auto& one) { return one.second->writer == i; });
  }

  WrittenComputation write_condition(const Loop& loop, const State& state) {
    const Computation& condition = module_.computations[loop.condition];
    const std::size_t parameter = parameter_in(condition);
    Draft draft(module_, states_.copies, loop.condition);
    for (const std::size_t i : condition.order) {
      if (i != parameter && !is_element(condition, i, parameter)) draft.keep(i);
    }
    const Draft first = states_.state_in(loop.condition, state);
    return draft.behind({&first});
  }

  WrittenComputation write_around() {
    const std::size_t c = pair_.computation();
    const Computation& around = module_.computations[c];
    Draft draft(module_, states_.copies, c);
    const std::vector<std::int64_t> forward_init = forward_operands();
    const std::int64_t forward_id = around.instructions[pair_.forward.instruction].id;
    for (const std::size_t i : around.order) {
      if (is_element(around, i, pair_.forward.instruction)) {
        keep_element(draft, around, i, states_.forward_state);
      } else if (is_element(around, i, pair_.backward.instruction)) {
        keep_element(draft, around, i, states_.backward_state);
      } else if (i == pair_.forward.instruction) {
        std::vector<std::int64_t> operands = forward_init;
        for (const NewStack& stack : states_.added) operands.push_back(initial(draft, stack));
        write_loop(draft, i, std::move(operands), states_.forward_state);
      } else if (i == pair_.backward.instruction) {
        const Instruction& tuple = around.instructions[around.instructions[i].operands[0]];
        std::vector<std::int64_t> operands = state_operands(tuple, states_.backward_state, around);
        operands.resize(states_.backward_state.shapes.size());
        for (const NewStack& stack : states_.added) {
          operands[stack.backward_leaf] =
              draft.add("get-tuple-element", element_fields(stack.shape.bytes(), stack.forward_leaf), {forward_id});
        }
        const Instruction& given = around.instructions[around.instructions[pair_.forward.instruction].operands[0]];
        for (const auto& [leaf, own] : states_.invariants) operands[own] = around.instructions[given.operands[leaf]].id;
        write_loop(draft, i, std::move(operands), states_.backward_state);
      } else {
        draft.keep(i);
      }
    }
    return draft.behind();
  }

  void write_loop(Draft& draft, std::size_t i, std::vector<std::int64_t> operands, const State& state) {
    const Instruction& loop = states_.at(pair_.computation(), i);
    const std::int64_t tuple = draft.add("tuple", new_fields("tuple", tuple_of(state.shapes)), std::move(operands));
    Draft::Copy copy = draft.as_is(i);
    copy.operands = {tuple};
    copy.fields = fields_of(loop, {instruction_field::shape, instruction_field::backend_config});
    wire::put_bytes(*copy.fields, instruction_field::shape, tuple_of(state.shapes));
    const std::string config(field_of(loop.bytes, instruction_field::backend_config));
    if (!config.empty()) wire::put_bytes(*copy.fields, instruction_field::backend_config, renumbered(config, state));
    draft.put(std::move(copy));
  }

  /// The initial state of F. A stack is overwritten before it is read: one that is a copy of a removed stack is made
  /// without a copy, and the others serve new stacks.
  std::vector<std::int64_t> forward_operands() {
    const Computation& around = module_.computations[pair_.computation()];
    const Instruction& tuple = around.instructions[around.instructions[pair_.forward.instruction].operands[0]];
    std::vector<std::size_t> init = tuple.operands;
    for (const auto& [leaf, stack] : states_.dropped) {
      for (const Stack& other : pair_.stacks) {
        if (states_.dropped.contains(other.leaf)) continue;
        const Instruction& copy = around.instructions[init[other.leaf]];
        if (copy.opcode == "copy" && copy.operands[0] == init[leaf]) {
          std::swap(init[leaf], init[other.leaf]);
          break;
        }
      }
      spare_[init[leaf]] = std::string(forward_shape(leaf));
    }
    std::vector<std::int64_t> operands;
    for (std::size_t leaf = 0; leaf < init.size(); ++leaf) {
      if (states_.forward_state.numbers[leaf]) operands.push_back(around.instructions[init[leaf]].id);
    }
    return operands;
  }

  [[nodiscard]] std::string forward_shape(std::size_t leaf) const {
    return parts_of(shape_of(states_.at(pair_.computation(), pair_.forward.instruction)))[leaf];
  }

  std::int64_t initial(Draft& draft, const NewStack& stack) {
    const Computation& around = module_.computations[pair_.computation()];
    for (const auto& [i, shape] : spare_) {
      if (ArrayShape(shape) != stack.shape) continue;
      const std::int64_t id = around.instructions[i].id;
      spare_.erase(i);
      return id;
    }
    ArrayShape scalar = stack.shape;
    scalar.dimensions.clear();
    scalar.minor_to_major.clear();
    std::optional<std::string> fields = constant_fields(scalar, 0);
    if (!fields) states_.cannot("a value of a type that is not known here would be saved");
    const std::int64_t zero = draft.add("constant", std::move(*fields), {});
    return draft.add("broadcast", new_fields("broadcast", stack.shape.bytes()), {zero});
  }

  PairStates states_;
  const Module& module_;
  const LoopPair& pair_;
  const Computation& forward_;
  std::map<std::size_t, std::string> spare_;
};

/// An instruction that reads what another one has overwritten: storages are one memory each.
std::optional<std::string> stale_instruction(const Module& module) {
  const Dataflow dataflow(module);
  for (std::size_t c = 0; c < module.computations.size(); ++c) {
    const Computation& computation = module.computations[c];
    if (computation.is_fusion) continue;
    std::vector<bool> overwritten(dataflow.values().size());
    for (const std::size_t i : computation.order) {
      const Instruction& instruction = computation.instructions[i];
      if (is_alias(instruction) && i != computation.root) continue;
      for (const ValueId value : dataflow.reads(c, i)) {
        if (overwritten[value.index()]) return instruction.name;
      }
      for (const ValueId value : dataflow.destroys(c, i)) overwritten[value.index()] = true;
      for (const ValueId value : dataflow.leaves(c, i)) {
        const bool is_own = dataflow[value].instruction == i && dataflow[value].computation == c;
        if (!is_own || dataflow[value].kind != ValueKind::computed) continue;
        for (const ValueId other : dataflow.members(dataflow.storage(value))) {
          if (other != value && dataflow[other].computation == c && dataflow[other].kind != ValueKind::constant) {
            overwritten[other.index()] = true;
          }
        }
        overwritten[value.index()] = false;
      }
    }
  }
  return {};
}

}  // namespace

std::string rewrite_pair(const LoweredModule& lowered, const LoopPair& pair, std::span<const TensorId> saved,
                         std::size_t slots) {
  if (slots == 1 || slots > pair.forward.trips() || (slots > 0 && !saved.empty())) {
    throw InputError(lowered.source, "slots: at least two, at most one for each iteration, and nothing else is saved");
  }
  std::string bytes = PairWriter(lowered, pair, saved, slots).bytes(*lowered.bytes);
  const LoweredModule again = lower_module(bytes, "the rewritten module", lowered.machine);
  if (const std::optional<std::string> stale = stale_instruction(again.module)) {
    throw InputError(lowered.source, quote(*stale) + " would read what is overwritten before");
  }
  return bytes;
}

}  // namespace remora::hlo
