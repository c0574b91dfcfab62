// SPDX-License-Identifier: Apache-2.0
#include "frontends/formats/tflite.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "frontends/formats/flatbuffer.hpp"
#include "frontends/formats/tflite_schema.hpp"
#include "model/error.hpp"

namespace remora::tflite {
namespace {

using flatbuffer::Position;
using flatbuffer::Reader;
using flatbuffer::Vector;

constexpr std::string_view kIdentifier = "TFL3";
constexpr std::string_view kPlan = "OfflineMemoryAllocation";
constexpr std::uint32_t kVersion = 3;
/// The reference to the model, and the identifier.
constexpr std::size_t kHeader = 8;
/// version, subgraphs, tensors; then the offsets.
constexpr std::size_t kPlanHeader = 3;
constexpr std::int64_t kMaximum = std::numeric_limits<std::int32_t>::max();

// The numbers of the fields that are read here.
namespace model {
enum : std::size_t { version = 0, subgraphs = 2, buffers = 4, metadata = 6, count = 8 };
}
namespace subgraph {
enum : std::size_t { tensors, inputs, outputs, operators };
}
namespace tensor {
enum : std::size_t { shape, type, buffer, name, quantization, is_variable, sparsity };
}
namespace operation {
enum : std::size_t { inputs = 1, outputs = 2, outside = 9 };
}
namespace buffer {
enum : std::size_t { data, outside };
}
namespace metadata {
enum : std::size_t { name, buffer };
}

/// Bytes of one element, by type; 0 for those that have no size of their own (texts and variants). Resources are handles of 4
/// bytes, and 4-bit numbers get a byte each.
constexpr std::array<std::int64_t, 19> kElementBytes{4, 2, 4, 1, 8, 0, 1, 2, 8, 1, 8, 16, 8, 4, 0, 4, 2, 1, 2};
constexpr std::uint8_t kResource = 13;
constexpr std::uint8_t kFourBits = 17;

Position model_of(const Reader& reader, std::string_view bytes) {
  if (!looks_like_model(bytes)) reader.fail("is not a TFLite model: it has no TFL3 identifier");
  const Position model = reader.target(0);
  if (model < kHeader) reader.fail("refers to its own header as a model: damaged");
  const auto version = reader.number_in<std::uint32_t>(model, model::version);
  if (version != kVersion) reader.fail("has schema version " + std::to_string(version) + "; 3 is what is read");
  expect_valid(bytes, reader.source());
  // Fields 8 and 9 are data in other files, which no microcontroller has.
  for (std::size_t i = model::count; i < reader.field_count(model); ++i) {
    if (reader.field(model, i)) reader.fail("has field " + std::to_string(i) + " of a model, which is not known here");
  }
  return model;
}

/// The elements of a vector of references to tables.
class Tables {
 public:
  Tables(const Reader& reader, Position table, std::size_t field)
      : reader_(reader), all_(reader.vector_in(table, field)) {}
  [[nodiscard]] std::size_t size() const { return all_.length; }
  [[nodiscard]] Position at(std::size_t i) const {
    if (i >= all_.length) reader_.fail("refers to element " + std::to_string(i) + " of " + std::to_string(all_.length));
    return reader_.target(all_.first + i * sizeof(std::uint32_t));
  }

 private:
  const Reader& reader_;
  Vector all_;
};

/// The plan among the metadata, as the number of its buffer.
std::optional<std::uint32_t> plan_buffer(const Reader& reader, Position model) {
  const Tables all(reader, model, model::metadata);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (reader.text_in(all.at(i), metadata::name) == kPlan) {
      return reader.number_in<std::uint32_t>(all.at(i), metadata::buffer);
    }
  }
  return {};
}

/// From the first scope to the last one, both included.
struct Life {
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  std::int64_t last = -1;

  void add(std::int64_t scope) {
    first = std::min(first, scope);
    last = std::max(last, scope);
  }
};

class LifeReader {
 public:
  LifeReader(const Reader& reader, Position graph, std::size_t tensors)
      : reader_(reader), graph_(graph), lives_(tensors), written_(tensors) {}

  std::vector<Life> read() {
    const Tables ops(reader_, graph_, subgraph::operators);
    const auto end = static_cast<std::int64_t>(ops.size());
    each(graph_, subgraph::inputs, [&](std::size_t i) { write(i, 0); });
    for (std::size_t k = 0; k < ops.size(); ++k) {
      const auto scope = static_cast<std::int64_t>(k) + 1;
      each(ops.at(k), operation::outputs, [&](std::size_t i) { write(i, scope); });
      each(ops.at(k), operation::inputs, [&](std::size_t i) { use(i, scope); });
    }
    each(graph_, subgraph::outputs, [&](std::size_t i) { use(i, end); });
    return std::move(lives_);
  }

 private:
  void write(std::size_t i, std::int64_t scope) {
    written_[i] = true;
    lives_[i].add(scope);
  }
  /// A tensor that no operator writes is resident from the beginning.
  void use(std::size_t i, std::int64_t scope) {
    if (!written_[i]) lives_[i].add(0);
    lives_[i].add(scope);
  }

  template <class Visit>
  void each(Position table, std::size_t field, const Visit& visit) {
    const Vector indices = reader_.vector_in(table, field);
    // Vectors are not shared, so a file has no more of these than its bytes hold; a damaged one may say so.
    visited_ += indices.length;
    if (visited_ > reader_.size()) reader_.fail("refers to more tensors than it has bytes: damaged");
    for (std::size_t k = 0; k < indices.length; ++k) {
      const auto index = reader_.number<std::int32_t>(indices.first + k * sizeof(std::int32_t));
      if (index == -1) continue;  // an input that is left out
      if (index < 0 || static_cast<std::size_t>(index) >= lives_.size()) {
        reader_.fail("refers to tensor " + std::to_string(index) + " of " + std::to_string(lives_.size()));
      }
      visit(static_cast<std::size_t>(index));
    }
  }

  const Reader& reader_;
  Position graph_;
  std::vector<Life> lives_;
  std::vector<bool> written_;
  std::size_t visited_ = 0;
};

/// Bytes of all elements; nothing for types whose elements have no size of their own, or no known one.
std::optional<std::int64_t> bytes_of(const Reader& reader, Position tensor, const std::string& name) {
  const auto type = static_cast<std::size_t>(reader.number_in<std::uint8_t>(tensor, tensor::type));
  if (type >= kElementBytes.size() || kElementBytes[type] == 0) return {};
  std::int64_t size = kElementBytes[type];
  const Vector shape = reader.vector_in(tensor, tensor::shape);
  for (std::size_t i = 0; i < shape.length; ++i) {
    const auto dimension = reader.number<std::int32_t>(shape.first + i * sizeof(std::int32_t));
    if (dimension < 0) reader.fail("tensor " + name + " has a dimension of " + std::to_string(dimension));
    if (dimension > 0 && size > kMaximum / dimension) reader.fail("tensor " + name + " has 2 GiB or more");
    size *= dimension;
  }
  return size;
}

/// Rounded up to the alignment.
Bytes size_of(const Reader& reader, Position tensor, const std::string& name) {
  const std::optional<std::int64_t> size = bytes_of(reader, tensor, name);
  if (!size) {
    const int type = reader.number_in<std::uint8_t>(tensor, tensor::type);
    reader.fail("tensor " + name + " is of type " + std::to_string(type) + ", whose elements have no known size");
  }
  return Bytes((*size + kAlignment.count() - 1) / kAlignment.count() * kAlignment.count());
}

/// A constant has all its elements in its buffer, as the runtime expects; two 4-bit numbers share a byte.
void expect_filled(const Reader& reader, Position tensor, const std::string& name, std::size_t bytes) {
  const auto type = reader.number_in<std::uint8_t>(tensor, tensor::type);
  if (type == kResource || reader.field(tensor, tensor::sparsity)) return;
  const std::int64_t size = bytes_of(reader, tensor, name).value_or(0);
  const std::int64_t needed = type == kFourBits ? (size + 1) / 2 : size;
  if (std::cmp_greater_equal(bytes, needed)) return;
  reader.fail("tensor " + name + " is a constant of " + std::to_string(needed) + " bytes, and its buffer has " +
              std::to_string(bytes));
}

/// Writes what with_plan adds, from the header on. A reference may point into it, or to a position of the old model, which
/// it moves by what is added: that is known only at the end, so such references are noted.
class Addition {
 public:
  Addition() { bytes_.resize(kHeader); }

  [[nodiscard]] Position end() const { return bytes_.size(); }
  void pad(std::size_t alignment, std::size_t after = 0) {
    while ((bytes_.size() + after) % alignment != 0) bytes_.push_back('\0');
  }
  template <class Number>
  Position put(Number value) {
    const Position at = end();
    bytes_.append(sizeof(Number), '\0');
    set(at, value);
    return at;
  }
  void put_text(std::string_view text) {
    put(static_cast<std::uint32_t>(text.size()));
    bytes_.append(text).push_back('\0');
    pad(sizeof(std::uint32_t));
  }
  /// A table of four bytes a field: 0 where a field is left out. Returns the positions of its fields.
  template <std::size_t n>
  std::array<Position, n> put_table(const std::array<bool, n>& present) {
    constexpr std::size_t kVtable = 4 + 2 * n;
    pad(4, kVtable);
    const Position vtable = put(static_cast<std::uint16_t>(kVtable));
    const auto fields = static_cast<std::size_t>(std::count(present.begin(), present.end(), true));
    put(static_cast<std::uint16_t>(4 + 4 * fields));
    std::uint16_t offset = 4;
    for (const bool is_there : present) {
      put(is_there ? offset : std::uint16_t{0});
      if (is_there) offset = static_cast<std::uint16_t>(offset + 4);
    }
    const Position table = put(static_cast<std::int32_t>(end() - vtable));
    std::array<Position, n> places{};
    for (std::size_t i = 0; i < n; ++i) places[i] = present[i] ? put(std::uint32_t{0}) : table;
    return places;
  }
  template <class Number>
  void set(Position at, Number value) {
    std::memcpy(bytes_.data() + at, &value, sizeof(Number));
  }
  void refer(Position at, Position added) { set(at, static_cast<std::uint32_t>(added - at)); }
  void refer_to_old(Position at, Position old) { old_.emplace_back(at, old); }

  /// Appends the new parts, and then everything behind the header of the old model.
  std::string finish(std::string_view old) {
    constexpr std::size_t kLargest = 64;  // no alignment inside a model is larger
    pad(kLargest, kLargest - kHeader);
    const std::size_t moved = end() - kHeader;
    for (const auto& [at, target] : old_) refer(at, target + moved);
    return bytes_.append(old.substr(kHeader));
  }

 private:
  std::string bytes_;
  std::vector<std::pair<Position, Position>> old_{};
};

void expect_movable(const Reader& reader, Position model) {
  const Tables buffers(reader, model, model::buffers);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (reader.number_in<std::uint64_t>(buffers.at(i), buffer::outside) > 1) {
      reader.fail("has data outside of its flatbuffer (buffer " + std::to_string(i) +
                  "), as models of 2 GiB and more do");
    }
  }
  const Tables ops(reader, Tables(reader, model, model::subgraphs).at(0), subgraph::operators);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (reader.number_in<std::uint64_t>(ops.at(i), operation::outside) > 1) {
      reader.fail("has options outside of its flatbuffer (operator " + std::to_string(i) + ")");
    }
  }
}

/// A vector of references to the old tables, and one more, whose position is returned.
Position put_tables(Addition& added, const Tables& old) {
  added.put(static_cast<std::uint32_t>(old.size() + 1));
  for (std::size_t i = 0; i < old.size(); ++i) added.refer_to_old(added.put(std::uint32_t{0}), old.at(i));
  return added.put(std::uint32_t{0});
}

/// A buffer with the plan. Returns the position of its table.
Position put_plan(Addition& added, const std::vector<std::int32_t>& plan) {
  const auto [data] = added.put_table<1>({true});
  added.pad(static_cast<std::size_t>(kAlignment.count()), sizeof(std::uint32_t));
  added.refer(data, added.end());
  added.put(static_cast<std::uint32_t>(plan.size() * sizeof(std::int32_t)));
  for (const std::int32_t word : plan) added.put(word);
  return data - sizeof(std::int32_t);
}

std::vector<std::int32_t> plan_words(const Reader& reader, const ArenaTensors& tensors,
                                     std::span<const Bytes> offsets) {
  ensure(offsets.size() == tensors.buffers.size(), "with_plan: an offset for each buffer");
  std::vector<std::int32_t> words(kPlanHeader + tensors.count, -1);
  words[0] = 1;
  words[1] = 1;
  words[2] = static_cast<std::int32_t>(tensors.count);
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    if ((offsets[i] + tensors.buffers[i].size).count() > kMaximum) reader.fail("needs an arena of 2 GiB or more");
    words[kPlanHeader + tensors.numbers[i]] = static_cast<std::int32_t>(offsets[i].count());
  }
  return words;
}

}  // namespace

bool looks_like_model(std::string_view bytes) {
  return bytes.substr(std::min<std::size_t>(4, bytes.size()), 4) == kIdentifier;
}

ArenaTensors read_arena_tensors(std::string_view bytes, const std::string& source) {
  const Reader reader(bytes, source);
  const Position model = model_of(reader, bytes);
  const Tables graphs(reader, model, model::subgraphs);
  if (graphs.size() != 1) {
    reader.fail(
        "has " + std::to_string(graphs.size()) +
        " subgraphs; versions of TFLite Micro take the first one's offsets for all, so a plan is for models of one");
  }
  if (plan_buffer(reader, model)) reader.fail("has a plan of offsets already (" + std::string(kPlan) + ")");
  const Tables tensors(reader, graphs.at(0), subgraph::tensors);
  const Tables buffers(reader, model, model::buffers);
  const std::vector<Life> lives = LifeReader(reader, graphs.at(0), tensors.size()).read();
  ArenaTensors found{.count = tensors.size()};
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Position tensor = tensors.at(i);
    const auto data = reader.number_in<std::uint32_t>(tensor, tensor::buffer);
    const std::string name = std::string(reader.text_in(tensor, tensor::name)) + "#" + std::to_string(i);
    const std::size_t constant = reader.vector_in(buffers.at(data), buffer::data, 1).length;
    if (constant > 0) expect_filled(reader, tensor, name, constant);
    const bool is_variable = reader.number_in<std::uint8_t>(tensor, tensor::is_variable) != 0;
    if (constant > 0 || is_variable || lives[i].last < 0) continue;
    found.buffers.push_back({.id = name,
                             .lifespan = {lives[i].first, lives[i].last + 1},
                             .size = size_of(reader, tensor, name),
                             .alignment = kAlignment});
    found.numbers.push_back(i);
  }
  return found;
}

std::string with_plan(std::string_view bytes, const std::string& source, const ArenaTensors& tensors,
                      std::span<const Bytes> offsets) {
  const Reader reader(bytes, source);
  const Position old = model_of(reader, bytes);
  expect_movable(reader, old);
  const std::vector<std::int32_t> plan = plan_words(reader, tensors, offsets);
  const Tables old_buffers(reader, old, model::buffers);

  Addition added;
  std::array<bool, model::count> present{};
  for (std::size_t i = 0; i < present.size(); ++i) present[i] = reader.field(old, i).has_value();
  present[model::buffers] = present[model::metadata] = true;
  const auto fields = added.put_table(present);
  added.refer(0, fields[model::version] - sizeof(std::int32_t));
  added.set(fields[model::version], kVersion);
  for (std::size_t i = model::version + 1; i < present.size(); ++i) {
    if (present[i] && i != model::buffers && i != model::metadata) {
      added.refer_to_old(fields[i], reader.target(*reader.field(old, i)));
    }
  }
  added.refer(fields[model::buffers], added.end());
  const Position buffer = put_tables(added, old_buffers);
  added.refer(fields[model::metadata], added.end());
  const Position entry = put_tables(added, Tables(reader, old, model::metadata));
  added.refer(buffer, put_plan(added, plan));
  const auto [name, number] = added.put_table<2>({true, true});
  added.refer(entry, name - sizeof(std::int32_t));
  added.set(number, static_cast<std::uint32_t>(old_buffers.size()));
  added.refer(name, added.end());
  added.put_text(kPlan);

  std::string written = added.finish(bytes);
  written.replace(4, kIdentifier.size(), kIdentifier);
  if (static_cast<std::int64_t>(written.size()) > kMaximum) reader.fail("has 2 GiB or more with its plan");
  ensure(read_plan(written, source) == std::vector<std::int32_t>(plan.begin() + kPlanHeader, plan.end()),
         "with_plan: the plan reads as it was written");
  return written;
}

std::vector<std::int32_t> read_plan(std::string_view bytes, const std::string& source) {
  const Reader reader(bytes, source);
  const Position model = model_of(reader, bytes);
  const auto number = plan_buffer(reader, model);
  if (!number) reader.fail("has no plan of offsets (" + std::string(kPlan) + ")");
  const Vector data = reader.vector_in(Tables(reader, model, model::buffers).at(*number), buffer::data, 1);
  std::vector<std::int32_t> words(data.length / sizeof(std::int32_t));
  for (std::size_t i = 0; i < words.size(); ++i) {
    words[i] = reader.number<std::int32_t>(data.first + i * sizeof(std::int32_t));
  }
  if (words.size() < kPlanHeader || std::cmp_not_equal(words[2], words.size() - kPlanHeader)) {
    reader.fail("has a plan that does not say how long it is");
  }
  return {words.begin() + kPlanHeader, words.end()};
}

}  // namespace remora::tflite
