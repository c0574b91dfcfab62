// SPDX-License-Identifier: Apache-2.0
//
// The body of the backward loop. What it read in stacks that are gone is computed again, from what is saved:
//
//     head_     elements of the state, constants, numbers of iterations
//     repeat_   the loop that repeats iterations of F, where only some are saved
//     body_     B's instructions; before a reader of a stack that is gone, F's instructions for it
#include <algorithm>
#include <optional>

#include "frontends/formats/wire.hpp"
#include "frontends/hlo/pair_states.hpp"
#include "model/quote.hpp"

namespace remora::hlo {
namespace {

class BackwardWriter {
 public:
  explicit BackwardWriter(PairStates& states)
      : states_(states),
        module_(states.module),
        dataflow_(states.dataflow),
        pair_(states.pair),
        forward_(states.forward),
        backward_(states.backward),
        head_(module_, states.copies, pair_.backward.body),
        repeat_(module_, states.copies, pair_.backward.body),
        body_(module_, states.copies, pair_.backward.body) {}

  WrittenComputation write() {
    const std::size_t c = pair_.backward.body;
    const std::size_t parameter = parameter_in(backward_);
    for (const std::size_t i : backward_.order) {
      const Instruction& instruction = backward_.instructions[i];
      const std::map<std::size_t, const Stack*> dropped = dropped_operands(i);
      if (i == parameter || i == backward_.root || is_element(backward_, i, parameter)) continue;
      if (dropped.empty() || is_alias(instruction)) {
        body_.keep(i);
      } else if (instruction.opcode == "dynamic-slice") {
        put_bitcast(i, update_in_backward(*dropped.at(0)));
      } else {
        write_reader(c, i, dropped);
      }
    }
    if (!carried_.empty()) write_repeat();
    Draft::Copy root = body_.as_is(backward_.root);
    root.operands = state_operands(backward_.instructions[backward_.root], states_.backward_state, backward_);
    while (root.operands.size() < states_.backward_state.shapes.size())
      root.operands.push_back(element(root.operands.size()));
    root.fields = with_shape(backward_.instructions[backward_.root], states_.backward_state);
    body_.put(std::move(root));
    const Draft first = states_.state_in(c, states_.backward_state);
    return body_.behind({&first, &head_, &repeat_});
  }

 private:
  /// By operand's place: the stack that is not there any more.
  [[nodiscard]] std::map<std::size_t, const Stack*> dropped_operands(std::size_t i) const {
    std::map<std::size_t, const Stack*> found;
    const Instruction& instruction = backward_.instructions[i];
    const std::size_t parameter = parameter_in(backward_);
    const std::vector<ValueId>& given = dataflow_.leaves(pair_.backward.body, parameter);
    for (std::size_t k = 0; k < instruction.operands.size(); ++k) {
      const std::vector<ValueId>& read = dataflow_.leaves(pair_.backward.body, instruction.operands[k]);
      for (const auto& [leaf, stack] : states_.dropped) {
        for (const std::size_t own : stack->backward) {
          if (read.size() == 1 && read[0] == given[own]) found[k] = stack;
        }
      }
    }
    return found;
  }

  /// A value in place of an instruction of B's body, with its name, id and shape.
  void put_bitcast(std::size_t i, std::int64_t value) {
    Draft::Copy copy = body_.as_is(i);
    copy.fields = new_fields("bitcast", shape_of(backward_.instructions[i]));
    copy.operands = {value};
    copy.called.clear();
    body_.put(std::move(copy));
  }

  /// A fusion that took slices, and gets them now.
  void write_reader(std::size_t c, std::size_t i, const std::map<std::size_t, const Stack*>& dropped) {
    const Instruction& fusion = states_.at(c, i);
    const Computation& fused = module_.computations[fusion.called[0]];
    FusedVariant variant{.computation = fusion.called[0], .root = fused.root};
    for (std::size_t k = 0; k < fused.instructions.size(); ++k) {
      const Instruction& one = fused.instructions[k];
      if (one.opcode != "dynamic-slice") continue;
      const Instruction& sliced = fused.instructions[part_of(one.operands, 0)];
      if (sliced.opcode != "parameter" || !dropped.contains(static_cast<std::size_t>(sliced.parameter_number)))
        continue;
      variant.instead[k] = one.operands[0];
      variant.shapes[one.operands[0]] = shape_of(one);
    }
    std::map<std::size_t, std::int64_t> values;
    for (const auto& [place, stack] : dropped) values[place] = update_in_backward(*stack);
    std::size_t root = fused.root;
    while (fused.instructions[root].opcode == "bitcast" || variant.instead.contains(root)) {
      root = variant.instead.contains(root) ? variant.instead[root] : fused.instructions[root].operands[0];
    }
    const auto place = static_cast<std::size_t>(fused.instructions[root].parameter_number);
    if (fused.instructions[root].opcode == "parameter" && values.contains(place)) return put_bitcast(i, values[place]);
    Draft::Copy copy = body_.as_is(i);
    const auto [id, numbers] = add_variant(module_, states_.copies, variant, c);
    std::vector<std::int64_t> operands;
    for (const std::size_t number : numbers) {
      operands.push_back(values.contains(number) ? values[number] : copy.operands[number]);
    }
    copy.operands = std::move(operands);
    copy.called = {id};
    body_.put(std::move(copy));
  }

  // Values that F computed, in B.

  /// The update that F wrote into the stack, in the shape of a slice.
  std::int64_t update_in_backward(const Stack& stack) {
    const auto [made, is_new] = updates_.try_emplace(stack.leaf, 0);
    if (!is_new) return made->second;
    const std::size_t c = pair_.forward.body;
    const Instruction& writer = states_.at(c, stack.writer);
    const bool is_fusion = writer.opcode == "fusion";
    const Instruction& update = states_.at(is_fusion ? writer.called[0] : c, stack.update);
    std::int64_t id = 0;
    if (const std::optional<std::int64_t> slice = saved_slice(stack.value, shape_of(update))) {
      id = *slice;
    } else if (stack.value.kind == Origin::update) {
      FusedVariant variant{.computation = writer.called[0], .root = stack.update};
      const auto [called, numbers] = add_variant(module_, states_.copies, variant, pair_.backward.body);
      std::vector<std::int64_t> operands;
      for (const std::size_t number : numbers) operands.push_back(in_backward(part_of(writer.operands, number)));
      std::string fields = fields_of(writer, {instruction_field::shape, instruction_field::backend_config,
                                              instruction_field::output_operand_aliasing});
      wire::put_bytes(fields, instruction_field::shape, shape_of(update));
      id = body_.add(writer.name, std::move(fields), std::move(operands), {called});
    } else {
      id = bitcast(in_backward(written_operand(stack)), shape_of(update));
    }
    updates_[stack.leaf] = id;
    return id;
  }

  /// The instruction of F's body that goes into the stack as it is, or behind bitcasts.
  [[nodiscard]] std::size_t written_operand(const Stack& stack) const {
    const Instruction& writer = states_.at(pair_.forward.body, stack.writer);
    if (writer.opcode != "fusion") return stack.update;
    std::size_t i = stack.update;
    while (states_.at(writer.called[0], i).opcode == "bitcast")
      i = part_of(states_.at(writer.called[0], i).operands, 0);
    return part_of(writer.operands, static_cast<std::size_t>(states_.at(writer.called[0], i).parameter_number));
  }

  std::int64_t bitcast(std::int64_t id, std::string_view shape) {
    return body_.add("bitcast", new_fields("bitcast", shape), {id});
  }

  /// An instruction of F's body, as it was in the iteration that this one goes with.
  std::int64_t in_backward(std::size_t i) {
    const auto known = again_.find(i);
    if (known != again_.end()) return known->second;
    const Instruction& instruction = forward_.instructions[i];
    const Origin origin = origin_of(module_, dataflow_, pair_.forward.body, i);
    const std::optional<std::int64_t> slice =
        instruction.shape.tuple ? std::nullopt : saved_slice(origin, shape_of(instruction));
    const bool is_state = origin.kind == Origin::state && instruction.opcode == "get-tuple-element";
    const std::int64_t id = slice      ? *slice
                            : is_state ? state_in_backward(origin.leaf, shape_of(instruction))
                                       : repeated(i);
    again_[i] = id;
    return id;
  }

  std::int64_t repeated(std::size_t i) {
    const Instruction& instruction = forward_.instructions[i];
    if (instruction.opcode == "parameter") states_.cannot("its state is read as a whole");
    if (is_plain_copy(module_, dataflow_, pair_.forward.body, i)) return in_backward(instruction.operands[0]);
    if (has_effect(module_, instruction)) states_.cannot(quote(instruction.name) + " may run only once");
    std::vector<std::int64_t> operands;
    for (const std::size_t operand : instruction.operands) operands.push_back(in_backward(operand));
    return body_.add(instruction.name, fields_of(instruction), std::move(operands),
                     states_.copies.called_by(instruction, pair_.backward.body));
  }

  /// A slice of the stack that has the value, in that shape.
  std::optional<std::int64_t> saved_slice(const Origin& value, std::string_view shape) {
    std::size_t leaf = 0;
    std::vector<std::int64_t> slots;
    std::optional<ArrayShape> sliced;
    if (const auto holder = states_.holders.find(value); holder != states_.holders.end()) {
      const Stack& stack = *holder->second;
      const Instruction& writer = states_.at(pair_.forward.body, stack.writer);
      leaf = *states_.backward_state.numbers[stack.backward.at(0)];
      for (const std::size_t t : pair_.partner) slots.push_back(stack.slots[t]);
      sliced = ArrayShape(
          shape_of(states_.at(writer.opcode == "fusion" ? writer.called[0] : pair_.forward.body, stack.update)));
    } else {
      const auto own = std::find_if(states_.added.begin(), states_.added.end(),
                                    [&](const NewStack& one) { return one.value == value; });
      if (own == states_.added.end()) return {};
      leaf = own->backward_leaf;
      slots.assign(pair_.partner.begin(), pair_.partner.end());
      sliced = own->slice;
    }
    const auto [made, is_new] = slices_.try_emplace(value, 0);
    if (is_new) {
      const std::int64_t slot = number_in_backward(slots);
      made->second = slice(body_, leaf, slot, *sliced);
    }
    return ArrayShape(shape) == *sliced ? made->second : bitcast(made->second, shape);
  }

  std::int64_t element(std::size_t leaf) {
    const auto [made, is_new] = elements_.try_emplace(leaf, 0);
    if (is_new) {
      const std::size_t parameter = parameter_in(backward_);
      made->second = head_.add("get-tuple-element", element_fields(states_.backward_state.shapes[leaf], leaf),
                               {backward_.instructions[parameter].id});
    }
    return made->second;
  }

  /// A leaf of F's state that is not saved: its counter, or what is the same in all iterations.
  std::int64_t state_in_backward(std::size_t leaf, std::string_view shape) {
    if (leaf == pair_.counter) {
      std::vector<std::int64_t> numbers(pair_.partner.begin(), pair_.partner.end());
      if (ArrayShape(shape) != index_shape()) states_.cannot("the two loops count with numbers of different types");
      return number_in_backward(numbers);
    }
    if (!is_at_hand(module_, dataflow_, pair_, leaf)) return repeated_state(leaf);
    return invariant_in_backward(leaf, shape);
  }

  /// A leaf of F's state that is the same in all iterations.
  std::int64_t invariant_in_backward(std::size_t leaf, std::string_view shape) {
    const ValueId value = part_of(dataflow_.reads(pair_.computation(), pair_.forward.instruction), leaf);
    const std::vector<ValueId> init = dataflow_.reads(pair_.computation(), pair_.backward.instruction);
    for (std::size_t own = 0; own < init.size(); ++own) {
      if (init[own] == value && is_invariant(module_, dataflow_, pair_.backward, own) &&
          states_.backward_state.numbers[own]) {
        return element(*states_.backward_state.numbers[own]);
      }
    }
    const auto [made, is_new] = states_.invariants.try_emplace(leaf, states_.backward_state.shapes.size());
    if (is_new) states_.backward_state.shapes.emplace_back(shape);
    return element(made->second);
  }

  /// A carried leaf of F's state that is saved in some iterations, as the loop gives it that repeats the others.
  std::int64_t repeated_state(std::size_t leaf) {
    if (states_.slot_count == 0) states_.cannot("something that it carries is needed and not saved");
    const auto [made, is_new] = repeated_.try_emplace(leaf, 0);
    if (is_new) {
      carried_.push_back(leaf);
      made->second = states_.copies.fresh().instruction(backward_.id);
    }
    return made->second;
  }

  /// The loop that repeats iterations of F, and what it starts from.
  void write_repeat() {
    const RepeatedLoop loop = add_repeated_loop(module_, dataflow_, states_.copies, pair_, carried_);
    const std::vector<std::int64_t> iterations(pair_.partner.begin(), pair_.partner.end());
    const ArrayShape index = index_shape();
    if (ArrayShape(loop.shapes[0]) != index) states_.cannot("the two loops count with numbers of different types");
    const auto number = [&](const char* opcode, std::int64_t a, std::int64_t b) {
      return repeat_.add(opcode, new_fields(opcode, index.bytes()), {a, b});
    };
    const auto [steps, segments] = states_.slots();
    const std::int64_t iteration = number_in_backward(iterations);
    const std::int64_t scaled = number("multiply", iteration, constant(index, segments));
    const std::int64_t slot =
        number("divide", number("add", scaled, constant(index, segments - 1)), constant(index, steps));
    const std::int64_t begin =
        number("divide", number("multiply", slot, constant(index, steps)), constant(index, segments));
    std::vector<std::int64_t> operands{begin, iteration};
    for (std::size_t k = 0; k < loop.leaves.size(); ++k) {
      const std::string& shape = loop.shapes[operands.size()];
      const bool is_same = is_at_hand(module_, dataflow_, pair_, loop.leaves[k]);
      operands.push_back(is_same ? invariant_in_backward(loop.leaves[k], shape)
                                 : saved_carry(loop.leaves[k], slot, shape));
    }
    const std::string shape = tuple_of(loop.shapes);
    const std::int64_t tuple = repeat_.add("tuple", new_fields("tuple", shape), std::move(operands));
    const std::int64_t whole = repeat_.add("while", new_fields("while", shape), {tuple}, {loop.body, loop.condition});
    for (std::size_t k = 0; k < carried_.size(); ++k) {
      repeat_.put({.name = states_.copies.fresh().name("get-tuple-element"),
                   .id = repeated_[carried_[k]],
                   .operands = {whole},
                   .fields = element_fields(loop.shapes[2 + k], 2 + k)});
    }
  }

  /// A carried leaf as the slot has it, in a stack that is new.
  std::int64_t saved_carry(std::size_t leaf, std::int64_t slot, std::string_view shape) {
    states_.add_stack({Origin::state, 0, leaf});
    const NewStack& stack = states_.added.back();
    return repeat_.add("bitcast", new_fields("bitcast", shape),
                       {slice(repeat_, stack.backward_leaf, slot, stack.slice)});
  }

  /// A slot of a leaf of B's state.
  std::int64_t slice(Draft& draft, std::size_t leaf, std::int64_t slot, const ArrayShape& shape) {
    std::string fields = new_fields("dynamic-slice", shape.bytes());
    for (const std::int64_t one : shape.dimensions) {
      wire::put_number(fields, instruction_field::slice_sizes, static_cast<std::uint64_t>(one));
    }
    std::vector<std::int64_t> operands{element(leaf), slot};
    operands.resize(1 + shape.dimensions.size(), zero(index_shape()));
    operands[1] = slot;
    return draft.add("dynamic-slice", std::move(fields), std::move(operands));
  }

  // Numbers in B.

  /// The leaf that B counts with: its numbers give all others, added to one or taken from one.
  struct Counting {
    std::size_t leaf = 0;
    std::vector<std::int64_t> numbers{};
  };

  [[nodiscard]] const Counting& counting() {
    if (!counting_) {
      for (std::size_t leaf = 0; leaf < pair_.backward.states[0].size() && !counting_; ++leaf) {
        std::vector<std::int64_t> numbers = pair_.backward.leaf(leaf);
        const bool is_moving = numbers.size() > 1 && std::abs(numbers[1] - numbers[0]) == 1;
        if (is_moving && states_.backward_state.numbers[leaf]) counting_ = Counting{leaf, std::move(numbers)};
      }
      if (!counting_) states_.cannot("the backward loop has no counter");
    }
    return *counting_;
  }

  ArrayShape index_shape() {
    return ArrayShape(states_.backward_state.shapes[*states_.backward_state.numbers[counting().leaf]]);
  }

  std::int64_t constant(const ArrayShape& shape, std::int64_t number) {
    const auto [made, is_new] = constants_.try_emplace(number, 0);
    if (is_new) {
      std::optional<std::string> fields = constant_fields(shape, number);
      if (!fields) states_.cannot("it counts with numbers of a type that is not known here");
      made->second = head_.add("constant", std::move(*fields), {});
    }
    return made->second;
  }
  std::int64_t zero(const ArrayShape& shape) { return constant(shape, 0); }

  /// A number that is these in the iterations of B.
  std::int64_t number_in_backward(const std::vector<std::int64_t>& wanted) {
    const auto known = numbers_.find(wanted);
    if (known != numbers_.end()) return known->second;
    const std::vector<std::int64_t>& own = counting().numbers;
    bool is_sum = true;
    bool is_difference = true;
    for (std::size_t t = 0; t < own.size(); ++t) {
      is_sum = is_sum && wanted[t] - own[t] == wanted[0] - own[0];
      is_difference = is_difference && wanted[t] + own[t] == wanted[0] + own[0];
    }
    if (!is_sum && !is_difference) states_.cannot("the backward loop takes the iterations in an order of its own");
    const ArrayShape shape = index_shape();
    const std::int64_t counter = element(*states_.backward_state.numbers[counting().leaf]);
    std::int64_t id = 0;
    if (is_sum && wanted[0] == own[0]) {
      id = head_.add("copy", new_fields("copy", shape.bytes()), {counter});
    } else if (is_sum) {
      id = head_.add("add", new_fields("add", shape.bytes()), {counter, constant(shape, wanted[0] - own[0])});
    } else {
      id = head_.add("subtract", new_fields("subtract", shape.bytes()), {constant(shape, wanted[0] + own[0]), counter});
    }
    numbers_[wanted] = id;
    return id;
  }
  PairStates& states_;
  const Module& module_;
  const Dataflow& dataflow_;
  const LoopPair& pair_;
  const Computation& forward_;
  const Computation& backward_;
  Draft head_;
  Draft repeat_;
  Draft body_;
  /// In B's body: ids of slices, of F's instructions, of what F wrote, of its state, of numbers.
  std::map<Origin, std::int64_t> slices_;
  std::map<std::size_t, std::int64_t> again_;
  std::map<std::size_t, std::int64_t> updates_;
  std::map<std::size_t, std::int64_t> elements_;
  /// Carried leaves of F that are repeated, and their ids.
  std::vector<std::size_t> carried_;
  std::map<std::size_t, std::int64_t> repeated_;
  std::map<std::int64_t, std::int64_t> constants_;
  std::map<std::vector<std::int64_t>, std::int64_t> numbers_;
  std::optional<Counting> counting_;
};

}  // namespace

WrittenComputation write_backward(PairStates& states) {
  return BackwardWriter(states).write();
}

}  // namespace remora::hlo
