// SPDX-License-Identifier: Apache-2.0
#include "frontends/hlo/dataflow.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "model/error.hpp"
#include "model/quote.hpp"

namespace remora::hlo {
namespace {

template <std::size_t n>
bool is_one_of(std::string_view opcode, const std::array<std::string_view, n>& opcodes) {
  return std::find(opcodes.begin(), opcodes.end(), opcode) != opcodes.end();
}

/// A copy shares no memory.
constexpr std::array<std::string_view, 58> kElementwise{"abs",
                                                        "add",
                                                        "and",
                                                        "atan2",
                                                        "cbrt",
                                                        "ceil",
                                                        "clamp",
                                                        "compare",
                                                        "complex",
                                                        "convert",
                                                        "cosine",
                                                        "count-leading-zeros",
                                                        "divide",
                                                        "erf",
                                                        "exponential",
                                                        "exponential-minus-one",
                                                        "floor",
                                                        "imag",
                                                        "is-finite",
                                                        "log",
                                                        "log-plus-one",
                                                        "logistic",
                                                        "maximum",
                                                        "minimum",
                                                        "multiply",
                                                        "negate",
                                                        "not",
                                                        "or",
                                                        "popcnt",
                                                        "power",
                                                        "real",
                                                        "reduce-precision",
                                                        "remainder",
                                                        "round-nearest-afz",
                                                        "round-nearest-even",
                                                        "rsqrt",
                                                        "select",
                                                        "shift-left",
                                                        "shift-right-arithmetic",
                                                        "shift-right-logical",
                                                        "sign",
                                                        "sine",
                                                        "sqrt",
                                                        "subtract",
                                                        "tan",
                                                        "tanh",
                                                        "xor",
                                                        "acos",
                                                        "acosh",
                                                        "asin",
                                                        "asinh",
                                                        "atanh",
                                                        "cosh",
                                                        "sinh",
                                                        "map",
                                                        "stochastic-convert",
                                                        "bitcast-convert",
                                                        "copy"};

bool is_async(const std::string& opcode) {
  return opcode.ends_with("-start") || opcode.ends_with("-done") || opcode.ends_with("-update") || opcode == "send" ||
         opcode == "recv";
}

/// Operands and outputs that an update in place has in common: the first one, or the first n of a scatter of n arrays.
std::size_t updated(const Instruction& instruction) {
  if (instruction.opcode == "dynamic-update-slice") return 1;
  if (instruction.opcode == "scatter") return instruction.shape.leaves();
  return 0;
}

const Shape& leaf_shape(const Shape& shape, std::size_t leaf) {
  if (!shape.tuple) return shape;
  for (const Shape& part : shape.parts) {
    const std::size_t count = part.leaves();
    if (leaf < count) return leaf_shape(part, leaf);
    leaf -= count;
  }
  ensure(false, "leaf_shape: there are fewer leaves");
  return shape;
}

void add_sizes(const Shape& shape, std::vector<Bytes>& sizes) {
  if (!shape.tuple) sizes.push_back(shape.size);
  for (const Shape& part : shape.parts) add_sizes(part, sizes);
}

/// The first leaf below `index`, and how many there are.
std::pair<std::size_t, std::size_t> leaf_range(const Shape& shape, const std::vector<std::int64_t>& index) {
  const Shape* at = &shape;
  std::size_t first = 0;
  for (const std::int64_t i : index) {
    if (!at->tuple || i < 0 || static_cast<std::size_t>(i) >= at->parts.size()) {
      throw InputError("", "is not understood as an HLO module: an index into a tuple that has no such part");
    }
    for (std::int64_t k = 0; k < i; ++k) first += at->parts[static_cast<std::size_t>(k)].leaves();
    at = &at->parts[static_cast<std::size_t>(i)];
  }
  return {first, at->leaves()};
}

[[noreturn]] void unlike(const Instruction& instruction) {
  throw InputError("", "is not understood as an HLO module: " + quote(instruction.name) + " (" + instruction.opcode +
                           ") does not fit what it is given or calls");
}

/// The leaves of a loop's state that keep their value: the body returns as each what it got as one that begins with the same value and
/// keeps it, too. O(leaves).
std::vector<bool> unchanged(const std::vector<ValueId>& given, const std::vector<ValueId>& made,
                            const std::vector<ValueId>& init) {
  std::unordered_map<ValueId, std::size_t> places;
  for (std::size_t leaf = 0; leaf < given.size(); ++leaf) places.emplace(given[leaf], leaf);
  std::vector<bool> stays(init.size());
  std::vector<std::vector<std::size_t>> users(init.size());
  std::vector<std::size_t> changed;
  for (std::size_t leaf = 0; leaf < init.size(); ++leaf) {
    const auto from = places.find(made[leaf]);
    stays[leaf] = from != places.end() && from->second < init.size() && init[from->second] == init[leaf];
    (stays[leaf] ? users[from->second] : changed).push_back(leaf);
  }
  while (!changed.empty()) {
    const std::vector<std::size_t> after = std::move(users[changed.back()]);
    changed.pop_back();
    for (const std::size_t leaf : after) stays[leaf] = false;
    changed.insert(changed.end(), after.begin(), after.end());
  }
  return stays;
}

}  // namespace

bool is_elementwise(std::string_view opcode) {
  return is_one_of(opcode, kElementwise);
}

bool is_alias(const Instruction& instruction) {
  static constexpr std::array<std::string_view, 6> kAliases{
      "tuple", "get-tuple-element", "bitcast", "optimization-barrier", "domain", "add-dependency"};
  return is_one_of(instruction.opcode, kAliases);
}

Dataflow::Dataflow(const Module& module) : module_(module) {
  for (std::size_t c = 0; c < module.computations.size(); ++c) {
    leaves_.emplace_back(module.computations[c].instructions.size());
    for (std::size_t i = 0; i < module.computations[c].instructions.size(); ++i) add(c, i);
  }
  join_donations();
  number_storages();
}

void Dataflow::add(std::size_t c, std::size_t i) {
  const Instruction& instruction = module_.computations[c].instructions[i];
  std::vector<ValueId>& leaves = leaves_[c][i];
  const auto operand = [&](std::size_t k) -> const std::vector<ValueId>& {
    if (k >= instruction.operands.size()) unlike(instruction);
    return leaves_[c][instruction.operands[k]];
  };
  if (is_async(instruction.opcode)) {
    throw InputError("instruction " + quote(instruction.name),
                     instruction.opcode + " is asynchronous: such modules are not read");
  }
  if (instruction.opcode == "parameter") return add_fresh(c, i, ValueKind::parameter);
  if (instruction.opcode == "constant") return add_fresh(c, i, ValueKind::constant);
  if (instruction.opcode == "tuple") {
    for (std::size_t k = 0; k < instruction.operands.size(); ++k) {
      leaves.insert(leaves.end(), operand(k).begin(), operand(k).end());
    }
  } else if (instruction.opcode == "get-tuple-element") {
    const Shape& shape = module_.computations[c].instructions[part_of(instruction.operands, 0)].shape;
    const auto [first, count] = leaf_range(shape, {instruction.tuple_index});
    const auto begin = operand(0).begin() + static_cast<std::ptrdiff_t>(first);
    leaves.assign(begin, begin + static_cast<std::ptrdiff_t>(count));
  } else if (is_alias(instruction)) {
    leaves = operand(0);
  } else if (instruction.opcode == "while") {
    add_while(c, i);
  } else if (instruction.opcode == "conditional" || instruction.opcode == "call") {
    add_branches(c, i);
  } else {
    add_fresh(c, i, ValueKind::computed);
    if (!module_.computations[c].is_fusion) {
      for (const Pair& pair : in_place(c, i)) join(leaves[pair.output], pair.input);
    }
  }
  if (leaves.size() != instruction.shape.leaves()) unlike(instruction);
}

ValueId Dataflow::fresh(std::size_t c, std::size_t i, Bytes size, ValueKind kind) {
  const ValueId value(values_.size());
  values_.push_back({size, c, i, kind});
  parents_.push_back(value);
  return value;
}

void Dataflow::add_fresh(std::size_t c, std::size_t i, ValueKind kind) {
  std::vector<Bytes> sizes;
  add_sizes(module_.computations[c].instructions[i].shape, sizes);
  for (const Bytes size : sizes) leaves_[c][i].push_back(fresh(c, i, size, kind));
}

/// The body is called first, the condition second. What the body gives back as it got it stays what it was, also if it got it as another
/// element that has the same value.
void Dataflow::add_while(std::size_t c, std::size_t i) {
  const Instruction& loop = module_.computations[c].instructions[i];
  if (loop.operands.size() != 1 || loop.called.size() != 2) unlike(loop);
  const std::vector<ValueId> init = leaves_[c][loop.operands[0]];
  const std::size_t body = loop.called[0];
  const std::vector<ValueId> given = parameter_leaves(body, 0);
  const std::vector<ValueId> made = leaves_[body][module_.computations[body].root];
  std::vector<Bytes> sizes;
  add_sizes(loop.shape, sizes);
  if (made.size() != init.size() || sizes.size() != init.size()) unlike(loop);
  for (const std::size_t called : loop.called) join_parameters(called, init);
  const std::vector<bool> stays = unchanged(given, made, init);
  for (std::size_t leaf = 0; leaf < init.size(); ++leaf) {
    if (stays[leaf]) {
      leaves_[c][i].push_back(init[leaf]);
      continue;
    }
    leaves_[c][i].push_back(fresh(c, i, sizes[leaf], ValueKind::computed));
    join(leaves_[c][i].back(), init[leaf]);
    join(leaves_[c][i].back(), made[leaf]);
  }
}

/// Operand k + 1 of a conditional is what branch k gets; a call gives all operands to what it calls. What every branch returns as it got
/// it stays what it was, if that is the same for all.
void Dataflow::add_branches(std::size_t c, std::size_t i) {
  const Instruction& instruction = module_.computations[c].instructions[i];
  const bool is_call = instruction.opcode == "call";
  if (instruction.called.empty() || (is_call && instruction.called.size() != 1)) unlike(instruction);
  if (!is_call && instruction.operands.size() != instruction.called.size() + 1) unlike(instruction);
  std::vector<Bytes> sizes;
  add_sizes(instruction.shape, sizes);
  std::vector<ValueId> given;
  if (is_call) {
    for (const std::size_t operand : instruction.operands) {
      given.insert(given.end(), leaves_[c][operand].begin(), leaves_[c][operand].end());
    }
  }
  std::vector<std::optional<ValueId>> passed(sizes.size());
  for (std::size_t branch = 0; branch < instruction.called.size(); ++branch) {
    const std::size_t called = instruction.called[branch];
    if (!is_call) given = leaves_[c][instruction.operands[branch + 1]];
    const std::vector<ValueId>& made = leaves_[called][module_.computations[called].root];
    if (made.size() != sizes.size()) unlike(instruction);
    join_parameters(called, given);
    for (std::size_t leaf = 0; leaf < made.size(); ++leaf) {
      const std::optional<ValueId> value = passed_on(called, made[leaf], given);
      passed[leaf] = branch == 0 || passed[leaf] == value ? value : std::nullopt;
    }
  }
  for (std::size_t leaf = 0; leaf < sizes.size(); ++leaf) {
    leaves_[c][i].push_back(passed[leaf] ? *passed[leaf] : fresh(c, i, sizes[leaf], ValueKind::computed));
    for (const std::size_t called : instruction.called) {
      join(leaves_[c][i][leaf], leaves_[called][module_.computations[called].root][leaf]);
    }
  }
}

/// The one of `values` (those of all parameters) that a computation returns unchanged, if any.
std::optional<ValueId> Dataflow::passed_on(std::size_t called, ValueId made, std::span<const ValueId> values) const {
  if (values_[made.index()].kind != ValueKind::parameter || values_[made.index()].computation != called) return {};
  for (std::int64_t number = 0; !values.empty(); ++number) {
    const std::vector<ValueId>& leaves = parameter_leaves(called, number);
    const auto place = std::find(leaves.begin(), leaves.end(), made);
    if (place != leaves.end()) return values[static_cast<std::size_t>(place - leaves.begin())];
    values = values.subspan(leaves.size());
  }
  return {};
}

const std::vector<ValueId>& Dataflow::parameter_leaves(std::size_t computation, std::int64_t number) const {
  const Computation& called = module_.computations[computation];
  for (std::size_t i = 0; i < called.instructions.size(); ++i) {
    const Instruction& instruction = called.instructions[i];
    if (instruction.opcode == "parameter" && instruction.parameter_number == number) return leaves_[computation][i];
  }
  throw InputError("computation " + quote(called.name), "has no parameter " + std::to_string(number));
}

/// `values`: those of all its parameters, one after the other.
void Dataflow::join_parameters(std::size_t called, std::span<const ValueId> values) {
  for (std::int64_t number = 0; !values.empty(); ++number) {
    const std::vector<ValueId>& leaves = parameter_leaves(called, number);
    if (leaves.size() > values.size()) unlike(module_.computations[called].instructions.front());
    for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf) join(leaves[leaf], values[leaf]);
    values = values.subspan(leaves.size());
  }
}

void Dataflow::join_donations() {
  const Computation& entry = module_.computations[module_.entry];
  for (const Donation& donation : module_.donations) {
    const ValueId output = leaf_at(module_.entry, entry.root, donation.output);
    for (std::size_t i = 0; i < entry.instructions.size(); ++i) {
      const Instruction& instruction = entry.instructions[i];
      if (instruction.opcode != "parameter" || instruction.parameter_number != donation.parameter) continue;
      join(output, leaf_at(module_.entry, i, donation.parameter_index));
    }
  }
}

ValueId Dataflow::leaf_at(std::size_t c, std::size_t i, const std::vector<std::int64_t>& index) const {
  const auto [first, count] = leaf_range(module_.computations[c].instructions[i].shape, index);
  if (count != 1) throw InputError("", "is not understood as an HLO module: an alias of something that is no array");
  return leaves_[c][i][first];
}

ValueId Dataflow::root_of(ValueId value) const {
  while (parents_[value.index()] != value) {
    parents_[value.index()] = parents_[parents_[value.index()].index()];
    value = parents_[value.index()];
  }
  return value;
}

/// Arguments that nobody donated and constants are never written: XLA copies them first, or they are told apart by a later pass.
void Dataflow::join(ValueId a, ValueId b) {
  parents_[root_of(a).index()] = root_of(b);
}

void Dataflow::number_storages() {
  storage_.resize(values_.size());
  std::vector<StorageId> numbers(values_.size());
  for (std::size_t v = 0; v < values_.size(); ++v) {
    const ValueId root = root_of(ValueId(v));
    if (!numbers[root.index()].valid()) {
      numbers[root.index()] = StorageId(members_.size());
      members_.emplace_back();
      fixed_.push_back(false);
    }
    storage_[v] = numbers[root.index()];
    members_[storage_[v].index()].push_back(ValueId(v));
    const Value& value = values_[v];
    if (value.kind == ValueKind::constant ||
        (value.kind == ValueKind::parameter && value.computation == module_.entry)) {
      fixed_[storage_[v].index()] = true;
    }
  }
}

StorageId Dataflow::storage(ValueId value) const {
  return storage_[value.index()];
}

std::vector<ValueId> Dataflow::reads(std::size_t c, std::size_t i) const {
  std::vector<ValueId> values;
  for (const std::size_t operand : module_.computations[c].instructions[i].operands) {
    values.insert(values.end(), leaves_[c][operand].begin(), leaves_[c][operand].end());
  }
  return values;
}

std::vector<Pair> Dataflow::in_place(std::size_t c, std::size_t i) const {
  const Instruction& instruction = module_.computations[c].instructions[i];
  std::vector<Pair> pairs;
  for (const Instruction::Alias& alias : instruction.aliases) {
    if (alias.operand < 0 || static_cast<std::size_t>(alias.operand) >= instruction.operands.size())
      unlike(instruction);
    const auto [first, count] = leaf_range(instruction.shape, alias.output);
    const std::size_t operand = instruction.operands[static_cast<std::size_t>(alias.operand)];
    if (count != 1) unlike(instruction);
    pairs.push_back({first, leaf_at(c, operand, alias.operand_index)});
  }
  if (instruction.opcode == "fusion" && instruction.aliases.empty()) return fusion_pairs(c, i);
  if (instruction.opcode == "while") {
    const std::vector<ValueId>& init = leaves_[c][instruction.operands[0]];
    for (std::size_t leaf = 0; leaf < init.size(); ++leaf) {
      if (leaves_[c][i][leaf] != init[leaf]) pairs.push_back({leaf, init[leaf]});
    }
  }
  if (instruction.opcode == "call" || instruction.opcode == "conditional") {
    const std::vector<ValueId> given = reads(c, i);
    for (std::size_t leaf = 0; leaf < leaves_[c][i].size(); ++leaf) {
      if (values_[leaves_[c][i][leaf].index()].instruction != i) continue;
      const auto same = std::find_if(given.begin(), given.end(),
                                     [&](ValueId value) { return root_of(value) == root_of(leaves_[c][i][leaf]); });
      if (same != given.end()) pairs.push_back({leaf, *same});
    }
  }
  for (std::size_t k = 0; k < updated(instruction); ++k) {
    if (k >= instruction.operands.size() || leaves_[c][instruction.operands[k]].size() != 1) unlike(instruction);
    pairs.push_back({k, leaves_[c][instruction.operands[k]][0]});
  }
  return pairs;
}

/// An output of a fusion that is an update in place of one of its parameters lies where that operand lies.
std::vector<Pair> Dataflow::fusion_pairs(std::size_t c, std::size_t i) const {
  const Instruction& fusion = module_.computations[c].instructions[i];
  if (fusion.called.size() != 1) unlike(fusion);
  const std::size_t fused = fusion.called[0];
  const std::vector<ValueId>& made = leaves_[fused][module_.computations[fused].root];
  if (made.size() != fusion.shape.leaves()) unlike(fusion);
  std::vector<Pair> pairs;
  for (std::size_t leaf = 0; leaf < made.size(); ++leaf) {
    const Value& value = values_[made[leaf].index()];
    if (value.kind != ValueKind::computed) continue;
    for (const Pair& inner : in_place(fused, value.instruction)) {
      const Value& source = values_[inner.input.index()];
      if (leaves_[fused][value.instruction][inner.output] != made[leaf] || source.kind != ValueKind::parameter)
        continue;
      const Instruction& parameter = module_.computations[fused].instructions[source.instruction];
      const auto number = static_cast<std::size_t>(parameter.parameter_number);
      if (number >= fusion.operands.size()) unlike(fusion);
      const std::vector<ValueId>& operand = leaves_[c][fusion.operands[number]];
      const std::vector<ValueId>& inside = leaves_[fused][source.instruction];
      if (operand.size() != inside.size()) unlike(fusion);
      const auto place = std::find(inside.begin(), inside.end(), inner.input) - inside.begin();
      pairs.push_back({leaf, operand[static_cast<std::size_t>(place)]});
    }
  }
  return pairs;
}

/// True if a fusion writes this parameter's elements one by one into its result
/// (HloDataflowAnalysis::AreTransitiveUsesElementwiseOrTuple).
bool Dataflow::is_elementwise_path(std::size_t c, ValueId parameter) const {
  const Computation& fused = module_.computations[c];
  std::vector<bool> reached(fused.instructions.size());
  reached[values_[parameter.index()].instruction] = true;
  for (std::size_t i = 0; i < fused.instructions.size(); ++i) {
    const Instruction& instruction = fused.instructions[i];
    const bool is_reached = std::any_of(instruction.operands.begin(), instruction.operands.end(),
                                        [&](std::size_t operand) { return reached[operand]; });
    if (!is_reached) continue;
    if (instruction.opcode != "tuple" && !is_elementwise(instruction.opcode)) return false;
    reached[i] = true;
  }
  return true;
}

std::vector<Pair> Dataflow::may_share(std::size_t c, std::size_t i) const {
  const Computation& computation = module_.computations[c];
  const Instruction& instruction = computation.instructions[i];
  std::vector<Pair> pairs;
  const bool is_fusion = instruction.opcode == "fusion";
  if (instruction.opcode == "copy" || (!is_fusion && !is_elementwise(instruction.opcode))) return pairs;
  const std::size_t count = instruction.shape.leaves();
  for (std::size_t k = 0; k < instruction.operands.size(); ++k) {
    const Shape& shape = computation.instructions[instruction.operands[k]].shape;
    if (shape.tuple) continue;
    if (is_fusion &&
        !is_elementwise_path(instruction.called[0],
                             part_of(parameter_leaves(instruction.called[0], static_cast<std::int64_t>(k)), 0))) {
      continue;
    }
    for (std::size_t leaf = 0; leaf < count; ++leaf) {
      const Shape& made = leaf_shape(instruction.shape, leaf);
      if (made.type != shape.type || made.dimensions != shape.dimensions || made.size != shape.size) continue;
      pairs.push_back({leaf, leaves_[c][instruction.operands[k]][0]});
    }
  }
  return pairs;
}

std::vector<std::size_t> Dataflow::runs_inside(const Instruction& instruction) const {
  std::vector<std::size_t> inside;
  if (instruction.opcode != "while" && instruction.opcode != "conditional" && instruction.opcode != "call")
    return inside;
  for (const std::size_t called : instruction.called) {
    inside.push_back(called);
    for (const Instruction& inner : module_.computations[called].instructions) {
      const std::vector<std::size_t> more = runs_inside(inner);
      inside.insert(inside.end(), more.begin(), more.end());
    }
  }
  return inside;
}

std::vector<ValueId> Dataflow::destroys(std::size_t c, std::size_t i) const {
  std::vector<ValueId> destroyed;
  for (const Pair& pair : in_place(c, i)) destroyed.push_back(pair.input);
  const std::vector<std::size_t> inside = runs_inside(module_.computations[c].instructions[i]);
  if (inside.empty()) return destroyed;
  for (const ValueId value : reads(c, i)) {
    const std::vector<ValueId>& members = members_[storage(value).index()];
    const bool is_written = std::any_of(members.begin(), members.end(), [&](ValueId member) {
      const Value& other = values_[member.index()];
      return other.kind == ValueKind::computed &&
             std::find(inside.begin(), inside.end(), other.computation) != inside.end();
    });
    if (is_written) destroyed.push_back(value);
  }
  return destroyed;
}

}  // namespace remora::hlo
