// SPDX-License-Identifier: Apache-2.0
#include "frontends/hlo/loops.hpp"

#include <algorithm>
#include <optional>
#include <set>

#include "frontends/hlo/costs.hpp"
#include "frontends/hlo/message_fields.hpp"
#include "model/error.hpp"
#include "model/quote.hpp"

namespace remora::hlo {
namespace {

std::string_view shape_bytes(const Instruction& instruction) {
  return field_of(instruction.bytes, instruction_field::shape);
}

/// The only leaf of an instruction.
ValueId only(const Dataflow& dataflow, std::size_t c, std::size_t i) {
  return part_of(dataflow.leaves(c, i), 0);
}

bool contains(const std::vector<ValueId>& values, ValueId value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

std::size_t parameter_of(const Computation& computation) {
  for (std::size_t i = 0; i < computation.instructions.size(); ++i) {
    if (computation.instructions[i].opcode == "parameter") return i;
  }
  throw InputError("computation " + quote(computation.name), "has no parameter");
}

/// Instructions that read the value; tuples, their elements and bitcasts read nothing.
std::vector<std::size_t> readers_of(const Module& module, const Dataflow& dataflow, std::size_t c, ValueId value) {
  std::vector<std::size_t> readers;
  for (std::size_t i = 0; i < module.computations[c].instructions.size(); ++i) {
    if (!is_alias(module.computations[c].instructions[i]) && contains(dataflow.reads(c, i), value))
      readers.push_back(i);
  }
  return readers;
}

/// The places of a fusion's operands, or of an instruction's, that are this value.
std::vector<std::size_t> places_of(const Module& module, const Dataflow& dataflow, std::size_t c, std::size_t i,
                                   ValueId value) {
  std::vector<std::size_t> places;
  const Instruction& instruction = module.computations[c].instructions[i];
  for (std::size_t k = 0; k < instruction.operands.size(); ++k) {
    if (contains(dataflow.leaves(c, instruction.operands[k]), value)) places.push_back(k);
  }
  return places;
}

/// The slot of a slice [1, ...] of the stack that begins at `first` operands: a known slot, then zeros.
Number slot_of(const Module& module, const Frame& frame, const Instruction& slicing, std::size_t first) {
  for (std::size_t k = first + 1; k < slicing.operands.size(); ++k) {
    const Number zero = number_of(module, frame, slicing.operands[k]);
    if (!zero || *zero != 0) return {};
  }
  return first < slicing.operands.size() ? number_of(module, frame, slicing.operands[first]) : std::nullopt;
}

bool is_slice_of(const Shape& slice, const Shape& stack) {
  return !slice.dimensions.empty() && slice.dimensions.size() == stack.dimensions.size() && slice.dimensions[0] == 1 &&
         std::equal(slice.dimensions.begin() + 1, slice.dimensions.end(), stack.dimensions.begin() + 1) &&
         slice.type == stack.type;
}

/// The computation that is examined: a fusion, or the body itself.
struct Inside {
  std::size_t computation = 0;
  std::size_t instruction = 0;
  /// The fusion, if it is one.
  std::optional<std::size_t> fusion{};
};

class Pairing {
 public:
  Pairing(const Module& module, const Dataflow& dataflow, const Machine& machine)
      : module_(module), dataflow_(dataflow), machine_(machine) {
    for (const Computation& computation : module.computations) {
      for (const Instruction& one : computation.instructions) {
        for (const std::size_t called : one.called) ++callers_[called];
      }
    }
  }

  std::vector<LoopPair> all() {
    std::vector<LoopPair> pairs;
    for (std::size_t c = 0; c < module_.computations.size(); ++c) {
      std::vector<Loop> loops;
      for (const std::size_t i : module_.computations[c].order) {
        std::optional<Loop> loop = counted_loop(module_, c, i);
        if (loop && is_plain(*loop)) loops.push_back(std::move(*loop));
      }
      for (std::size_t a = 0; a < loops.size(); ++a) {
        for (std::size_t b = a + 1; b < loops.size(); ++b) {
          std::optional<LoopPair> pair = paired(loops[a], loops[b]);
          if (pair) pairs.push_back(std::move(*pair));
        }
      }
    }
    std::stable_sort(pairs.begin(), pairs.end(),
                     [](const LoopPair& a, const LoopPair& b) { return a.stacked > b.stacked; });
    // A loop is in one pair, that with the largest stacks.
    std::set<std::pair<std::size_t, std::size_t>> taken;
    std::erase_if(pairs, [&](const LoopPair& pair) {
      const std::pair forward(pair.computation(), pair.forward.instruction);
      const std::pair backward(pair.computation(), pair.backward.instruction);
      if (taken.contains(forward) || taken.contains(backward)) return true;
      taken.insert({forward, backward});
      return false;
    });
    return pairs;
  }

 private:
  [[nodiscard]] const Instruction& at(std::size_t c, std::size_t i) const {
    return module_.computations[c].instructions[i];
  }
  [[nodiscard]] ValueId given(const Loop& loop, std::size_t leaf) const {
    return part_of(dataflow_.leaves(loop.body, parameter_of(module_.computations[loop.body])), leaf);
  }
  [[nodiscard]] ValueId result(const Loop& loop, std::size_t leaf) const {
    return part_of(dataflow_.leaves(loop.computation, loop.instruction), leaf);
  }

  /// Tuples in and out as XLA writes them, with a body and a condition of its own.
  [[nodiscard]] bool is_plain(const Loop& loop) const {
    const Computation& around = module_.computations[loop.computation];
    const Computation& body = module_.computations[loop.body];
    const bool is_known =
        loop.trips() > 1 && around.root != loop.instruction &&
        at(loop.computation, part_of(around.instructions[loop.instruction].operands, 0)).opcode == "tuple" &&
        body.instructions[body.root].opcode == "tuple" && callers_.at(loop.body) == 1 &&
        callers_.at(loop.condition) == 1 && loop.body != loop.condition;
    if (!is_known) return false;
    return std::all_of(around.instructions.begin(), around.instructions.end(), [&](const Instruction& one) {
      return one.opcode == "get-tuple-element" ||
             std::find(one.operands.begin(), one.operands.end(), loop.instruction) == one.operands.end();
    });
  }

  std::optional<LoopPair> paired(const Loop& forward, const Loop& backward) {
    LoopPair pair{.forward = forward, .backward = backward};
    const std::optional<std::size_t> counter = counter_of(forward);
    if (!counter) return {};
    pair.counter = *counter;
    for (std::size_t leaf = 0; leaf < forward.states[0].size(); ++leaf) {
      std::optional<Stack> stack = stack_at(forward, leaf);
      if (stack) pair.stacks.push_back(std::move(*stack));
    }
    std::map<std::vector<std::size_t>, Bytes> partners;
    std::vector<std::vector<std::size_t>> own;
    for (Stack& stack : pair.stacks) {
      own.push_back(find_readers(pair, stack));
      if (stack.can_go) partners[own.back()] += result_size(pair, stack);
    }
    if (partners.empty()) return {};
    pair.partner =
        std::max_element(partners.begin(), partners.end(), [](auto& a, auto& b) { return a.second < b.second; })->first;
    for (std::size_t k = 0; k < pair.stacks.size(); ++k) {
      Stack& stack = pair.stacks[k];
      stack.can_go = stack.can_go && (stack.readers.empty() || own[k] == pair.partner);
      if (stack.can_go) pair.stacked += result_size(pair, stack);
    }
    if (pair.stacked == Bytes(0) || pair.partner.size() != backward.trips()) return {};
    state_graph(pair);
    return pair;
  }

  [[nodiscard]] Bytes result_size(const LoopPair& pair, const Stack& stack) const {
    return dataflow_[result(pair.forward, stack.leaf)].size;
  }

  static std::optional<std::size_t> counter_of(const Loop& loop) {
    for (std::size_t leaf = 0; leaf < loop.states[0].size(); ++leaf) {
      const std::vector<std::int64_t> numbers = loop.leaf(leaf);
      bool is_counter = numbers.size() == loop.trips();
      for (std::size_t t = 0; t < numbers.size() && is_counter; ++t) {
        is_counter = numbers[t] == static_cast<std::int64_t>(t);
      }
      if (is_counter) return leaf;
    }
    return {};
  }

  /// A leaf that one instruction of the body updates in place, a slot in each iteration, and gives back.
  [[nodiscard]] std::optional<Stack> stack_at(const Loop& loop, std::size_t leaf) const {
    const ValueId before = given(loop, leaf);
    const std::vector<std::size_t> readers = readers_of(module_, dataflow_, loop.body, before);
    const Computation& body = module_.computations[loop.body];
    const std::vector<ValueId>& made = dataflow_.leaves(loop.body, body.root);
    if (readers.size() != 1 || contains(made, before) || is_asked(loop, leaf)) return {};
    Stack stack{.leaf = leaf, .writer = readers[0]};
    const Instruction& writer = body.instructions[stack.writer];
    if (writer.shape.tuple) return {};
    const ValueId after = only(dataflow_, loop.body, stack.writer);
    if (made[leaf] != after || std::count(made.begin(), made.end(), after) != 1 ||
        !readers_of(module_, dataflow_, loop.body, after).empty()) {
      return {};
    }
    const std::vector<std::size_t> places = places_of(module_, dataflow_, loop.body, stack.writer, before);
    const std::optional<Inside> inside = update_in(loop, stack.writer, places);
    if (!inside) return {};
    const Instruction& updating = at(inside->computation, inside->instruction);
    if (updating.operands.size() < 3) return {};
    stack.update = updating.operands[1];
    if (!is_slice_of(at(inside->computation, stack.update).shape, writer.shape)) return {};
    stack.slots = slots(loop, *inside, 2);
    if (std::set<std::int64_t>(stack.slots.begin(), stack.slots.end()).size() != loop.trips()) return {};
    for (const std::int64_t slot : stack.slots) {
      if (slot < 0 || slot >= writer.shape.dimensions[0]) return {};
    }
    stack.value = written_value(loop, stack, *inside);
    return stack;
  }

  /// The update of the first operand in place, of the fusion or by itself.
  [[nodiscard]] std::optional<Inside> update_in(const Loop& loop, std::size_t writer,
                                                const std::vector<std::size_t>& places) const {
    const Instruction& instruction = at(loop.body, writer);
    if (places.size() != 1) return {};
    if (instruction.opcode == "dynamic-update-slice") {
      return places[0] == 0 ? std::optional(Inside{loop.body, writer, {}}) : std::nullopt;
    }
    if (instruction.opcode != "fusion") return {};
    const std::size_t fused = instruction.called[0];
    const Computation& computation = module_.computations[fused];
    const Instruction& root = computation.instructions[computation.root];
    if (root.opcode != "dynamic-update-slice") return {};
    const Instruction& updated = computation.instructions[part_of(root.operands, 0)];
    const bool is_it =
        updated.opcode == "parameter" && updated.parameter_number == static_cast<std::int64_t>(places[0]);
    if (!is_it || used(computation, root.operands[0]) != 1) return {};
    return Inside{fused, computation.root, writer};
  }

  static std::size_t used(const Computation& computation, std::size_t i) {
    std::size_t uses = computation.root == i ? 1 : 0;
    for (const Instruction& one : computation.instructions) {
      uses += static_cast<std::size_t>(std::count(one.operands.begin(), one.operands.end(), i));
    }
    return uses;
  }

  /// Where a slicing begins in each iteration; empty where that is not known.
  [[nodiscard]] std::vector<std::int64_t> slots(const Loop& loop, const Inside& inside, std::size_t first) const {
    std::vector<std::int64_t> slots;
    for (const std::vector<Number>& state : loop.states) {
      const Frame run{.computation = loop.body, .state = &state};
      const Frame fused{.computation = inside.computation, .caller = &run, .call = inside.fusion ? *inside.fusion : 0};
      const Number slot =
          slot_of(module_, inside.fusion ? fused : run, at(inside.computation, inside.instruction), first);
      if (!slot) return {};
      slots.push_back(*slot);
    }
    return slots;
  }

  /// The value that is written: one of the body, behind bitcasts, or one that the fusion computes.
  [[nodiscard]] Origin written_value(const Loop& loop, const Stack& stack, const Inside& inside) const {
    if (!inside.fusion) return origin_of(module_, dataflow_, loop.body, stack.update);
    std::size_t i = stack.update;
    while (at(inside.computation, i).opcode == "bitcast") i = part_of(at(inside.computation, i).operands, 0);
    if (at(inside.computation, i).opcode != "parameter") return {Origin::update, stack.writer, 0};
    const auto number = static_cast<std::size_t>(at(inside.computation, i).parameter_number);
    return origin_of(module_, dataflow_, loop.body, part_of(at(loop.body, stack.writer).operands, number));
  }

  [[nodiscard]] bool is_asked(const Loop& loop, std::size_t leaf) const {
    const std::size_t parameter = parameter_of(module_.computations[loop.condition]);
    return !readers_of(module_, dataflow_, loop.condition, part_of(dataflow_.leaves(loop.condition, parameter), leaf))
                .empty();
  }

  /// Sets what reads the stack in B, and whether nothing else does. Gives the iterations of F that go with those of B.
  std::vector<std::size_t> find_readers(const LoopPair& pair, Stack& stack) const {
    const std::size_t c = pair.computation();
    const ValueId value = result(pair.forward, stack.leaf);
    const std::vector<ValueId> init = dataflow_.reads(c, pair.backward.instruction);
    for (std::size_t leaf = 0; leaf < init.size(); ++leaf) {
      if (init[leaf] == value && is_invariant(module_, dataflow_, pair.backward, leaf)) stack.backward.push_back(leaf);
    }
    for (const std::size_t reader : readers_of(module_, dataflow_, c, value)) {
      if (reader != pair.backward.instruction) return {};
    }
    if (contains(dataflow_.leaves(c, module_.computations[c].root), value)) return {};
    std::optional<std::vector<std::int64_t>> read;
    for (const std::size_t leaf : stack.backward) {
      if (is_asked(pair.backward, leaf)) return {};
      const ValueId inner = given(pair.backward, leaf);
      for (const std::size_t reader : readers_of(module_, dataflow_, pair.backward.body, inner)) {
        stack.readers.push_back(reader);
        for (const std::size_t place : places_of(module_, dataflow_, pair.backward.body, reader, inner)) {
          if (!add_slots(pair, stack, reader, place, read)) return {};
        }
      }
    }
    if (static_cast<std::size_t>(std::count(init.begin(), init.end(), value)) != stack.backward.size()) return {};
    std::map<std::int64_t, std::size_t> writers;
    for (std::size_t t = 0; t < stack.slots.size(); ++t) writers[stack.slots[t]] = t;
    std::vector<std::size_t> partner;
    for (const std::int64_t slot : read.value_or(std::vector<std::int64_t>{})) {
      if (!writers.contains(slot)) return {};
      partner.push_back(writers[slot]);
    }
    stack.can_go = true;
    return partner;
  }

  /// True if the reader takes only slices of the operand, all at the same slots as `read`, and only written ones.
  bool add_slots(const LoopPair& pair, const Stack& stack, std::size_t reader, std::size_t place,
                 std::optional<std::vector<std::int64_t>>& read) const {
    const Instruction& instruction = at(pair.backward.body, reader);
    std::vector<Inside> slices;
    if (instruction.opcode == "dynamic-slice" && place == 0) {
      slices.push_back({pair.backward.body, reader, {}});
    } else if (instruction.opcode == "fusion") {
      const std::size_t fused = instruction.called[0];
      const Computation& computation = module_.computations[fused];
      for (std::size_t i = 0; i < computation.instructions.size(); ++i) {
        const Instruction& user = computation.instructions[i];
        for (std::size_t k = 0; k < user.operands.size(); ++k) {
          const Instruction& operand = computation.instructions[user.operands[k]];
          if (operand.opcode != "parameter" || operand.parameter_number != static_cast<std::int64_t>(place)) continue;
          if (user.opcode != "dynamic-slice" || k != 0) return false;
          slices.push_back({fused, i, reader});
        }
      }
    }
    if (slices.empty()) return false;
    const std::size_t written_in = at(pair.forward.body, stack.writer).opcode == "fusion"
                                       ? at(pair.forward.body, stack.writer).called[0]
                                       : pair.forward.body;
    for (const Inside& slice : slices) {
      if (shape_bytes(at(slice.computation, slice.instruction)) != shape_bytes(at(written_in, stack.update)))
        return false;
      const std::vector<std::int64_t> own = slots(pair.backward, slice, 1);
      if (own.empty() || (read && *read != own)) return false;
      read = own;
    }
    return true;
  }

  // The graph of one iteration.

  /// True if an op of F's body may run once more, in B.
  [[nodiscard]] bool can_repeat(const Instruction& instruction) const {
    return !has_effect(module_, instruction) && instruction.control_predecessors.empty();
  }

  void state_graph(LoopPair& pair) {
    const std::size_t body = pair.forward.body;
    std::set<Origin> wanted;
    std::set<Origin> pinned;
    for (const Stack& stack : pair.stacks) {
      if (stack.can_go && !stack.readers.empty()) wanted.insert(stack.value);
      if (!stack.can_go && !stack.backward.empty()) pinned.insert(stack.value);
    }
    const auto trips = static_cast<std::int64_t>(pair.forward.trips());
    std::map<Origin, TensorId> tensors;
    Graph& graph = pair.graph;
    const auto add = [&](const Origin& origin, const std::string& name, Bytes size) {
      const Bytes all = pinned.contains(origin) ? Bytes(0) : Bytes(saturating_product(trips, size.count()));
      tensors[origin] = graph.add_tensor(name, all);
      pair.values.push_back(origin);
      return tensors[origin];
    };
    for (std::size_t leaf = 0; leaf < pair.forward.states[0].size(); ++leaf) {
      if (!is_carried(pair, leaf)) continue;
      const std::string name = "carried{" + std::to_string(leaf) + "}";
      const TensorId tensor = add({Origin::state, 0, leaf}, name, dataflow_[given(pair.forward, leaf)].size);
      graph.add_op({.name = name, .type = "carried", .outputs = {tensor}, .recompute = false});
    }
    std::map<std::size_t, const Stack*> updates;
    for (const Stack& stack : pair.stacks) {
      if (stack.can_go && stack.value.kind == Origin::update) updates[stack.writer] = &stack;
    }
    const std::set<std::size_t> needed = needed_ops(pair, wanted);
    for (const std::size_t i : module_.computations[body].order) {
      if (!needed.contains(i)) continue;
      const Instruction& instruction = at(body, i);
      Op op{.name = instruction.name, .type = instruction.opcode, .recompute = can_repeat(instruction)};
      op.duration = Duration(saturating_product(trips, duration_of(module_, body, i, machine_).count()));
      for (const Origin& input : inputs_of(pair, i, updates.contains(i))) {
        if (tensors.contains(input)) op.inputs.push_back(tensors[input]);
      }
      if (updates.contains(i)) {
        op.outputs.push_back(add({Origin::update, i, 0}, op.name, slice_size(pair, *updates[i])));
      } else {
        for (std::size_t leaf = 0; leaf < dataflow_.leaves(body, i).size(); ++leaf) {
          op.outputs.push_back(add({Origin::output, i, leaf}, op.name + "{" + std::to_string(leaf) + "}",
                                   dataflow_[dataflow_.leaves(body, i)[leaf]].size));
        }
      }
      graph.add_op(std::move(op));
    }
    Bytes room;
    for (const Tensor& tensor : graph.tensors) room = Bytes(saturating_sum(room.count(), tensor.size.count()));
    const TensorId edge = graph.add_tensor("boundary", Bytes(0));
    graph.add_op({.name = "boundary",
                  .type = "boundary",
                  .duration = Duration(1),
                  .workspace = room,
                  .outputs = {edge},
                  .recompute = false});
    Op last{.name = "backward", .type = "backward", .duration = Duration(1), .inputs = {edge}, .recompute = false};
    for (const Origin& origin : wanted) {
      if (tensors.contains(origin)) last.inputs.push_back(tensors[origin]);
    }
    last.outputs.push_back(graph.add_tensor("gradients", Bytes(0)));
    graph.add_op(std::move(last));
    graph.name = at(pair.computation(), pair.forward.instruction).name;
    validate(graph);
  }

  [[nodiscard]] Bytes slice_size(const LoopPair& pair, const Stack& stack) const {
    const Bytes all = result_size(pair, stack);
    return Bytes(all.count() / at(pair.forward.body, stack.writer).shape.dimensions[0]);
  }

  /// A leaf that is neither a stack, nor the same in all iterations, nor a number that B knows.
  [[nodiscard]] bool is_carried(const LoopPair& pair, std::size_t leaf) const {
    if (is_at_hand(module_, dataflow_, pair, leaf) || leaf == pair.counter) return false;
    return std::none_of(pair.stacks.begin(), pair.stacks.end(), [&](const Stack& one) { return one.leaf == leaf; });
  }

  /// The inputs of the op; for an update, the values that it writes into the slice.
  [[nodiscard]] std::set<Origin> inputs_of(const LoopPair& pair, std::size_t i, bool is_update) const {
    const Instruction& instruction = at(pair.forward.body, i);
    std::set<Origin> inputs;
    for (std::size_t k = 0; k < instruction.operands.size(); ++k) {
      if (is_update && k == updated_place(i, pair)) continue;
      add_origins(pair.forward.body, instruction.operands[k], inputs);
    }
    return inputs;
  }

  [[nodiscard]] std::size_t updated_place(std::size_t i, const LoopPair& pair) const {
    const auto stack =
        std::find_if(pair.stacks.begin(), pair.stacks.end(), [&](const Stack& s) { return s.writer == i; });
    return places_of(module_, dataflow_, pair.forward.body, i, given(pair.forward, stack->leaf))[0];
  }

  void add_origins(std::size_t body, std::size_t i, std::set<Origin>& origins) const {
    if (at(body, i).opcode == "tuple") {
      for (const std::size_t operand : at(body, i).operands) add_origins(body, operand, origins);
    } else {
      const Origin origin = origin_of(module_, dataflow_, body, i);
      const std::size_t leaves = origin.kind == Origin::output ? at(body, i).shape.leaves() : 1;
      for (std::size_t k = 0; k < leaves; ++k) origins.insert({origin.kind, origin.instruction, origin.leaf + k});
    }
  }

  /// The ops that the stacked values are made of.
  [[nodiscard]] std::set<std::size_t> needed_ops(const LoopPair& pair, const std::set<Origin>& wanted) const {
    std::set<std::size_t> needed;
    std::vector<Origin> open(wanted.begin(), wanted.end());
    while (!open.empty()) {
      const Origin origin = open.back();
      open.pop_back();
      if (origin.kind == Origin::state || at(pair.forward.body, origin.instruction).opcode == "constant") continue;
      if (!needed.insert(origin.instruction).second) continue;
      const std::set<Origin> inputs = inputs_of(pair, origin.instruction, origin.kind == Origin::update);
      open.insert(open.end(), inputs.begin(), inputs.end());
    }
    return needed;
  }

  const Module& module_;
  const Dataflow& dataflow_;
  const Machine& machine_;
  std::map<std::size_t, int> callers_;
};

}  // namespace

Origin origin_of(const Module& module, const Dataflow& dataflow, std::size_t body, std::size_t i) {
  const Computation& computation = module.computations[body];
  std::size_t leaf = 0;
  while (true) {
    const Instruction& instruction = computation.instructions[i];
    if (instruction.opcode == "parameter") return {Origin::state, 0, leaf};
    if (instruction.opcode == "get-tuple-element") {
      leaf = static_cast<std::size_t>(instruction.tuple_index);
    } else if (instruction.opcode != "bitcast" && !is_plain_copy(module, dataflow, body, i)) {
      return {Origin::output, i, leaf};
    }
    i = part_of(instruction.operands, 0);
  }
}

bool is_plain_copy(const Module& module, const Dataflow& dataflow, std::size_t c, std::size_t i) {
  const Computation& computation = module.computations[c];
  const Instruction& copy = computation.instructions[i];
  if (copy.opcode != "copy" || copy.shape.tuple) return false;
  if (shape_bytes(copy) != shape_bytes(computation.instructions[part_of(copy.operands, 0)])) return false;
  const ValueId value = only(dataflow, c, i);
  for (const std::size_t reader : readers_of(module, dataflow, c, value)) {
    if (contains(dataflow.destroys(c, reader), value)) return false;
  }
  return true;
}

bool is_invariant(const Module& module, const Dataflow& dataflow, const Loop& loop, std::size_t leaf) {
  const Computation& body = module.computations[loop.body];
  return part_of(dataflow.leaves(loop.body, body.root), leaf) ==
         part_of(dataflow.leaves(loop.body, parameter_of(body)), leaf);
}

bool is_at_hand(const Module& module, const Dataflow& dataflow, const LoopPair& pair, std::size_t leaf) {
  if (!is_invariant(module, dataflow, pair.forward, leaf)) return false;
  const std::size_t c = pair.computation();
  const ValueId value = part_of(dataflow.reads(c, pair.forward.instruction), leaf);
  const std::vector<std::size_t>& order = module.computations[c].order;
  const auto first = std::find(order.begin(), order.end(), pair.forward.instruction);
  const auto last = std::find(order.begin(), order.end(), pair.backward.instruction);
  return std::none_of(first, last + 1, [&](std::size_t i) { return contains(dataflow.destroys(c, i), value); });
}

std::vector<LoopPair> loop_pairs(const LoweredModule& lowered) {
  const Dataflow dataflow(lowered.module);
  return Pairing(lowered.module, dataflow, lowered.machine).all();
}

}  // namespace remora::hlo
