// SPDX-License-Identifier: Apache-2.0
//
// A pair of loops with other stacks. Leaves of the two states are numbered anew: those that stay, in their order, then stacks that are
// new, and in B what it needs of F to compute again. Unused instructions are pruned at the end.
#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

#include "frontends/formats/wire.hpp"
#include "frontends/hlo/draft.hpp"
#include "frontends/hlo/loops.hpp"
#include "frontends/hlo/repeat.hpp"
#include "model/error.hpp"
#include "model/quote.hpp"

namespace remora::hlo {
namespace {

/// Leaves of a state, by their old numbers and as they are written.
struct State {
  std::vector<std::optional<std::size_t>> numbers{};
  std::vector<std::string> shapes{};
};

std::size_t parameter_in(const Computation& computation) {
  std::size_t i = 0;
  while (computation.instructions[i].opcode != "parameter") ++i;
  return i;
}

std::string element_fields(std::string_view shape, std::size_t leaf) {
  std::string text = new_fields("get-tuple-element", shape);
  wire::put_number(text, fields::tuple_index, leaf);
  return text;
}

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
      : module_(lowered.module),
        dataflow_(module_),
        pair_(pair),
        slots_(slots),
        copies_(module_),
        forward_(module_.computations[pair.forward.body]),
        backward_(module_.computations[pair.backward.body]),
        head_(module_, copies_, pair.backward.body),
        repeat_(module_, copies_, pair.backward.body),
        body_(module_, copies_, pair.backward.body) {
    for (const TensorId tensor : saved) saved_.insert(pair.values.at(tensor.index()));
    choose_stacks();
  }

  std::string bytes(std::string_view old) {
    WrittenComputation backward = write_backward();
    std::vector<WrittenComputation> written;
    WrittenComputation forward = write_forward();
    WrittenComputation around = write_around();
    written.push_back(write_condition(pair_.forward, forward_state_));
    written.push_back(write_condition(pair_.backward, backward_state_));
    written.push_back(std::move(forward));
    for (WrittenComputation& one : copies_.added) written.push_back(std::move(one));
    written.push_back(std::move(backward));
    written.push_back(std::move(around));
    return write_module(old, module_, written);
  }

 private:
  struct NewStack {
    Origin value{};
    ArrayShape slice;
    ArrayShape shape;
    std::size_t forward_leaf = 0;
    std::size_t backward_leaf = 0;
  };

  [[noreturn]] void cannot(const std::string& why) const {
    throw InputError(
        "loop " + quote(module_.computations[pair_.computation()].instructions[pair_.forward.instruction].name), why);
  }

  [[nodiscard]] const Instruction& at(std::size_t c, std::size_t i) const {
    return module_.computations[c].instructions[i];
  }

  // Stacks.

  void choose_stacks() {
    forward_state_ = state_of(pair_.forward);
    backward_state_ = state_of(pair_.backward);
    for (const Stack& stack : pair_.stacks) {
      const bool is_used = !stack.can_go || (saved_.contains(stack.value) && !holders_.contains(stack.value));
      if (!is_used) {
        dropped_[stack.leaf] = &stack;
        continue;
      }
      if (!stack.backward.empty()) holders_.try_emplace(stack.value, &stack);
    }
    std::set<std::size_t> without;
    for (const auto& [leaf, stack] : dropped_) without.insert(stack->backward.begin(), stack->backward.end());
    std::set<std::size_t> leaves;
    for (const auto& [leaf, stack] : dropped_) leaves.insert(leaf);
    leave_out(forward_state_, leaves);
    leave_out(backward_state_, without);
    for (const Origin& value : saved_) {
      if (!holders_.contains(value)) add_stack(value);
    }
  }

  [[nodiscard]] State state_of(const Loop& loop) const {
    State state{.shapes = parts_of(shape_of(at(loop.computation, loop.instruction)))};
    for (std::size_t leaf = 0; leaf < state.shapes.size(); ++leaf) state.numbers.emplace_back(leaf);
    return state;
  }

  static void leave_out(State& state, const std::set<std::size_t>& leaves) {
    std::vector<std::string> shapes;
    for (std::size_t leaf = 0; leaf < state.numbers.size(); ++leaf) {
      state.numbers[leaf] = leaves.contains(leaf) ? std::nullopt : std::optional(shapes.size());
      if (state.numbers[leaf]) shapes.push_back(state.shapes[leaf]);
    }
    state.shapes = std::move(shapes);
  }

  void add_stack(const Origin& value) {
    const ArrayShape shape(value_shape(value));
    const ArrayShape slice = value.kind == Origin::update ? shape : shape.stacked(1);
    ArrayShape all = slice;
    all.dimensions[0] = static_cast<std::int64_t>(slots_ > 0 ? slots_ : pair_.forward.trips());
    forward_state_.shapes.push_back(all.bytes());
    backward_state_.shapes.push_back(all.bytes());
    new_.push_back({value, slice, all, forward_state_.shapes.size() - 1, backward_state_.shapes.size() - 1});
  }

  /// The shape of a value in F's body.
  [[nodiscard]] std::string value_shape(const Origin& value) const {
    const Loop& loop = pair_.forward;
    if (value.kind == Origin::state) return parts_of(shape_of(at(loop.computation, loop.instruction)))[value.leaf];
    const Instruction& made = at(loop.body, value.instruction);
    if (value.kind == Origin::update) return std::string(shape_of(at(made.called[0], stack_of(value).update)));
    return made.shape.tuple ? parts_of(shape_of(made))[value.leaf] : std::string(shape_of(made));
  }

  [[nodiscard]] const Stack& stack_of(const Origin& update) const {
    return *std::find_if(pair_.stacks.begin(), pair_.stacks.end(),
                         [&](const Stack& stack) { return stack.writer == update.instruction; });
  }

  // B's body.

  WrittenComputation write_backward() {
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
    root.operands = state_operands(backward_.instructions[backward_.root], backward_state_, backward_);
    while (root.operands.size() < backward_state_.shapes.size()) root.operands.push_back(element(root.operands.size()));
    root.fields = with_shape(backward_.instructions[backward_.root], backward_state_);
    body_.put(std::move(root));
    const Draft first = state_in(c, backward_state_);
    return body_.behind({&first, &head_, &repeat_});
  }

  /// The parameter of a body or condition, and its elements.
  Draft state_in(std::size_t c, const State& state) {
    const Computation& computation = module_.computations[c];
    const std::size_t parameter = parameter_in(computation);
    Draft draft(module_, copies_, c);
    Draft::Copy copy = draft.as_is(parameter);
    copy.fields = with_shape(computation.instructions[parameter], state);
    draft.put(std::move(copy));
    for (const std::size_t i : computation.order) {
      if (is_element(computation, i, parameter)) keep_element(draft, computation, i, state);
    }
    return draft;
  }

  /// By operand's place: the stack that is not there any more.
  [[nodiscard]] std::map<std::size_t, const Stack*> dropped_operands(std::size_t i) const {
    std::map<std::size_t, const Stack*> found;
    const Instruction& instruction = backward_.instructions[i];
    const std::size_t parameter = parameter_in(backward_);
    const std::vector<ValueId>& given = dataflow_.leaves(pair_.backward.body, parameter);
    for (std::size_t k = 0; k < instruction.operands.size(); ++k) {
      const std::vector<ValueId>& read = dataflow_.leaves(pair_.backward.body, instruction.operands[k]);
      for (const auto& [leaf, stack] : dropped_) {
        for (const std::size_t own : stack->backward) {
          if (read.size() == 1 && read[0] == given[own]) found[k] = stack;
        }
      }
    }
    return found;
  }

  static bool is_element(const Computation& computation, std::size_t i, std::size_t parameter) {
    const Instruction& one = computation.instructions[i];
    return one.opcode == "get-tuple-element" && part_of(one.operands, 0) == parameter;
  }

  void keep_element(Draft& draft, const Computation& computation, std::size_t i, const State& state) {
    const Instruction& one = computation.instructions[i];
    const std::optional<std::size_t> number = part_of(state.numbers, static_cast<std::size_t>(one.tuple_index));
    if (!number) return;
    Draft::Copy copy = draft.as_is(i);
    copy.fields = fields_of(one, {fields::tuple_index});
    wire::put_number(*copy.fields, fields::tuple_index, *number);
    draft.put(std::move(copy));
  }

  static std::string with_shape(const Instruction& instruction, const State& state) {
    std::string text = fields_of(instruction, {fields::shape});
    wire::put_bytes(text, fields::shape, tuple_of(state.shapes));
    return text;
  }

  static std::vector<std::int64_t> state_operands(const Instruction& tuple, const State& state,
                                                  const Computation& computation) {
    std::vector<std::int64_t> operands;
    for (std::size_t leaf = 0; leaf < tuple.operands.size(); ++leaf) {
      if (part_of(state.numbers, leaf)) operands.push_back(computation.instructions[tuple.operands[leaf]].id);
    }
    return operands;
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
    const Instruction& fusion = at(c, i);
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
    const auto [id, numbers] = add_variant(module_, copies_, variant, c);
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
    const Instruction& writer = at(c, stack.writer);
    const bool is_fusion = writer.opcode == "fusion";
    const Instruction& update = at(is_fusion ? writer.called[0] : c, stack.update);
    std::int64_t id = 0;
    if (const std::optional<std::int64_t> slice = saved_slice(stack.value, shape_of(update))) {
      id = *slice;
    } else if (stack.value.kind == Origin::update) {
      FusedVariant variant{.computation = writer.called[0], .root = stack.update};
      const auto [called, numbers] = add_variant(module_, copies_, variant, pair_.backward.body);
      std::vector<std::int64_t> operands;
      for (const std::size_t number : numbers) operands.push_back(in_backward(part_of(writer.operands, number)));
      std::string fields = fields_of(writer, {fields::shape, fields::backend_config, fields::aliasing});
      wire::put_bytes(fields, fields::shape, shape_of(update));
      id = body_.add(writer.name, std::move(fields), std::move(operands), {called});
    } else {
      id = bitcast(in_backward(written_operand(stack)), shape_of(update));
    }
    updates_[stack.leaf] = id;
    return id;
  }

  /// The instruction of F's body that goes into the stack as it is, or behind bitcasts.
  [[nodiscard]] std::size_t written_operand(const Stack& stack) const {
    const Instruction& writer = at(pair_.forward.body, stack.writer);
    if (writer.opcode != "fusion") return stack.update;
    std::size_t i = stack.update;
    while (at(writer.called[0], i).opcode == "bitcast") i = part_of(at(writer.called[0], i).operands, 0);
    return part_of(writer.operands, static_cast<std::size_t>(at(writer.called[0], i).parameter_number));
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
    if (instruction.opcode == "parameter") cannot("its state is read as a whole");
    if (is_plain_copy(module_, dataflow_, pair_.forward.body, i)) return in_backward(instruction.operands[0]);
    if (has_effect(module_, instruction)) cannot(quote(instruction.name) + " may run only once");
    std::vector<std::int64_t> operands;
    for (const std::size_t operand : instruction.operands) operands.push_back(in_backward(operand));
    return body_.add(instruction.name, fields_of(instruction), std::move(operands),
                     copies_.called_by(instruction, pair_.backward.body));
  }

  /// A slice of the stack that has the value, in that shape.
  std::optional<std::int64_t> saved_slice(const Origin& value, std::string_view shape) {
    std::size_t leaf = 0;
    std::vector<std::int64_t> slots;
    std::optional<ArrayShape> sliced;
    if (const auto holder = holders_.find(value); holder != holders_.end()) {
      const Stack& stack = *holder->second;
      const Instruction& writer = at(pair_.forward.body, stack.writer);
      leaf = *backward_state_.numbers[stack.backward.at(0)];
      for (const std::size_t t : pair_.partner) slots.push_back(stack.slots[t]);
      sliced =
          ArrayShape(shape_of(at(writer.opcode == "fusion" ? writer.called[0] : pair_.forward.body, stack.update)));
    } else {
      const auto own = std::find_if(new_.begin(), new_.end(), [&](const NewStack& one) { return one.value == value; });
      if (own == new_.end()) return {};
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
      made->second = head_.add("get-tuple-element", element_fields(backward_state_.shapes[leaf], leaf),
                               {backward_.instructions[parameter].id});
    }
    return made->second;
  }

  /// A leaf of F's state that is not saved: its counter, or what is the same in all iterations.
  std::int64_t state_in_backward(std::size_t leaf, std::string_view shape) {
    if (leaf == pair_.counter) {
      std::vector<std::int64_t> numbers(pair_.partner.begin(), pair_.partner.end());
      if (ArrayShape(shape) != index_shape()) cannot("the two loops count with numbers of different types");
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
      if (init[own] == value && is_invariant(module_, dataflow_, pair_.backward, own) && backward_state_.numbers[own]) {
        return element(*backward_state_.numbers[own]);
      }
    }
    const auto [made, is_new] = invariants_.try_emplace(leaf, backward_state_.shapes.size());
    if (is_new) backward_state_.shapes.emplace_back(shape);
    return element(made->second);
  }

  /// A carried leaf of F's state that is saved in some iterations, as the loop gives it that repeats the others.
  std::int64_t repeated_state(std::size_t leaf) {
    if (slots_ == 0) cannot("something that it carries is needed and not saved");
    const auto [made, is_new] = repeated_.try_emplace(leaf, 0);
    if (is_new) {
      carried_.push_back(leaf);
      made->second = copies_.fresh().instruction(backward_.id);
    }
    return made->second;
  }

  [[nodiscard]] Slots slots() const {
    return {.steps = static_cast<std::int64_t>(pair_.forward.trips()) - 1,
            .segments = static_cast<std::int64_t>(slots_) - 1};
  }

  /// The loop that repeats iterations of F, and what it starts from.
  void write_repeat() {
    const RepeatedLoop loop = add_repeated_loop(module_, dataflow_, copies_, pair_, carried_);
    const std::vector<std::int64_t> iterations(pair_.partner.begin(), pair_.partner.end());
    const ArrayShape index = index_shape();
    if (ArrayShape(loop.shapes[0]) != index) cannot("the two loops count with numbers of different types");
    const auto number = [&](const char* opcode, std::int64_t a, std::int64_t b) {
      return repeat_.add(opcode, new_fields(opcode, index.bytes()), {a, b});
    };
    const auto [steps, segments] = slots();
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
      repeat_.put({.name = copies_.fresh().name("get-tuple-element"),
                   .id = repeated_[carried_[k]],
                   .operands = {whole},
                   .fields = element_fields(loop.shapes[2 + k], 2 + k)});
    }
  }

  /// A carried leaf as the slot has it, in a stack that is new.
  std::int64_t saved_carry(std::size_t leaf, std::int64_t slot, std::string_view shape) {
    add_stack({Origin::state, 0, leaf});
    const NewStack& stack = new_.back();
    return repeat_.add("bitcast", new_fields("bitcast", shape),
                       {slice(repeat_, stack.backward_leaf, slot, stack.slice)});
  }

  /// A slot of a leaf of B's state.
  std::int64_t slice(Draft& draft, std::size_t leaf, std::int64_t slot, const ArrayShape& shape) {
    std::string fields = new_fields("dynamic-slice", shape.bytes());
    for (const std::int64_t one : shape.dimensions) {
      wire::put_number(fields, fields::slice_sizes, static_cast<std::uint64_t>(one));
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
        if (is_moving && backward_state_.numbers[leaf]) counting_ = Counting{leaf, std::move(numbers)};
      }
      if (!counting_) cannot("the backward loop has no counter");
    }
    return *counting_;
  }

  ArrayShape index_shape() { return ArrayShape(backward_state_.shapes[*backward_state_.numbers[counting().leaf]]); }

  std::int64_t constant(const ArrayShape& shape, std::int64_t number) {
    const auto [made, is_new] = constants_.try_emplace(number, 0);
    if (is_new) {
      std::optional<std::string> fields = constant_fields(shape, number);
      if (!fields) cannot("it counts with numbers of a type that is not known here");
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
    if (!is_sum && !is_difference) cannot("the backward loop takes the iterations in an order of its own");
    const ArrayShape shape = index_shape();
    const std::int64_t counter = element(*backward_state_.numbers[counting().leaf]);
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

  // F's body, the conditions, and what is around the loops.

  WrittenComputation write_forward() {
    const std::size_t parameter = parameter_in(forward_);
    Draft draft(module_, copies_, pair_.forward.body);
    Draft head(module_, copies_, pair_.forward.body);
    std::vector<std::int64_t> added(new_.size());
    const std::int64_t given = forward_.instructions[parameter].id;
    const std::string counter_shape =
        forward_state_.shapes.empty() ? "" : forward_state_.shapes[*forward_state_.numbers[pair_.counter]];
    std::int64_t slot = 0;
    std::int64_t zero = 0;
    if (!new_.empty()) {
      const std::optional<std::string> fields = constant_fields(ArrayShape(counter_shape), 0);
      if (!fields) cannot("it counts with numbers of a type that is not known here");
      zero = head.add("constant", *fields, {});
      const std::int64_t counter =
          head.add("get-tuple-element", element_fields(counter_shape, *forward_state_.numbers[pair_.counter]), {given});
      slot = slots_ == 0 ? head.add("copy", new_fields("copy", counter_shape), {counter})
                         : slot_in_forward(head, counter, counter_shape);
    }
    const auto write = [&](Draft& into, std::size_t k, std::int64_t value) {
      const NewStack& stack = new_[k];
      const std::int64_t whole =
          head.add("get-tuple-element", element_fields(stack.shape.bytes(), stack.forward_leaf), {given});
      const std::int64_t slice = into.add("bitcast", new_fields("bitcast", stack.slice.bytes()), {value});
      std::vector<std::int64_t> operands{whole, slice, slot};
      operands.resize(2 + stack.slice.dimensions.size(), zero);
      added[k] = into.add("dynamic-update-slice", new_fields("dynamic-update-slice", stack.shape.bytes()), operands);
    };
    for (std::size_t k = 0; k < new_.size(); ++k) {
      const Origin& value = new_[k].value;
      if (value.kind != Origin::state) continue;
      const std::size_t leaf = *forward_state_.numbers[value.leaf];
      write(head, k, head.add("get-tuple-element", element_fields(forward_state_.shapes[leaf], leaf), {given}));
    }
    for (const std::size_t i : forward_.order) {
      if (i == parameter || i == forward_.root || is_element(forward_, i, parameter) || is_dropped_writer(i)) continue;
      draft.keep(i);
      for (std::size_t k = 0; k < new_.size(); ++k) {
        const Origin& value = new_[k].value;
        if (value.kind != Origin::output || value.instruction != i) continue;
        const Instruction& made = forward_.instructions[i];
        const std::int64_t id =
            made.shape.tuple ? draft.add("get-tuple-element", element_fields(value_shape(value), value.leaf), {made.id})
                             : made.id;
        write(draft, k, id);
      }
    }
    Draft::Copy root = draft.as_is(forward_.root);
    root.operands = state_operands(forward_.instructions[forward_.root], forward_state_, forward_);
    root.operands.insert(root.operands.end(), added.begin(), added.end());
    root.fields = with_shape(forward_.instructions[forward_.root], forward_state_);
    draft.put(std::move(root));
    const Draft first = state_in(pair_.forward.body, forward_state_);
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
    const auto [steps, segments] = slots();
    const std::int64_t scaled = of_two("multiply", counter, number(segments));
    return of_two("divide", of_two("add", scaled, number(steps - 1)), number(steps));
  }

  [[nodiscard]] bool is_dropped_writer(std::size_t i) const {
    return std::any_of(dropped_.begin(), dropped_.end(), [&](const auto& one) { return one.second->writer == i; });
  }

  WrittenComputation write_condition(const Loop& loop, const State& state) {
    const Computation& condition = module_.computations[loop.condition];
    const std::size_t parameter = parameter_in(condition);
    Draft draft(module_, copies_, loop.condition);
    for (const std::size_t i : condition.order) {
      if (i != parameter && !is_element(condition, i, parameter)) draft.keep(i);
    }
    const Draft first = state_in(loop.condition, state);
    return draft.behind({&first});
  }

  WrittenComputation write_around() {
    const std::size_t c = pair_.computation();
    const Computation& around = module_.computations[c];
    Draft draft(module_, copies_, c);
    const std::vector<std::int64_t> forward_init = forward_operands();
    const std::int64_t forward_id = around.instructions[pair_.forward.instruction].id;
    for (const std::size_t i : around.order) {
      if (is_element(around, i, pair_.forward.instruction)) {
        keep_element(draft, around, i, forward_state_);
      } else if (is_element(around, i, pair_.backward.instruction)) {
        keep_element(draft, around, i, backward_state_);
      } else if (i == pair_.forward.instruction) {
        std::vector<std::int64_t> operands = forward_init;
        for (const NewStack& stack : new_) operands.push_back(initial(draft, stack));
        write_loop(draft, i, std::move(operands), forward_state_);
      } else if (i == pair_.backward.instruction) {
        const Instruction& tuple = around.instructions[around.instructions[i].operands[0]];
        std::vector<std::int64_t> operands = state_operands(tuple, backward_state_, around);
        operands.resize(backward_state_.shapes.size());
        for (const NewStack& stack : new_) {
          operands[stack.backward_leaf] =
              draft.add("get-tuple-element", element_fields(stack.shape.bytes(), stack.forward_leaf), {forward_id});
        }
        const Instruction& given = around.instructions[around.instructions[pair_.forward.instruction].operands[0]];
        for (const auto& [leaf, own] : invariants_) operands[own] = around.instructions[given.operands[leaf]].id;
        write_loop(draft, i, std::move(operands), backward_state_);
      } else {
        draft.keep(i);
      }
    }
    return draft.behind();
  }

  void write_loop(Draft& draft, std::size_t i, std::vector<std::int64_t> operands, const State& state) {
    const Instruction& loop = at(pair_.computation(), i);
    const std::int64_t tuple = draft.add("tuple", new_fields("tuple", tuple_of(state.shapes)), std::move(operands));
    Draft::Copy copy = draft.as_is(i);
    copy.operands = {tuple};
    copy.fields = fields_of(loop, {fields::shape, fields::backend_config});
    wire::put_bytes(*copy.fields, fields::shape, tuple_of(state.shapes));
    const std::string config(field_of(loop.bytes, fields::backend_config));
    if (!config.empty()) wire::put_bytes(*copy.fields, fields::backend_config, renumbered(config, state));
    draft.put(std::move(copy));
  }

  /// The initial state of F. A stack is overwritten before it is read: one that is a copy of a removed stack is made
  /// without a copy, and the others serve new stacks.
  std::vector<std::int64_t> forward_operands() {
    const Computation& around = module_.computations[pair_.computation()];
    const Instruction& tuple = around.instructions[around.instructions[pair_.forward.instruction].operands[0]];
    std::vector<std::size_t> init = tuple.operands;
    for (const auto& [leaf, stack] : dropped_) {
      for (const Stack& other : pair_.stacks) {
        if (dropped_.contains(other.leaf)) continue;
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
      if (forward_state_.numbers[leaf]) operands.push_back(around.instructions[init[leaf]].id);
    }
    return operands;
  }

  [[nodiscard]] std::string forward_shape(std::size_t leaf) const {
    return parts_of(shape_of(at(pair_.computation(), pair_.forward.instruction)))[leaf];
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
    if (!fields) cannot("a value of a type that is not known here would be saved");
    const std::int64_t zero = draft.add("constant", std::move(*fields), {});
    return draft.add("broadcast", new_fields("broadcast", stack.shape.bytes()), {zero});
  }

  const Module& module_;
  Dataflow dataflow_;
  const LoopPair& pair_;
  /// Iterations of which the carried values are saved, and nothing else; 0: what is saved is saved in all iterations.
  std::size_t slots_;
  Copies copies_;
  const Computation& forward_;
  const Computation& backward_;
  std::set<Origin> saved_;
  /// By leaf of F's state.
  std::map<std::size_t, const Stack*> dropped_;
  /// Stacks of XLA's that stay, by what is in them.
  std::map<Origin, const Stack*> holders_;
  std::vector<NewStack> new_;
  State forward_state_;
  State backward_state_;
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
  /// By leaf of F's state: that of B's.
  std::map<std::size_t, std::size_t> invariants_;
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
