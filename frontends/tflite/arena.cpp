// SPDX-License-Identifier: Apache-2.0
#include "frontends/tflite/arena.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "frontends/tflite/addition.hpp"
#include "frontends/tflite/model.hpp"
#include "model/error.hpp"

namespace remora::tflite {
namespace {

using flatbuffer::Position;
using flatbuffer::Reader;
using flatbuffer::Vector;

constexpr std::string_view kPlan = "OfflineMemoryAllocation";
/// version, subgraphs, tensors; then the offsets.
constexpr std::size_t kPlanHeader = 3;

/// The plan among the metadata, as the number of its buffer.
std::optional<std::uint32_t> plan_buffer(const Reader& reader, Position model) {
  const Tables all(reader, model, field::model::metadata);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (reader.text_in(all.at(i), field::metadata::name) == kPlan) {
      return reader.number_in<std::uint32_t>(all.at(i), field::metadata::buffer);
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
  explicit LifeReader(const Model& model)
      : model_(model), lives_(model.tensors.size()), written_(model.tensors.size()) {}

  std::vector<Life> read() {
    for (const std::int32_t i : model_.inputs) write(i, 0);
    std::int64_t scope = 0;
    for (const Operator& op : model_.operators) {
      ++scope;
      for (const std::int32_t i : op.outputs) write(i, scope);
      for (const std::int32_t i : op.inputs) use(i, scope);
    }
    for (const std::int32_t i : model_.outputs) use(i, scope);
    return std::move(lives_);
  }

 private:
  void write(std::int32_t i, std::int64_t scope) {
    if (i < 0) return;
    written_[at(i)] = true;
    lives_[at(i)].add(scope);
  }
  /// A tensor that no operator writes is resident from the beginning.
  void use(std::int32_t i, std::int64_t scope) {
    if (i < 0) return;
    if (!written_[at(i)]) lives_[at(i)].add(0);
    lives_[at(i)].add(scope);
  }

  const Model& model_;
  std::vector<Life> lives_;
  std::vector<bool> written_;
};

/// Rounded up to the alignment.
Bytes size_of(const Model& model, std::int32_t tensor) {
  const std::optional<std::int64_t> size = model.bytes(tensor);
  if (!size) {
    model.reader.fail("tensor " + model.name(tensor) + " is of type " + std::to_string(model.tensor(tensor).type) +
                      ", whose elements have no known size");
  }
  return Bytes((*size + kAlignment.count() - 1) / kAlignment.count() * kAlignment.count());
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

ArenaTensors read_arena_tensors(std::string_view bytes, const std::string& source) {
  const Model model = read_model(bytes, source);
  if (plan_buffer(model.reader, model.table)) {
    model.reader.fail("has a plan of offsets already (" + std::string(kPlan) + ")");
  }
  const std::vector<Life> lives = LifeReader(model).read();
  ArenaTensors found{.count = model.tensors.size()};
  for (std::size_t i = 0; i < model.tensors.size(); ++i) {
    if (!model.tensors[i].is_activation() || lives[i].last < 0) continue;
    const auto number = static_cast<std::int32_t>(i);
    found.buffers.push_back({.id = model.name(number),
                             .lifespan = {lives[i].first, lives[i].last + 1},
                             .size = size_of(model, number),
                             .alignment = kAlignment});
    found.numbers.push_back(i);
  }
  return found;
}

std::string with_plan(std::string_view bytes, const std::string& source, const ArenaTensors& tensors,
                      std::span<const Bytes> offsets) {
  const Model model = read_model(bytes, source);
  const Reader& reader = model.reader;
  expect_movable(model);
  const std::vector<std::int32_t> plan = plan_words(reader, tensors, offsets);
  const Tables old_buffers(reader, model.table, field::model::buffers);

  Addition added;
  auto fields = put_model(added, model, {field::model::buffers, field::model::metadata});
  added.refer(fields[field::model::buffers], added.end());
  const Position buffer = put_tables(added, old_buffers, 1).front();
  added.refer(fields[field::model::metadata], added.end());
  const Position entry = put_tables(added, Tables(reader, model.table, field::model::metadata), 1).front();
  added.refer(buffer, added.put_buffer(plan));
  const auto [table, entries] = added.put_table<2>({true, true});
  added.refer(entry, table);
  added.set(entries[field::metadata::buffer], static_cast<std::uint32_t>(old_buffers.size()));
  added.refer(entries[field::metadata::name], added.end());
  added.put_text(kPlan);

  std::string written = added.finish(bytes);
  if (static_cast<std::int64_t>(written.size()) > kMaximum) reader.fail("has 2 GiB or more with its plan");
  ensure(read_plan(written, source) == std::vector<std::int32_t>(plan.begin() + kPlanHeader, plan.end()),
         "with_plan: the plan reads as it was written");
  return written;
}

std::vector<std::int32_t> read_plan(std::string_view bytes, const std::string& source) {
  const Model model = read_model(bytes, source);
  const Reader& reader = model.reader;
  const auto number = plan_buffer(reader, model.table);
  if (!number) reader.fail("has no plan of offsets (" + std::string(kPlan) + ")");
  const Tables buffers(reader, model.table, field::model::buffers);
  const Vector data = reader.vector_in(buffers.at(*number), field::buffer::data, 1);
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
