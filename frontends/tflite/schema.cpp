// SPDX-License-Identifier: Apache-2.0
//
// The schema (tensorflow/compiler/mlir/lite/schema/schema.fbs, version 3) is a text for each table, with its fields in
// their order:
//
//     shape=[4]              a vector of elements of 4 bytes           type=1         a number of one byte
//     name=text              a text                                    -              a field that is not used any more
//     sparsity=Name          a table                                   details=<Name> a table of a union: its number is
//     tensors=[Name]         a vector of tables                                       the field before
//
// The options of ops have no names here, only the kinds of their fields.
#include "frontends/tflite/schema.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "model/error.hpp"

namespace remora::tflite {
namespace {

using Position = std::size_t;

struct Layout {
  std::string_view name;
  std::string_view fields;
};

constexpr std::array<Layout, 15> kTables{{
    {"Model",
     "version=4 operator_codes=[OperatorCode] subgraphs=[SubGraph] description=text buffers=[Buffer] "
     "metadata_buffer=[4] metadata=[Metadata] signature_defs=[SignatureDef] "
     "external_buffer_groups=[ExternalBufferGroup] external_buffers=[ExternalBuffer]"},
    {"OperatorCode", "deprecated_builtin_code=1 custom_code=text version=4 builtin_code=4"},
    {"SubGraph", "tensors=[Tensor] inputs=[4] outputs=[4] operators=[Operator] name=text debug_metadata_index=4"},
    {"Buffer", "data=[1] offset=8 size=8"},
    {"Metadata", "name=text buffer=4"},
    {"SignatureDef", "inputs=[TensorMap] outputs=[TensorMap] signature_key=text - subgraph_index=4"},
    {"ExternalBufferGroup", "name=text"},
    {"ExternalBuffer", "id=4 group=4 offset=8 length=8 packing=text"},
    {"Tensor",
     "shape=[4] type=1 buffer=4 name=text quantization=QuantizationParameters is_variable=1 "
     "sparsity=SparsityParameters shape_signature=[4] has_rank=1 variant_tensors=[VariantSubType] external_buffer=4"},
    {"Operator",
     "opcode_index=4 inputs=[4] outputs=[4] builtin_options_type=1 builtin_options=<BuiltinOptions> "
     "custom_options=[1] custom_options_format=1 mutating_variable_inputs=[1] intermediates=[4] "
     "large_custom_options_offset=8 large_custom_options_size=8 builtin_options_2_type=1 "
     "builtin_options_2=<BuiltinOptions2> debug_metadata_index=4"},
    {"TensorMap", "name=text tensor_index=4"},
    {"QuantizationParameters",
     "min=[4] max=[4] scale=[4] zero_point=[8] details_type=1 details=<QuantizationDetails> quantized_dimension=4"},
    {"SparsityParameters", "traversal_order=[4] block_map=[4] dim_metadata=[DimensionMetadata]"},
    {"VariantSubType", "shape=[4] type=1 has_rank=1"},
    {"DimensionMetadata",
     "format=1 dense_size=4 array_segments_type=1 array_segments=<SparseIndexVector> array_indices_type=1 "
     "array_indices=<SparseIndexVector>"},
}};

/// The tables of each union by their numbers, from 0 on, which is none.
constexpr std::array<Layout, 4> kUnions{{
    {"BuiltinOptions",
     "|1 4 4 1 4 4 1|1 4 4 4 1 4 4|4 [4] [4]|1|1 4 4 4 4 1|4 1 1|1 1|1 1 1 1 1 [1]|4|4 1|1 1|1|4 4 4 4|"
     "1 4 4 1 1|- - 1 1|4|[4]|4 4 1|4|1|1||4 4||||1|1 1|1|[4]|1 1 1|4 4 4 4 4 1|||4||1 1|||1|||||||||"
     "1 4 4 1 1|1|||||1||1|4 4 4 1|4 4||4|||4 4|||||1 4 4 1 1 1|1 1 1 1|1 4 4 1 1 1|||1 1|4||1||4|1|||||||"
     "4 4|||||4 4|4 4|4|||||||1 1 1|1 1|4|||1 4 4 4 1 4 4 4|4 1 1||||text text|||8 8|[4]|1||||||||||"},
    {"BuiltinOptions2",
     "|8|[8]|[8] [8] [8]|[8] [8] [8] [8] [1] 8 8 [8] 8 8 [8] 8 8 [8] 8 8 [4]|text 1 text 4 [4] [1]|[8] 4|"
     "1 [8] [8] [8] 8 1 4|4 4|[8]|[8] [8] [8]|8|[8] [8] [8] [8] [4]|[8] [8] [8] [8] [8] 4|8 1 4|4 4|"
     "[8] [8] [8] 8 [8] 1|[8]||1|4|text 4 [1] 1 4||[4]"},
    {"QuantizationDetails", "|[1]|4 4 4 [4]|4 4 4 [4]"},
    {"SparseIndexVector", "|[4]|[2]|[1]"},
}};

/// As in FlatBuffers: more may be a small file that refers to the same table again and again.
constexpr std::size_t kMostTables = 1'000'000;
constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

std::string_view fields_of(std::string_view table) {
  for (const Layout& layout : kTables) {
    if (layout.name == table) return layout.fields;
  }
  ensure(false, "the schema has each table that it names");
  return {};
}

/// Cuts a text after the next separator, and returns what stands before that.
std::string_view cut(std::string_view& rest, char separator) {
  const std::size_t end = rest.find(separator);
  const std::string_view first = rest.substr(0, end);
  rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  return first;
}

/// The fields of a union's table; nothing for none and for an unknown one, which the runtime does not check, either.
std::optional<std::string_view> fields_of(std::string_view name, std::size_t number) {
  for (const Layout& layout : kUnions) {
    if (layout.name != name) continue;
    std::string_view rest = layout.fields;
    if (number == 0 || std::cmp_greater(number, std::count(rest.begin(), rest.end(), '|'))) return {};
    for (std::size_t i = 0; i < number; ++i) cut(rest, '|');
    return cut(rest, '|');
  }
  ensure(false, "the schema has each union that it names");
  return {};
}

/// Where something stands in a model, from the inside out; a text only for errors.
struct Place {
  const Place* above = nullptr;
  std::string_view name{};
  std::size_t index = kNone;
};

std::string text_of(const Place& place) {
  const std::string above = place.above != nullptr ? text_of(*place.above) + "." : "";
  return above + std::string(place.name) + (place.index == kNone ? "" : "[" + std::to_string(place.index) + "]");
}

class Verifier {
 public:
  Verifier(std::string_view bytes, const std::string& source) : bytes_(bytes), source_(source) {}

  void check_model() {
    const Place model{.name = "model"};
    check_table(target(0, model), fields_of("Model"), model);
  }

 private:
  [[noreturn]] void fail(const Place& place, const std::string& what) const {
    throw InputError(source_, text_of(place) + " " + what + ": cut short or damaged");
  }
  void expect_inside(Position at, std::size_t size, const Place& place) const {
    if (at > bytes_.size() || size > bytes_.size() - at) fail(place, "lies beyond the end of the file");
  }
  void expect_aligned(Position at, std::size_t size, const Place& place) const {
    if (at % size != 0) fail(place, "is not aligned to " + std::to_string(size) + " bytes");
  }
  template <class Number>
  Number number(Position at, const Place& place) const {
    expect_aligned(at, sizeof(Number), place);
    expect_inside(at, sizeof(Number), place);
    Number value{};
    std::memcpy(&value, bytes_.data() + at, sizeof(Number));
    return value;
  }
  Position target(Position at, const Place& place) const {
    const auto distance = number<std::uint32_t>(at, place);
    if (distance == 0) fail(place, "refers to itself");
    expect_inside(at + distance, 1, place);
    return at + distance;
  }

  void check_table(Position table, std::string_view fields, const Place& place) {
    if (++tables_ > kMostTables) fail(place, "is one table more than the million that the runtime reads");
    const auto vtable = static_cast<std::int64_t>(table) - number<std::int32_t>(table, place);
    if (vtable < 0) fail(place, "refers to bytes before the beginning of the file");
    const auto begin = static_cast<Position>(vtable);
    const auto length = number<std::uint16_t>(begin, place);
    expect_aligned(length, sizeof(std::uint16_t), place);
    expect_inside(begin, length, place);
    std::uint8_t kind = 0;  // the number of a union's table
    for (Position entry = begin + 4; !fields.empty() && entry < begin + length; entry += sizeof(std::uint16_t)) {
      std::string_view type = cut(fields, ' ');
      const bool is_named = type.find('=') != std::string_view::npos;
      const std::string_view name = is_named ? cut(type, '=') : "options";
      const auto offset = number<std::uint16_t>(entry, place);
      const Place field{.above = &place, .name = name};
      if (offset != 0 && type != "-") check_field(table + offset, type, kind, field);
      kind = offset != 0 && type == "1" ? number<std::uint8_t>(table + offset, field) : std::uint8_t{0};
    }
  }

  void check_field(Position at, std::string_view type, std::uint8_t kind, const Place& place) {
    if (type.size() == 1) {
      const auto size = static_cast<std::size_t>(type.front() - '0');
      expect_aligned(at, size, place);
      return expect_inside(at, size, place);
    }
    const Position found = target(at, place);
    const std::string_view inner = type.substr(1, type.size() - 2);
    if (type == "text") {
      check_text(found, place);
    } else if (type.front() == '[') {
      check_vector(found, inner, place);
    } else if (type.front() == '<') {
      if (const auto fields = fields_of(inner, kind)) check_table(found, *fields, place);
    } else {
      check_table(found, fields_of(type), place);
    }
  }

  void check_text(Position at, const Place& place) const {
    const auto length = number<std::uint32_t>(at, place);
    expect_inside(at + sizeof(length), std::size_t{length} + 1, place);
    if (bytes_[at + sizeof(length) + length] != '\0') fail(place, "has no zero byte at its end");
  }

  void check_vector(Position at, std::string_view element, const Place& place) {
    const bool is_number = element.size() == 1;
    const std::size_t size = is_number ? static_cast<std::size_t>(element.front() - '0') : sizeof(std::uint32_t);
    const auto length = number<std::uint32_t>(at, place);
    const Position first = at + sizeof(length);
    expect_inside(first, length * size, place);
    for (std::size_t i = 0; !is_number && i < length; ++i) {
      const Place one{.above = place.above, .name = place.name, .index = i};
      check_table(target(first + i * size, one), fields_of(element), one);
    }
  }

  std::string_view bytes_;
  const std::string& source_;
  std::size_t tables_ = 0;
};

}  // namespace

void expect_valid(std::string_view bytes, const std::string& source) {
  Verifier(bytes, source).check_model();
}

}  // namespace remora::tflite
