// SPDX-License-Identifier: Apache-2.0
#include "frontends/hlo/draft.hpp"

#include <algorithm>
#include <set>

#include "frontends/formats/wire.hpp"
#include "frontends/hlo/reader.hpp"
#include "model/error.hpp"
#include "model/quote.hpp"

namespace remora::hlo {
namespace {

/// XLA's number of the type of tuples.
constexpr std::uint64_t kTupleType = 13;

template <class Visit>
void each(std::string_view message, const Visit& visit) {
  wire::Reader reader(message);
  while (!reader.at_end()) {
    const auto field = reader.next();
    ensure(field.has_value() && !field->cut, "hlo: a message that was read");
    visit(*field);
  }
}

void append_numbers(const wire::Field& field, std::vector<std::int64_t>& numbers) {
  if (field.type == 0) return numbers.push_back(static_cast<std::int64_t>(field.value));
  wire::Reader reader(field.payload);
  while (!reader.at_end()) numbers.push_back(static_cast<std::int64_t>(reader.varint().value_or(0)));
}

}  // namespace

ArrayShape::ArrayShape(std::string_view bytes) {
  each(bytes, [&](const wire::Field& field) {
    if (field.number == shape_field::element_type) type = static_cast<int>(field.value);
    if (field.number == shape_field::dimensions) append_numbers(field, dimensions);
    if (field.number != shape_field::layout) return;
    each(field.payload, [&](const wire::Field& one) {
      if (one.number == layout_field::minor_to_major) append_numbers(one, minor_to_major);
    });
  });
}

ArrayShape ArrayShape::stacked(std::int64_t n) const {
  ArrayShape shape = *this;
  shape.dimensions.insert(shape.dimensions.begin(), n);
  for (std::int64_t& dimension : shape.minor_to_major) ++dimension;
  shape.minor_to_major.push_back(0);
  return shape;
}

std::string ArrayShape::bytes() const {
  std::string layout;
  for (const std::int64_t one : minor_to_major)
    wire::put_number(layout, layout_field::minor_to_major, static_cast<std::uint64_t>(one));
  wire::put_number(layout, layout_field::tail_padding, 1);
  std::string text;
  wire::put_number(text, shape_field::element_type, static_cast<std::uint64_t>(type));
  for (const std::int64_t one : dimensions)
    wire::put_number(text, shape_field::dimensions, static_cast<std::uint64_t>(one));
  wire::put_bytes(text, shape_field::layout, layout);
  for (std::size_t k = 0; k < dimensions.size(); ++k) wire::put_number(text, shape_field::is_dynamic, 0);
  return text;
}

std::string_view shape_of(const Instruction& instruction) {
  return field_of(instruction.bytes, instruction_field::shape);
}

std::vector<std::string> parts_of(std::string_view tuple) {
  std::vector<std::string> parts;
  each(tuple, [&](const wire::Field& field) {
    if (field.number == shape_field::tuple_shapes) parts.emplace_back(field.payload);
  });
  return parts;
}

std::string tuple_of(const std::vector<std::string>& parts) {
  std::string text;
  wire::put_number(text, shape_field::element_type, kTupleType);
  for (const std::string& part : parts) wire::put_bytes(text, shape_field::tuple_shapes, part);
  return text;
}

std::string new_fields(std::string_view opcode, std::string_view shape) {
  std::string text;
  wire::put_bytes(text, instruction_field::opcode, opcode);
  wire::put_bytes(text, instruction_field::shape, shape);
  return text;
}

std::optional<std::string> constant_fields(const ArrayShape& scalar, std::int64_t number) {
  // By XLA's number of the type: the field of LiteralProto, and bytes of an element that are written as they lie in memory, or 0.
  static const std::map<int, std::pair<std::uint64_t, std::size_t>> kFields{{1, {2, 0}},  {4, {4, 0}},  {5, {5, 0}},
                                                                            {8, {6, 0}},  {9, {7, 0}},  {10, {10, 2}},
                                                                            {11, {8, 4}}, {12, {9, 8}}, {16, {13, 2}}};
  const auto field = kFields.find(scalar.type);
  if (field == kFields.end() || (field->second.second > 0 && number != 0)) return {};
  std::string literal;
  wire::put_bytes(literal, literal_field::shape, scalar.bytes());
  if (field->second.second == 0) {
    wire::put_number(literal, field->second.first, static_cast<std::uint64_t>(number));
  } else {
    wire::put_bytes(literal, field->second.first, std::string(field->second.second, '\0'));
  }
  std::string text = new_fields("constant", scalar.bytes());
  wire::put_bytes(text, instruction_field::literal, literal);
  return text;
}

Draft::Draft(const Module& module, Copies& copies, std::size_t computation)
    : module_(module), copies_(copies), source_(module.computations[computation]) {
  written_ = {.source = computation, .place = computation, .replaces = true, .name = source_.name, .id = source_.id};
  written_.root_id = id_of(source_.root);
}

Draft::Copy Draft::as_is(std::size_t i) const {
  const Instruction& instruction = source_.instructions[i];
  Copy copy{.instruction = i, .name = instruction.name, .id = instruction.id};
  for (const std::size_t operand : instruction.operands) copy.operands.push_back(id_of(operand));
  for (const std::size_t before : instruction.control_predecessors) copy.control_predecessors.push_back(id_of(before));
  for (const std::size_t called : instruction.called) copy.called.push_back(module_.computations[called].id);
  return copy;
}

std::int64_t Draft::add(const std::string& name, std::string fields, std::vector<std::int64_t> operands,
                        std::vector<std::int64_t> called) {
  written_.copies.push_back({.name = copies_.fresh().name(name),
                             .id = copies_.fresh().instruction(source_.id),
                             .operands = std::move(operands),
                             .called = std::move(called),
                             .fields = std::move(fields)});
  return written_.copies.back().id;
}

WrittenComputation Draft::behind(const std::vector<const Draft*>& others) {
  std::vector<Copy> all;
  for (const Draft* other : others) {
    all.insert(all.end(), other->written_.copies.begin(), other->written_.copies.end());
  }
  written_.copies.insert(written_.copies.begin(), all.begin(), all.end());
  prune();
  return std::move(written_);
}

void Draft::prune() {
  std::map<std::int64_t, const Copy*> by_id;
  for (const Copy& copy : written_.copies) by_id[copy.id] = &copy;
  std::set<std::int64_t> needed;
  std::vector<std::int64_t> open{written_.root_id};
  for (const Copy& copy : written_.copies) {
    const Instruction& source = source_.instructions[copy.instruction];
    const bool is_own = copy.id == source.id;
    if (is_own && (source.opcode == "parameter" || has_effect(module_, source))) open.push_back(copy.id);
  }
  while (!open.empty()) {
    const std::int64_t id = open.back();
    open.pop_back();
    if (!needed.insert(id).second) continue;
    if (!by_id.contains(id)) throw InputError("computation " + quote(source_.name), "needs what would be left out");
    open.insert(open.end(), by_id[id]->operands.begin(), by_id[id]->operands.end());
  }
  std::erase_if(written_.copies, [&](const Copy& copy) { return !needed.contains(copy.id); });
  for (Copy& copy : written_.copies) {
    std::erase_if(copy.control_predecessors, [&](std::int64_t id) { return !needed.contains(id); });
  }
}

std::pair<std::int64_t, std::vector<std::size_t>> add_variant(const Module& module, Copies& copies,
                                                              const FusedVariant& variant, std::size_t place) {
  const Computation& source = module.computations[variant.computation];
  const auto meant = [&](std::size_t i) {
    for (auto found = variant.instead.find(i); found != variant.instead.end(); found = variant.instead.find(i)) {
      i = found->second;
    }
    return i;
  };
  std::vector<bool> needed(source.instructions.size());
  needed[meant(variant.root)] = true;
  for (std::size_t i = source.instructions.size(); i-- > 0;) {
    if (!needed[i]) continue;
    for (const std::size_t operand : source.instructions[i].operands) needed[meant(operand)] = true;
  }
  std::vector<std::size_t> numbers;
  for (std::size_t i = 0; i < source.instructions.size(); ++i) {
    const Instruction& one = source.instructions[i];
    if (needed[i] && one.opcode == "parameter") numbers.push_back(static_cast<std::size_t>(one.parameter_number));
  }
  std::sort(numbers.begin(), numbers.end());
  WrittenComputation written{.source = variant.computation,
                             .place = place,
                             .name = copies.fresh().name(source.name),
                             .id = copies.fresh().computation()};
  std::vector<std::int64_t> ids(source.instructions.size());
  for (std::size_t i = 0; i < source.instructions.size(); ++i) {
    if (!needed[i]) continue;
    const Instruction& one = source.instructions[i];
    ids[i] = copies.fresh().instruction(written.id);
    WrittenComputation::Copy copy{.instruction = i, .name = copies.fresh().name(one.name), .id = ids[i]};
    for (const std::size_t operand : one.operands) copy.operands.push_back(ids[meant(operand)]);
    copy.called = copies.called_by(one, place);
    if (one.opcode == "parameter") {
      const auto shape = variant.shapes.find(i);
      const auto number = static_cast<std::size_t>(one.parameter_number);
      copy.fields = fields_of(one, {instruction_field::shape, instruction_field::parameter_number});
      wire::put_bytes(*copy.fields, instruction_field::shape,
                      shape == variant.shapes.end() ? shape_of(one) : shape->second);
      wire::put_number(*copy.fields, instruction_field::parameter_number,
                       static_cast<std::uint64_t>(std::find(numbers.begin(), numbers.end(), number) - numbers.begin()));
    }
    written.copies.push_back(std::move(copy));
  }
  written.root_id = ids[meant(variant.root)];
  copies.added.push_back(std::move(written));
  return {copies.added.back().id, numbers};
}

}  // namespace remora::hlo
