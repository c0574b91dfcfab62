// SPDX-License-Identifier: Apache-2.0
#include "frontends/tflite/arena.hpp"

#include <cstdint>
#include <cstring>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/placement/place.hpp"
#include "frontends/formats/file.hpp"
#include "frontends/tflite/flatbuffer.hpp"
#include "model/error.hpp"
#include "model/placement.hpp"
#include "tests/support/fewer.hpp"

namespace remora::tflite {
namespace {

/// Two dense layers with a skip, twice, in 8-bit integers; tests/edge/tflite_models.py made it.
std::string sample() {
  return json::read_file(REMORA_SOURCE_DIR "/tests/data/tflite/mlp.tflite");
}

/// The model with a plan, every tensor at the end of the one before it; nothing where it is refused.
std::optional<std::string> piled_up(const std::string& bytes) {
  try {
    const ArenaTensors tensors = read_arena_tensors(bytes, "m.tflite");
    std::vector<Bytes> offsets;
    Bytes end{};
    for (const Buffer& buffer : tensors.buffers) {
      offsets.push_back(end);
      end += buffer.size;
    }
    const std::string planned = with_plan(bytes, "m.tflite", tensors, offsets);
    EXPECT_EQ(read_plan(planned, "m.tflite").size(), tensors.count);
    return planned;
  } catch (const InputError& error) {
    EXPECT_EQ(error.place(), "m.tflite");
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return {};
  }
}

TEST(Tflite, LivesAreThoseOfTheRuntime) {
  const ArenaTensors tensors = read_arena_tensors(sample(), "m.tflite");
  // x; y = dense(x); twice y = y + dense(dense(y)); dense(y): eight ops, and each tensor by hand.
  const std::vector<std::pair<std::string, Lifespan>> expected{
      {"t0#0", {0, 2}},   {"t3#3", {1, 5}},   {"t5#5", {2, 4}},   {"t8#8", {3, 5}},  {"t9#9", {4, 8}},
      {"t11#11", {5, 7}}, {"t14#14", {6, 8}}, {"t15#15", {7, 9}}, {"t18#18", {8, 9}}};
  ASSERT_EQ(tensors.buffers.size(), expected.size());
  EXPECT_EQ(tensors.count, 19U);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(tensors.buffers[i].id, expected[i].first);
    EXPECT_EQ(tensors.buffers[i].lifespan, expected[i].second) << expected[i].first;
    EXPECT_EQ(tensors.buffers[i].alignment, kAlignment);
  }
  EXPECT_EQ(tensors.buffers[0].size, Bytes(16));
  EXPECT_EQ(tensors.buffers[1].size, Bytes(32));
  EXPECT_EQ(tensors.buffers[2].size, Bytes(16)) << "8 bytes, rounded up as the runtime does";
}

TEST(Tflite, APlanReadsAsItWasWrittenAndTheRestFollows) {
  const std::string bytes = sample();
  const ArenaTensors tensors = read_arena_tensors(bytes, "m.tflite");
  const PlaceResult placed = place(tensors.buffers, {}, [] { return false; });
  ASSERT_EQ(placed.status, PlacementStatus::optimal);
  const std::string planned = with_plan(bytes, "m.tflite", tensors, placed.offsets);
  EXPECT_EQ(planned.substr(planned.size() - (bytes.size() - 8)), bytes.substr(8));
  EXPECT_EQ((planned.size() - bytes.size()) % 64, 0U) << "alignments inside the model stay";
  std::vector<std::int32_t> expected(tensors.count, -1);
  for (std::size_t i = 0; i < placed.offsets.size(); ++i) {
    expected[tensors.numbers[i]] = static_cast<std::int32_t>(placed.offsets[i].count());
  }
  EXPECT_EQ(read_plan(planned, "p.tflite"), expected);
  EXPECT_THROW(read_plan(bytes, "m.tflite"), InputError);
  EXPECT_THROW(read_arena_tensors(planned, "p.tflite"), InputError) << "it has a plan";
}

TEST(Tflite, WhatIsCutShortIsRefused) {
  const std::string bytes = sample();
  std::size_t taken = 0;
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    taken += piled_up(bytes.substr(0, length)) ? 1 : 0;
  }
  // The last bytes may be those of a weight or of a name, which nobody reads.
  EXPECT_LT(taken, bytes.size() / 2);
  EXPECT_FALSE(piled_up(bytes.substr(0, 64)));
  EXPECT_TRUE(piled_up(bytes));
}

/// The error for the sample with another number at a position.
template <class Number>
std::string error_with(std::size_t at, Number value) {
  std::string bytes = sample();
  std::memcpy(bytes.data() + at, &value, sizeof(Number));
  try {
    read_arena_tensors(bytes, "m.tflite");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(Tflite, WhatTheRuntimesVerifierRejectsIsRefusedWithItsPlace) {
  // Where things lie in the sample: Reader follows its references.
  const std::string bytes = sample();
  const flatbuffer::Reader reader(bytes, "m.tflite");
  const auto follow = [&](std::size_t table, std::size_t field) { return reader.target(*reader.field(table, field)); };
  const std::size_t model = reader.target(0);
  const std::size_t graph = reader.target(follow(model, 2) + 4);
  const std::size_t tensor = reader.target(follow(graph, 0) + 4);
  const std::size_t op = reader.target(follow(graph, 3) + 4);
  const std::size_t quantization = follow(tensor, 4);

  const std::string damaged = ": cut short or damaged";
  EXPECT_EQ(error_with<std::uint8_t>(4230, 0x7F),
            "m.tflite: model.subgraphs[0].tensors[2].shape lies beyond the end of the file" + damaged);
  const std::string tensors = "m.tflite: model.subgraphs[0].tensors[0]";
  const std::size_t name = follow(tensor, 3);
  EXPECT_EQ(error_with<char>(name + 4 + reader.number<std::uint32_t>(name), 'x'),
            tensors + ".name has no zero byte at its end" + damaged);
  EXPECT_EQ(error_with<std::uint32_t>(follow(quantization, 3), 0x10000),
            tensors + ".quantization.zero_point lies beyond the end of the file" + damaged);
  EXPECT_EQ(error_with<std::uint32_t>(*reader.field(op, 4), 0),
            "m.tflite: model.subgraphs[0].operators[0].builtin_options refers to itself" + damaged);
  EXPECT_EQ(
      error_with<std::uint32_t>(*reader.field(tensor, 3), reader.number<std::uint32_t>(*reader.field(tensor, 3)) + 1),
      tensors + ".name is not aligned to 4 bytes" + damaged);
  EXPECT_EQ(error_with<std::int32_t>(quantization, 0x7FFFFFF0),
            tensors + ".quantization refers to bytes before the beginning of the file" + damaged);
}

TEST(Tflite, AConstantHasItsElements) {
  const std::string bytes = sample();
  const flatbuffer::Reader reader(bytes, "m.tflite");
  const auto follow = [&](std::size_t table, std::size_t field) { return reader.target(*reader.field(table, field)); };
  const std::size_t graph = reader.target(follow(reader.target(0), 2) + 4);
  const std::size_t weights = reader.target(follow(graph, 0) + 4 + 4);
  const std::size_t shape = follow(weights, 0) + 4;
  EXPECT_EQ(error_with<std::int32_t>(shape, 1000),
            "m.tflite: tensor t1#1 is a constant of 16000 bytes, and its buffer has 512");
  EXPECT_EQ(error_with<std::int32_t>(shape, -1), "m.tflite: tensor t1#1 has a dimension of -1");
}

TEST(Tflite, MutatedModelsAreReadOrRefused) {
  const std::string bytes = sample();
  std::mt19937_64 random(7);
  std::size_t refused = 0;
  const int cases = remora::test::fewer(40'000);
  for (int i = 0; i < cases; ++i) {
    std::string mutated = bytes;
    const auto changes = 1 + random() % 4;
    for (std::uint64_t k = 0; k < changes; ++k) {
      const auto at = random() % (mutated.size() - sizeof(std::uint32_t));
      // A byte; or a word, as references and lengths are: small, huge, or back where it came from.
      const std::uint32_t words[] = {static_cast<std::uint32_t>(random()),      0xFFFFFFFFU, 0x7FFFFFFFU, 0, 4,
                                     static_cast<std::uint32_t>(mutated.size())};
      if (random() % 2 == 0) {
        mutated[at] = static_cast<char>(random());
      } else {
        std::memcpy(mutated.data() + at / 4 * 4, &words[random() % std::size(words)], sizeof(std::uint32_t));
      }
    }
    refused += piled_up(mutated) ? 0 : 1;
  }
  EXPECT_GT(refused, 0U);
  EXPECT_LT(refused, static_cast<std::size_t>(cases));
}

TEST(Tflite, OtherFilesAreRefused) {
  for (const std::string bytes :
       {"", "TFL3", "id,lower,upper,size\n", "\x08\0\0\0TFL2 and more bytes", "\0\0\0\0TFL3"}) {
    EXPECT_FALSE(piled_up(bytes)) << bytes;
  }
}

}  // namespace
}  // namespace remora::tflite
