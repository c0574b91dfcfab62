// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <unordered_set>
#include <utility>

#include "frontends/formats/wire.hpp"
#include "frontends/hlo/dataflow.hpp"
#include "frontends/hlo/dim_loops.hpp"
#include "frontends/hlo/draft.hpp"
#include "frontends/hlo/message_fields.hpp"
#include "frontends/hlo/sliceable.hpp"
#include "model/error.hpp"
#include "model/table.hpp"

namespace remora::hlo {
namespace {

/// XLA's numbers of the types of integers of 32 and 64 bits.
constexpr int kIndex = 4;
constexpr int kLongIndex = 5;

/// An array of the new module.
struct Piece {
  std::int64_t id = 0;
  ArrayShape shape{""};
};

ArrayShape flat_shape(int type, std::int64_t blocks, std::int64_t elements) {
  ArrayShape shape("");
  shape.type = type;
  shape.dimensions = {blocks, elements};
  shape.minor_to_major = {1, 0};
  return shape;
}

ArrayShape scalar_shape(int type) {
  ArrayShape shape("");
  shape.type = type;
  return shape;
}

/// The array with the part's rows in place of all.
ArrayShape shape_of_part(std::string_view whole, const ArrayPart& part, Range iterations) {
  ArrayShape shape(whole);
  if (part.is_cut()) shape.dimensions[part.dim] = part.rows_of(iterations).size();
  return shape;
}

/// The threads among which XLA divides outer dimensions, in the order in memory: none where a slice has fewer rows.
std::string fitting_config(std::string_view config, const ArrayShape& made) {
  constexpr std::string_view kMark = "\"outer_dimension_partitions\":[";
  const std::size_t mark = config.find(kMark);
  if (mark == std::string_view::npos) return std::string(config);
  const std::size_t begin = mark + kMark.size();
  const std::size_t end = config.find(']', begin);
  if (end == std::string_view::npos) return std::string(config);
  const std::vector<std::size_t> dims = major_to_minor(made.bytes());
  std::size_t at = 0;
  bool fits = true;
  const char* const last = config.data() + end;
  for (const char* next = config.data() + begin; next < last; ++next) {
    std::int64_t partitions = 0;
    const auto read = std::from_chars(next, last, partitions);
    if (read.ec != std::errc()) continue;
    fits = fits && at < dims.size() && partitions <= made.dimensions[dims[at]];
    ++at;
    next = read.ptr;
  }
  if (fits) return std::string(config);
  return std::string(config.substr(0, begin)) + std::string(config.substr(end));
}

class SliceWriter {
 public:
  SliceWriter(const LoweredModule& lowered, const SliceableGraph& sliceable, std::span<const Region> regions)
      : lowered_(lowered),
        module_(lowered.module),
        entry_(module_.computations[lowered.computation]),
        sliceable_(sliceable),
        sliced_(slice(sliceable.graph, regions, slice_run(lowered.machine))),
        copies_(module_),
        draft_(module_, copies_, lowered.computation),
        axes_(sliceable.graph.ops.size(), -1),
        pieces_(sliced_.tensors.size()),
        last_(sliceable.graph.tensors.size()),
        wholes_(sliceable.graph.tensors.size(), -1) {
    for (const Region& region : regions) {
      for (const RegionPart& part : region.parts) {
        for (const SlicedOp& member : part) axes_[member.op] = member.axis;
      }
    }
    for (const TensorId s : sliced_.tensors.ids()) last_[sliced_.tensors[s].tensor] = s;
  }

  std::string run() {
    for (const std::size_t i : entry_.order) {
      const std::string& opcode = entry_.instructions[i].opcode;
      if (opcode == "parameter" || opcode == "constant") draft_.keep(i);
    }
    for (const OpId v : sliced_.ops.ids()) {
      if (sliced_.ops[v].slice < 0) {
        keep(instruction_of(v));
      } else {
        add_slice(v);
      }
    }
    static_cast<void>(given(entry_.root));
    WrittenComputation entry = draft_.behind();
    copies_.added.push_back(std::move(entry));
    return write_module(*lowered_.bytes, module_, copies_.added);
  }

 private:
  [[nodiscard]] std::size_t instruction_of(OpId v) const { return lowered_.instructions[sliced_.ops[v].op.index()]; }
  [[nodiscard]] const InstructionAxis& instruction_axis(OpId v) const {
    const OpId source = sliced_.ops[v].op;
    return sliceable_.axes[source.index()][at(axes_[source])];
  }
  [[nodiscard]] const Axis& axis(OpId v) const {
    const OpId source = sliced_.ops[v].op;
    return sliceable_.graph[source].axes[at(axes_[source])];
  }
  [[nodiscard]] bool is_internal(TensorId s) const { return !sliced_.tensors[s].bytes.empty(); }
  [[nodiscard]] bool is_last(TensorId s) const { return last_[sliced_.tensors[s].tensor] == s; }
  [[nodiscard]] std::string_view shape_of_tensor(TensorId t) const { return sliceable_.shapes[t.index()]; }

  // Instructions of the result.

  Piece add(std::string_view opcode, const ArrayShape& shape, std::vector<std::int64_t> operands) {
    return {draft_.add(std::string(opcode), new_fields(opcode, shape.bytes()), std::move(operands)), shape};
  }

  Piece bitcast(const Piece& piece, const ArrayShape& shape) {
    return piece.shape == shape ? piece : add("bitcast", shape, {piece.id});
  }

  Piece rows(const Piece& piece, std::size_t dim, Range range) {
    ArrayShape shape = piece.shape;
    if (range == Range{0, shape.dimensions[dim]}) return piece;
    shape.dimensions[dim] = range.size();
    std::string fields = new_fields("slice", shape.bytes());
    for (std::size_t k = 0; k < shape.dimensions.size(); ++k) {
      const Range kept = k == dim ? range : Range{0, shape.dimensions[k]};
      std::string said;
      wire::put_number(said, slice_field::start, static_cast<std::uint64_t>(kept.begin));
      wire::put_number(said, slice_field::limit, static_cast<std::uint64_t>(kept.end));
      wire::put_number(said, slice_field::stride, 1);
      wire::put_bytes(fields, instruction_field::slice_dimensions, said);
    }
    return {draft_.add("slice", std::move(fields), {piece.id}), shape};
  }

  std::int64_t constant(int type, std::int64_t number) {
    auto [known, is_new] = constants_.try_emplace({type, number}, 0);
    if (is_new) {
      const auto fields = constant_fields(scalar_shape(type), number);
      ensure(fields.has_value(), "hlo slices: a type without a zero");
      known->second = draft_.add("constant", *fields, {});
    }
    return known->second;
  }

  // What is not cut.

  void keep(std::size_t i) {
    for (const std::size_t operand : entry_.instructions[i].operands) static_cast<void>(given(operand));
    draft_.keep(i);
  }

  /// The id of what an instruction of the module gives, as a whole, and what it stands for behind that.
  std::int64_t given(std::size_t i) {
    const Instruction& one = entry_.instructions[i];
    if (!is_alias(one) || !views_.insert(i).second) return one.id;
    const std::size_t source = part_of(one.operands, 0);
    const auto parts = tuples_.find(source);
    if (one.opcode != "get-tuple-element" || parts == tuples_.end()) {
      keep(i);
      return one.id;
    }
    const std::int64_t leaf = wholes_[part_of(parts->second, static_cast<std::size_t>(one.tuple_index))];
    ensure(leaf >= 0, "hlo slices: an array is read as a whole that is in slices");
    put_as(i, "bitcast", {leaf});
    return one.id;
  }

  /// An instruction with the name, id and shape of one of the module.
  void put_as(std::size_t i, std::string_view opcode, std::vector<std::int64_t> operands) {
    const Instruction& one = entry_.instructions[i];
    draft_.put({.instruction = i,
                .name = one.name,
                .id = one.id,
                .operands = std::move(operands),
                .fields = new_fields(opcode, shape_of(one))});
  }

  // What a slice reads.

  std::int64_t read(OpId v, std::size_t k) {
    const std::size_t operand = entry_.instructions[instruction_of(v)].operands[k];
    const ArrayPart& part = instruction_axis(v).operands[k];
    if (!part.is_cut()) return given(operand);
    const std::string_view shape = shape_of(entry_.instructions[operand]);
    const Range iterations = sliced_.ops[v].iterations;
    const TensorId t = sliceable_.tensors[operand];
    for (const TensorId s : sliced_.graph[v].inputs) {
      if (!t.valid() || sliced_.tensors[s].tensor != t || (!is_internal(s) && is_last(s))) continue;
      return read_piece(s, *cut_of(axis(v), t), iterations, shape_of_part(shape, part, iterations));
    }
    return rows({given(operand), ArrayShape(shape)}, part.dim, part.rows_of(iterations)).id;
  }

  /// The bytes of each block that the iterations touch, of what has some of them or all, so far.
  std::int64_t read_piece(TensorId s, const Cut& cut, Range iterations, const ArrayShape& wanted) {
    const std::int64_t block = cut.block().count();
    const Range has = is_internal(s) ? sliced_.tensors[s].bytes : Range{0, block};
    const Range touched = rows_of(cut, iterations);
    const Range reads{touched.begin * cut.stride.count(), touched.end * cut.stride.count()};
    const Piece& piece = pieces_[s];
    if (has == reads) return bitcast(piece, wanted).id;
    const std::int64_t blocks = sliceable_.graph[cut.tensor].size.count() / block;
    const std::int64_t element = bytes_of_element(cut.tensor);
    const Piece flat = bitcast(piece, flat_shape(piece.shape.type, blocks, has.size() / element));
    const Range range{(reads.begin - has.begin) / element, (reads.end - has.begin) / element};
    return bitcast(rows(flat, 1, range), wanted).id;
  }

  [[nodiscard]] std::int64_t bytes_of_element(TensorId t) const {
    std::int64_t elements = 1;
    for (const std::int64_t dimension : ArrayShape(shape_of_tensor(t)).dimensions) elements *= dimension;
    return sliceable_.graph[t].size.count() / elements;
  }

  // What a slice is.

  void add_slice(OpId v) {
    const std::size_t i = instruction_of(v);
    const Instruction& one = entry_.instructions[i];
    const InstructionAxis& axis = instruction_axis(v);
    const Range iterations = sliced_.ops[v].iterations;
    std::vector<std::int64_t> operands;
    for (std::size_t k = 0; k < one.operands.size(); ++k) operands.push_back(read(v, k));
    std::vector<std::string> shapes = array_shapes(one);
    for (std::size_t k = 0; k < shapes.size(); ++k) {
      shapes[k] = shape_of_part(shapes[k], axis.results[k], iterations).bytes();
    }
    std::string fields = fields_of_slice(one, axis.results[0], iterations, ArrayShape(shapes[0]));
    wire::put_bytes(fields, instruction_field::shape, one.shape.tuple ? tuple_of(shapes) : shapes[0]);
    std::vector<std::int64_t> called{};
    if (one.opcode == "fusion") {
      called.push_back(sliced_computation(one.called[0], axis, iterations));
    } else {
      called = copies_.called_by(one, lowered_.computation);
    }
    const std::int64_t made = draft_.add(one.name, std::move(fields), std::move(operands), std::move(called));
    for (std::size_t k = 0; k < shapes.size(); ++k) {
      std::int64_t leaf = made;
      if (one.shape.tuple) {
        std::string element = new_fields("get-tuple-element", shapes[k]);
        wire::put_number(element, instruction_field::tuple_index, k);
        leaf = draft_.add("get-tuple-element", std::move(element), {made});
      }
      join(v, sliced_.graph[v].outputs[k], {leaf, ArrayShape(shapes[k])});
    }
    const bool is_end = sliced_.ops[v].slice + 1 == slices_of(v);
    if (is_end && one.shape.tuple) end_tuple(i, sliced_.ops[v].op);
  }

  [[nodiscard]] int slices_of(OpId v) {
    if (counts_.empty()) {
      for (const OpSource& source : sliced_.ops) {
        if (source.slice >= 0) counts_[source.op] = std::max(counts_[source.op], source.slice + 1);
      }
    }
    return counts_[sliced_.ops[v].op];
  }

  /// Fields of an instruction, without its shape, that are those of a slice.
  [[nodiscard]] static std::string fields_of_slice(const Instruction& one, const ArrayPart& result, Range iterations,
                                                   const ArrayShape& made) {
    using namespace instruction_field;
    std::string fields = fields_of(one, {shape, backend_config, slice_dimensions});
    const std::string config = fitting_config(field_of(one.bytes, backend_config), made);
    if (!config.empty()) wire::put_bytes(fields, backend_config, config);
    std::size_t dim = 0;
    for (const std::string_view said : messages_of(one.bytes, slice_dimensions)) {
      std::string kept(said);
      // The last one counts.
      if (result.is_cut() && dim++ == result.dim) {
        wire::put_number(kept, slice_field::limit, static_cast<std::uint64_t>(result.rows_of(iterations).size()));
      }
      wire::put_bytes(fields, slice_dimensions, kept);
    }
    return fields;
  }

  std::int64_t sliced_computation(std::size_t c, const InstructionAxis& axis, Range iterations) {
    const Computation& source = module_.computations[c];
    WrittenComputation written{.source = c,
                               .place = lowered_.computation,
                               .name = copies_.fresh().name(source.name),
                               .id = copies_.fresh().computation()};
    std::vector<std::int64_t> ids;
    for (std::size_t n = 0; n < source.instructions.size(); ++n) ids.push_back(copies_.fresh().instruction(written.id));
    for (const std::size_t n : source.order) {
      const Instruction& one = source.instructions[n];
      WrittenComputation::Copy copy{.instruction = n, .name = copies_.fresh().name(one.name), .id = ids[n]};
      for (const std::size_t operand : one.operands) copy.operands.push_back(ids[operand]);
      copy.called = copies_.called_by(one, lowered_.computation);
      const auto shape_at = [&](std::size_t k) {
        return shape_of_part(shape_of(source.instructions[k]), axis.inside[k], iterations);
      };
      if (one.opcode == "tuple") {
        std::vector<std::string> parts;
        for (const std::size_t operand : one.operands) parts.push_back(shape_at(operand).bytes());
        copy.fields = fields_of(one, {instruction_field::shape});
        wire::put_bytes(*copy.fields, instruction_field::shape, tuple_of(parts));
      } else {
        copy.fields = fields_of_slice(one, axis.inside[n], iterations, shape_at(n));
        wire::put_bytes(*copy.fields, instruction_field::shape, shape_at(n).bytes());
      }
      written.copies.push_back(std::move(copy));
    }
    written.root_id = ids[source.root];
    copies_.added.push_back(std::move(written));
    return copies_.added.back().id;
  }

  // What a slice writes.

  /// Puts rows or a term to what earlier slices have made.
  void join(OpId v, TensorId s, const Piece& part) {
    if (is_internal(s)) {
      pieces_[s] = part;
      return;
    }
    const TensorId t = sliced_.tensors[s].tensor;
    TensorId previous;
    for (const TensorId input : sliced_.graph[v].inputs) {
      if (sliced_.tensors[input].tensor == t) previous = input;
    }
    ensure(previous.valid() == (sliced_.ops[v].slice > 0), "hlo slices: a slice does not follow the one before it");
    const Cut* const cut = cut_of(axis(v), t);
    if (cut == nullptr) {
      pieces_[s] = previous.valid() ? add("add", part.shape, {pieces_[previous].id, part.id}) : part;
    } else {
      pieces_[s] = assembled(v, *cut, previous.valid() ? &pieces_[previous] : nullptr, part);
    }
    if (is_last(s)) end_array(instruction_of(v), t, pieces_[s]);
  }

  Piece assembled(OpId v, const Cut& cut, const Piece* previous, const Piece& part) {
    const std::int64_t block = cut.block().count();
    const std::int64_t blocks = sliceable_.graph[cut.tensor].size.count() / block;
    const std::int64_t element = bytes_of_element(cut.tensor);
    const Range touched = rows_of(cut, sliced_.ops[v].iterations);
    const Range range{touched.begin * cut.stride.count() / element, touched.end * cut.stride.count() / element};
    const ArrayShape whole = flat_shape(part.shape.type, blocks, block / element);
    const Piece so_far = previous ? *previous : add("broadcast", whole, {constant(part.shape.type, 0)});
    const Piece flat = bitcast(part, flat_shape(part.shape.type, blocks, range.size()));
    const int index = block / element > std::numeric_limits<std::int32_t>::max() ? kLongIndex : kIndex;
    return add("dynamic-update-slice", whole, {so_far.id, flat.id, constant(index, 0), constant(index, range.begin)});
  }

  void end_array(std::size_t i, TensorId t, const Piece& piece) {
    const Instruction& one = entry_.instructions[i];
    if (one.shape.tuple) {
      wholes_[t] = add("bitcast", ArrayShape(shape_of_tensor(t)), {piece.id}).id;
    } else {
      put_as(i, "bitcast", {piece.id});
      wholes_[t] = one.id;
    }
  }

  void end_tuple(std::size_t i, OpId op) {
    const std::vector<TensorId>& outputs = sliceable_.graph[op].outputs;
    tuples_[i] = outputs;
    std::vector<std::int64_t> operands;
    operands.reserve(outputs.size());
    for (const TensorId t : outputs) operands.push_back(wholes_[t]);
    if (std::ranges::find(operands, -1) == operands.end()) put_as(i, "tuple", std::move(operands));
  }

  const LoweredModule& lowered_;
  const Module& module_;
  const Computation& entry_;
  const SliceableGraph& sliceable_;
  SlicedGraph sliced_;
  Copies copies_;
  Draft draft_;
  /// By op of the module's graph; -1 of one that is not cut.
  Table<OpId, int> axes_;
  /// By tensor of the sliced graph.
  Table<TensorId, Piece> pieces_;
  /// By tensor of the module's graph: its last version, and the id of the whole.
  Table<TensorId, TensorId> last_;
  Table<TensorId, std::int64_t> wholes_;
  std::map<OpId, int> counts_{};
  std::map<std::pair<int, std::int64_t>, std::int64_t> constants_{};
  std::unordered_set<std::size_t> views_{};
  /// By instruction in slices whose result is a tuple.
  std::map<std::size_t, std::vector<TensorId>> tuples_{};
};

}  // namespace

std::string slice_module(const LoweredModule& lowered, const SliceableGraph& sliceable,
                         std::span<const Region> regions) {
  std::string bytes = SliceWriter(lowered, sliceable, regions).run();
  static_cast<void>(lower_module(bytes, lowered.source + " in slices", lowered.machine));
  return bytes;
}

}  // namespace remora::hlo
