// SPDX-License-Identifier: Apache-2.0
#include "frontends/hlo/module.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <unordered_map>

#include "frontends/formats/wire.hpp"
#include "frontends/hlo/message_fields.hpp"
#include "model/error.hpp"
#include "model/quote.hpp"

namespace remora::hlo {
namespace {

/// XLA's numbers of the types that are no arrays.
enum : int { kTuple = 13, kOpaque = 14, kToken = 17 };

/// Bytes of one element, by type; 0 for what has none.
constexpr std::array<std::int64_t, 34> kElementBytes{0, 1,  1, 2, 4, 8, 1, 2, 4, 8, 2, 4, 8, 0, 0, 8, 2,
                                                     0, 16, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
constexpr int kDeepestShape = 32;

[[noreturn]] void not_understood(const std::string& what) {
  throw InputError("", "is not understood as an HLO module: " + what);
}

/// Calls `visit` with every field of a message, and its bytes with the tag.
template <class Visit>
void each_field(std::string_view message, const char* what, const Visit& visit) {
  wire::Reader reader(message);
  while (!reader.at_end()) {
    const auto field = reader.next();
    if (!field || field->cut) not_understood(std::string("a message (") + what + ") ends in the middle of a field");
    visit(*field, message.substr(field->start, reader.place() - field->start));
  }
}

/// Adds the numbers of a repeated field: packed, or one at a time.
void add_numbers(const wire::Field& field, std::vector<std::int64_t>& numbers) {
  if (field.type == 0) {
    numbers.push_back(static_cast<std::int64_t>(field.value));
    return;
  }
  if (field.type != 2) not_understood("a list of numbers is none");
  wire::Reader reader(field.payload);
  while (!reader.at_end()) {
    const auto number = reader.varint();
    if (!number) not_understood("a list of numbers ends in the middle of one");
    numbers.push_back(static_cast<std::int64_t>(*number));
  }
}

std::int64_t number_of(const wire::Field& field) {
  if (field.type != 0) not_understood("field " + std::to_string(field.number) + " is no number");
  return static_cast<std::int64_t>(field.value);
}

std::string_view bytes_of(const wire::Field& field) {
  if (field.type != 2) not_understood("field " + std::to_string(field.number) + " is no message and no text");
  return field.payload;
}

void read_layout(std::string_view bytes, std::int64_t& element_bits) {
  each_field(bytes, "layout", [&](const wire::Field& field, std::string_view) {
    if (field.number == layout_field::tiles) throw InputError("", "has tiled layouts, whose sizes are not known here");
    if (field.number == layout_field::element_size_in_bits) element_bits = number_of(field);
  });
}

void set_size(Shape& shape, std::int64_t element_bits) {
  if (shape.type == kToken || shape.type == kOpaque) return;
  const auto type = static_cast<std::size_t>(shape.type);
  if (shape.type < 0 || type >= kElementBytes.size() || kElementBytes[type] == 0) {
    throw InputError("", "has elements of type " + std::to_string(shape.type) + ", which is not known here");
  }
  std::int64_t elements = 1;
  for (const std::int64_t dimension : shape.dimensions) {
    if (dimension < 0) throw InputError("", "has a dimension of " + std::to_string(dimension));
    elements = saturating_product(elements, dimension);
  }
  if (element_bits < 0 || element_bits > 1024) not_understood("elements of " + std::to_string(element_bits) + " bits");
  std::int64_t size = saturating_product(elements, kElementBytes[type]);
  if (element_bits > 0 && element_bits < 8) size = saturating_sum(elements, 8 / element_bits - 1) / (8 / element_bits);
  if (shape.is_dynamic) size = saturating_sum(size, static_cast<std::int64_t>(4 * shape.dimensions.size()));
  if (size > kSaturated / 4) throw InputError("", "has an array of more than 2^60 bytes");
  shape.size = Bytes(size);
}

Shape read_shape(std::string_view bytes, int depth = 0) {
  if (depth > kDeepestShape) throw InputError("", "has tuples in tuples beyond a depth of 32");
  Shape shape;
  std::int64_t element_bits = 0;
  std::vector<std::int64_t> dynamic;
  each_field(bytes, "shape", [&](const wire::Field& field, std::string_view) {
    switch (field.number) {
      case shape_field::element_type:
        shape.type = static_cast<int>(std::clamp<std::int64_t>(number_of(field), -1, 1000));
        break;
      case shape_field::dimensions:
        add_numbers(field, shape.dimensions);
        break;
      case shape_field::tuple_shapes:
        shape.parts.push_back(read_shape(bytes_of(field), depth + 1));
        break;
      case shape_field::layout:
        read_layout(bytes_of(field), element_bits);
        break;
      case shape_field::is_dynamic:
        add_numbers(field, dynamic);
        break;
      default:
        break;
    }
  });
  shape.tuple = shape.type == kTuple;
  if (!shape.tuple && !shape.parts.empty()) not_understood("a shape with parts that is no tuple");
  if (!shape.tuple) {
    shape.is_dynamic = std::any_of(dynamic.begin(), dynamic.end(), [](std::int64_t is) { return is != 0; });
    set_size(shape, element_bits);
  }
  return shape;
}

/// XLA's note on a loop's number of rounds: {"known_trip_count":{"n":"5"}, ...}.
std::int64_t trips_of(std::string_view config) {
  constexpr std::string_view kMark = "\"known_trip_count\":{\"n\":\"";
  const std::size_t mark = config.find(kMark);
  std::int64_t trips = 1;
  if (mark == std::string_view::npos) return trips;
  const char* const first = config.data() + mark + kMark.size();
  const auto read = std::from_chars(first, config.data() + config.size(), trips);
  return read.ec == std::errc() ? std::max<std::int64_t>(1, trips) : 1;
}

/// The value of a literal of one integer or truth value (LiteralProto: preds, u8s, s32s, s64s, u32s, u64s).
std::optional<std::int64_t> number_in(std::string_view literal) {
  std::vector<std::int64_t> numbers;
  bool is_scalar = true;
  each_field(literal, "literal", [&](const wire::Field& field, std::string_view) {
    using namespace literal_field;
    if (field.number == shape) is_scalar = is_scalar && read_shape(bytes_of(field)).dimensions.empty();
    if (field.number > shape && field.number <= u64s && field.number != u8s) add_numbers(field, numbers);
  });
  return is_scalar && numbers.size() == 1 ? std::optional(numbers[0]) : std::nullopt;
}

std::int64_t window_elements(std::string_view bytes) {
  std::int64_t elements = 1;
  each_field(bytes, "window", [&](const wire::Field& dimension, std::string_view) {
    if (dimension.number != window_field::dimensions) return;
    each_field(bytes_of(dimension), "window", [&](const wire::Field& field, std::string_view) {
      if (field.number == window_field::size)
        elements = saturating_product(elements, std::max<std::int64_t>(0, number_of(field)));
    });
  });
  return elements;
}

Instruction::Alias read_alias(std::string_view bytes) {
  Instruction::Alias alias;
  each_field(bytes, "alias", [&](const wire::Field& field, std::string_view) {
    if (field.number == alias_field::output) add_numbers(field, alias.output);
    if (field.number == alias_field::from) alias.operand = number_of(field);
    if (field.number == alias_field::from_index) add_numbers(field, alias.operand_index);
  });
  return alias;
}

/// An instruction as it stands, with ids where numbers of instructions and computations are to come.
struct RawIds {
  std::vector<std::int64_t> operands{};
  std::vector<std::int64_t> control{};
  std::vector<std::int64_t> called{};
};

void read_field(const wire::Field& field, Instruction& instruction, RawIds& ids) {
  switch (field.number) {
    case instruction_field::name:
      instruction.name = bytes_of(field);
      break;
    case instruction_field::opcode:
      instruction.opcode = bytes_of(field);
      break;
    case instruction_field::shape:
      instruction.shape = read_shape(bytes_of(field));
      break;
    case instruction_field::literal:
      instruction.literal = number_in(bytes_of(field));
      break;
    case instruction_field::comparison:
      instruction.comparison = bytes_of(field);
      break;
    case instruction_field::parameter_number:
      instruction.parameter_number = number_of(field);
      break;
    case instruction_field::tuple_index:
      instruction.tuple_index = number_of(field);
      break;
    case instruction_field::window:
      instruction.window = window_elements(bytes_of(field));
      break;
    case instruction_field::convolution_dimensions:
      instruction.kernel_output_dimension = 0;
      each_field(bytes_of(field), "convolution", [&](const wire::Field& one, std::string_view) {
        if (one.number == convolution_field::kernel_output_dimension)
          instruction.kernel_output_dimension = number_of(one);
      });
      break;
    case instruction_field::target:
      instruction.target = bytes_of(field);
      break;
    case instruction_field::dot_dimensions:
      each_field(bytes_of(field), "dot", [&](const wire::Field& one, std::string_view) {
        if (one.number == dot_field::lhs_contracting) add_numbers(one, instruction.contracting);
      });
      break;
    case instruction_field::id:
      instruction.id = number_of(field);
      break;
    case instruction_field::operand_ids:
      add_numbers(field, ids.operands);
      break;
    case instruction_field::control_predecessor_ids:
      add_numbers(field, ids.control);
      break;
    case instruction_field::called_computation_ids:
      add_numbers(field, ids.called);
      break;
    case instruction_field::backend_config:
      instruction.trips = trips_of(bytes_of(field));
      break;
    case instruction_field::has_side_effect:
      instruction.has_side_effect = number_of(field) != 0;
      break;
    case instruction_field::output_operand_aliasing:
      instruction.aliases.push_back(read_alias(bytes_of(field)));
      break;
    default:
      break;
  }
}

using Places = std::unordered_map<std::int64_t, std::size_t>;

std::vector<std::size_t> places_of(const std::vector<std::int64_t>& ids, const Places& places, const char* what) {
  std::vector<std::size_t> found;
  found.reserve(ids.size());
  for (const std::int64_t id : ids) {
    const auto place = places.find(id);
    if (place == places.end())
      not_understood(std::string("there is no ") + what + " " + std::to_string(id) + " before");
    found.push_back(place->second);
  }
  return found;
}

/// Control predecessors may stand behind: they are found when all are read.
Computation read_computation(std::string_view bytes, const Places& computations) {
  Computation computation{.bytes = bytes};
  Places places;
  std::vector<std::vector<std::int64_t>> control;
  std::optional<std::int64_t> root;
  each_field(bytes, "computation", [&](const wire::Field& field, std::string_view) {
    if (field.number == computation_field::name) computation.name = bytes_of(field);
    if (field.number == computation_field::id) computation.id = number_of(field);
    if (field.number == computation_field::root_id) root = number_of(field);
    if (field.number == computation_field::is_fusion) computation.is_fusion = number_of(field) != 0;
    if (field.number != computation_field::instructions) return;
    Instruction instruction{.bytes = bytes_of(field)};
    RawIds ids;
    each_field(instruction.bytes, "instruction",
               [&](const wire::Field& one, std::string_view) { read_field(one, instruction, ids); });
    if (instruction.opcode.empty()) not_understood("an instruction without an opcode");
    try {
      instruction.operands = places_of(ids.operands, places, "operand");
      instruction.called = places_of(ids.called, computations, "computation");
    } catch (const InputError& error) {
      throw InputError("instruction " + quote(instruction.name), error.what());
    }
    if (!places.emplace(instruction.id, computation.instructions.size()).second) {
      not_understood("two instructions have the id " + std::to_string(instruction.id));
    }
    control.push_back(std::move(ids.control));
    computation.instructions.push_back(std::move(instruction));
  });
  if (computation.instructions.empty()) not_understood("a computation without instructions");
  for (std::size_t i = 0; i < control.size(); ++i) {
    computation.instructions[i].control_predecessors = places_of(control[i], places, "control predecessor");
  }
  computation.root = places_of({root.value_or(0)}, places, "root").front();
  for (std::size_t i = 0; i < computation.instructions.size(); ++i) computation.order.push_back(i);
  return computation;
}

/// The schedule's order of a computation: every instruction once, each behind its operands.
void set_order(Computation& computation, const std::vector<std::int64_t>& ids) {
  Places places;
  for (std::size_t i = 0; i < computation.instructions.size(); ++i) places[computation.instructions[i].id] = i;
  computation.order = places_of(ids, places, "scheduled instruction");
  std::vector<bool> done(computation.instructions.size());
  for (const std::size_t i : computation.order) {
    const Instruction& instruction = computation.instructions[i];
    if (done[i]) not_understood("the schedule has " + quote(instruction.name) + " twice");
    done[i] = true;
    for (const auto* before : {&instruction.operands, &instruction.control_predecessors}) {
      for (const std::size_t other : *before) {
        if (!done[other]) not_understood("the schedule has " + quote(instruction.name) + " before what it depends on");
      }
    }
  }
  if (computation.order.size() != computation.instructions.size())
    not_understood("the schedule leaves instructions out");
}

/// An entry of the map from computations to sequences.
std::pair<std::int64_t, std::vector<std::int64_t>> read_sequence(std::string_view bytes) {
  std::pair<std::int64_t, std::vector<std::int64_t>> sequence{};
  each_field(bytes, "schedule", [&](const wire::Field& field, std::string_view) {
    if (field.number == schedule_field::computation) sequence.first = number_of(field);
    if (field.number != schedule_field::sequence) return;
    each_field(bytes_of(field), "sequence", [&](const wire::Field& one, std::string_view) {
      if (one.number == schedule_field::instructions) add_numbers(one, sequence.second);
    });
  });
  return sequence;
}

void read_schedule(std::string_view bytes, Module& module, const Places& computations) {
  each_field(bytes, "schedule", [&](const wire::Field& field, std::string_view) {
    if (field.number != schedule_field::sequences) return;
    const auto [id, ids] = read_sequence(bytes_of(field));
    const std::size_t place = places_of({id}, computations, "scheduled computation").front();
    set_order(module.computations[place], ids);
    module.computations[place].scheduled = true;
  });
}

void read_donations(std::string_view bytes, Module& module) {
  each_field(bytes, "alias", [&](const wire::Field& entry, std::string_view) {
    if (entry.number != alias_field::entries) return;
    Donation donation;
    each_field(bytes_of(entry), "alias", [&](const wire::Field& field, std::string_view) {
      if (field.number == alias_field::output) add_numbers(field, donation.output);
      if (field.number == alias_field::from) donation.parameter = number_of(field);
      if (field.number == alias_field::from_index) add_numbers(field, donation.parameter_index);
    });
    module.donations.push_back(std::move(donation));
  });
}

Module read(std::string_view bytes) {
  Module module;
  Places computations;
  std::optional<std::int64_t> entry;
  std::vector<std::string_view> schedules;
  each_field(bytes, "module", [&](const wire::Field& field, std::string_view) {
    switch (field.number) {
      case module_field::name:
        module.name = bytes_of(field);
        break;
      case module_field::computations: {
        Computation computation = read_computation(bytes_of(field), computations);
        if (!computations.emplace(computation.id, module.computations.size()).second) {
          not_understood("two computations have the id " + std::to_string(computation.id));
        }
        module.computations.push_back(std::move(computation));
        break;
      }
      case module_field::entry_id:
        entry = number_of(field);
        break;
      case module_field::schedule:
        schedules.push_back(bytes_of(field));
        break;
      case module_field::input_output_alias:
        read_donations(bytes_of(field), module);
        break;
      default:
        break;
    }
  });
  module.entry = places_of({entry.value_or(0)}, computations, "entry computation").front();
  for (const std::string_view schedule : schedules) read_schedule(schedule, module, computations);
  return module;
}

void put_numbers(std::string& message, std::uint64_t field, const std::vector<std::int64_t>& numbers) {
  for (const std::int64_t number : numbers) wire::put_number(message, field, static_cast<std::uint64_t>(number));
}

/// The instruction's bytes with the copy's name and ids.
std::string copied(const Instruction& instruction, const WrittenComputation::Copy& copy) {
  std::string message;
  message.reserve(instruction.bytes.size() + 64);
  wire::put_bytes(message, instruction_field::name, copy.name);
  message += copy.fields ? *copy.fields : fields_of(instruction);
  put_numbers(message, instruction_field::id, {copy.id});
  put_numbers(message, instruction_field::operand_ids, copy.operands);
  put_numbers(message, instruction_field::control_predecessor_ids, copy.control_predecessors);
  put_numbers(message, instruction_field::called_computation_ids, copy.called);
  return message;
}

std::string bytes_of_written(const Module& module, const WrittenComputation& computation) {
  const Computation& source = module.computations[computation.source];
  std::string message;
  wire::put_bytes(message, computation_field::name, computation.name);
  each_field(source.bytes, "computation", [&](const wire::Field& field, std::string_view whole) {
    const bool is_replaced = field.number == computation_field::name ||
                             field.number == computation_field::instructions || field.number == computation_field::id ||
                             field.number == computation_field::root_id;
    if (!is_replaced) message += whole;
  });
  for (const WrittenComputation::Copy& copy : computation.copies) {
    wire::put_bytes(message, computation_field::instructions, copied(source.instructions[copy.instruction], copy));
  }
  put_numbers(message, computation_field::id, {computation.id});
  put_numbers(message, computation_field::root_id, {computation.root_id});
  return message;
}

void put_sequence(std::string& schedule, const WrittenComputation& computation) {
  std::string ids;
  for (const WrittenComputation::Copy& copy : computation.copies)
    put_numbers(ids, schedule_field::instructions, {copy.id});
  std::string pair;
  put_numbers(pair, schedule_field::computation, {computation.id});
  wire::put_bytes(pair, schedule_field::sequence, ids);
  wire::put_bytes(schedule, schedule_field::sequences, pair);
}

/// The schedule of what is not written anew.
std::string kept_schedule(std::string_view schedule, std::span<const WrittenComputation> written) {
  std::string message;
  each_field(schedule, "schedule", [&](const wire::Field& field, std::string_view whole) {
    const std::int64_t id = field.number == schedule_field::sequences ? read_sequence(bytes_of(field)).first : -1;
    if (std::none_of(written.begin(), written.end(), [&](const auto& one) { return one.id == id; })) message += whole;
  });
  return message;
}

/// True if the fields of a message are those of an HloModuleProto, and one is a computation.
bool is_module(std::string_view bytes) {
  wire::Reader reader(bytes);
  bool has_computation = false;
  while (!reader.at_end()) {
    const auto field = reader.next();
    if (!field) return has_computation;
    const bool is_text = field->number == module_field::name || field->number == module_field::entry_name ||
                         field->number == module_field::computations;
    if (is_text && field->type != 2) return false;
    if (field->number == module_field::entry_id && field->type != 0) return false;
    // A computation begins with its name or its instructions; a field 3 of other messages is a text.
    if (field->number == module_field::computations && !field->payload.empty()) {
      const auto inner = wire::Reader(field->payload).next();
      if (!inner || inner->type != 2 || inner->number > computation_field::instructions) return false;
      has_computation = true;
    }
  }
  return has_computation;
}

/// Files with a module in field 1: HloProto (XLA's dumps), HloSnapshot with an HloProto in it, HloModuleProtoWithConfig.
constexpr int kDeepestModule = 3;

/// The HloModuleProto of a file, which is one or has it in its first field; empty if there is none.
std::string_view module_in(std::string_view file) {
  for (int depth = 0; depth < kDeepestModule; ++depth) {
    const auto first = wire::Reader(file).next();
    const bool has_message = first && first->number == 1 && first->type == 2;
    if (is_module(file) && !(has_message && is_module(first->payload))) return file;
    if (!has_message) break;
    file = first->payload;
  }
  return {};
}

/// HLO or StableHLO as text, and MLIR's binary form of StableHLO.
bool is_text(std::string_view file) {
  static constexpr std::array<std::string_view, 5> kBegins{"HloModule ", "module @", "module {", "module attributes",
                                                           "ML\xefR"};
  file.remove_prefix(std::min(file.find_first_not_of(" \t\r\n"), file.size()));
  return std::any_of(kBegins.begin(), kBegins.end(), [&](std::string_view begin) { return file.starts_with(begin); });
}

}  // namespace

std::size_t Shape::leaves() const {
  if (!tuple) return 1;
  std::size_t count = 0;
  for (const Shape& part : parts) count += part.leaves();
  return count;
}

bool looks_like_module(std::string_view file) {
  return is_text(file) || !module_in(file).empty();
}

std::string module_bytes(std::string file) {
  if (is_text(file)) {
    throw InputError("", std::string("is HLO or StableHLO in a form that is not read; ") + kWhatToGive);
  }
  const std::string_view module = module_in(file);
  return module.empty() || module.size() == file.size() ? std::move(file) : std::string(module);
}

Module read_module(std::string_view bytes, const std::string& source) {
  try {
    return read(bytes);
  } catch (const InputError& error) {
    throw InputError(source, error.what());
  }
}

std::string_view field_of(std::string_view message, std::uint64_t field) {
  std::string_view found;
  each_field(message, "message", [&](const wire::Field& one, std::string_view) {
    if (one.number == field) found = one.payload;
  });
  return found;
}

std::vector<std::int64_t> numbers_of(std::string_view message, std::uint64_t field) {
  std::vector<std::int64_t> numbers;
  each_field(message, "message", [&](const wire::Field& one, std::string_view) {
    if (one.number == field) add_numbers(one, numbers);
  });
  return numbers;
}

std::vector<std::string_view> messages_of(std::string_view message, std::uint64_t field) {
  std::vector<std::string_view> messages;
  each_field(message, "message", [&](const wire::Field& one, std::string_view) {
    if (one.number == field) messages.push_back(bytes_of(one));
  });
  return messages;
}

std::int64_t number_of(std::string_view message, std::uint64_t field) {
  const std::vector<std::int64_t> numbers = numbers_of(message, field);
  return numbers.empty() ? 0 : numbers.back();
}

std::string fields_of(const Instruction& instruction, std::initializer_list<std::uint64_t> left_out) {
  std::string message;
  each_field(instruction.bytes, "instruction", [&](const wire::Field& field, std::string_view whole) {
    const bool is_id =
        field.number >= instruction_field::id && field.number <= instruction_field::called_computation_ids;
    const bool is_out = std::find(left_out.begin(), left_out.end(), field.number) != left_out.end();
    if (field.number != instruction_field::name && !is_id && !is_out) message += whole;
  });
  return message;
}

std::string_view scope_of(const Instruction& instruction) {
  return field_of(field_of(instruction.bytes, instruction_field::metadata), metadata_field::op_name);
}

std::string source_line(std::string_view bytes, const Module& module, const Instruction& instruction) {
  using namespace frames_field;
  const std::string_view metadata = field_of(instruction.bytes, instruction_field::metadata);
  const std::string_view index = field_of(bytes, module_field::stack_frames);
  const auto nth = [&](std::uint64_t field, std::int64_t number) {
    std::string_view found;
    each_field(index, "frames", [&](const wire::Field& one, std::string_view) {
      if (one.number == field && --number == 0) found = one.payload;
    });
    return found;
  };
  std::string file(field_of(metadata, metadata_field::source_file));
  std::int64_t line = number_of(metadata, metadata_field::source_line);
  if (const std::int64_t frame = number_of(metadata, metadata_field::stack_frame_id); file.empty() && frame > 0) {
    const std::string_view location = nth(locations, number_of(nth(frames, frame), location_of_frame));
    file = nth(file_names, number_of(location, file_of_location));
    line = number_of(location, frames_field::line);
  }
  if (!file.empty()) return file + ":" + std::to_string(line);
  if (instruction.opcode != "fusion") return "";
  const std::vector<Instruction>& fused = module.computations[part_of(instruction.called, 0)].instructions;
  std::string found;
  for (auto one = fused.rbegin(); one != fused.rend() && found.empty(); ++one) found = source_line(bytes, module, *one);
  return found;
}

std::string write_module(std::string_view bytes, const Module& module, std::span<const WrittenComputation> written) {
  std::string message;
  message.reserve(bytes.size() + bytes.size() / 4);
  std::string schedule;
  std::size_t place = 0;
  each_field(bytes, "module", [&](const wire::Field& field, std::string_view whole) {
    if (field.number == module_field::schedule) {
      schedule += kept_schedule(field.payload, written);
    } else if (field.number != module_field::computations) {
      message += whole;
    } else {
      bool is_replaced = false;
      for (const WrittenComputation& one : written) {
        if (one.place != place) continue;
        wire::put_bytes(message, module_field::computations, bytes_of_written(module, one));
        is_replaced = is_replaced || one.replaces;
      }
      if (!is_replaced) message += whole;
      ++place;
    }
  });
  for (const WrittenComputation& one : written) {
    if (module.computations[one.source].scheduled || one.source == module.entry) put_sequence(schedule, one);
  }
  wire::put_bytes(message, module_field::schedule, schedule);
  return message;
}

}  // namespace remora::hlo
