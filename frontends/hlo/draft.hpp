// SPDX-License-Identifier: Apache-2.0
//
// A computation that is written anew: its instructions as they are, some of them changed, and others that XLA did not have there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/hlo/copies.hpp"
#include "frontends/hlo/message_fields.hpp"
#include "frontends/hlo/module.hpp"

namespace remora::hlo {

/// The shape of an array, with the order of its dimensions in memory, as a message (ShapeProto).
struct ArrayShape {
  int type = 0;
  std::vector<std::int64_t> dimensions{};
  std::vector<std::int64_t> minor_to_major{};

  explicit ArrayShape(std::string_view bytes);
  /// With another dimension, of n, before the others.
  [[nodiscard]] ArrayShape stacked(std::int64_t n) const;
  [[nodiscard]] std::string bytes() const;

  friend bool operator==(const ArrayShape&, const ArrayShape&) = default;
};

/// The shape of an instruction, and that of a part of a tuple, as messages.
std::string_view shape_of(const Instruction& instruction);
std::vector<std::string> parts_of(std::string_view tuple);
std::string tuple_of(const std::vector<std::string>& parts);

/// Fields of an instruction that is new: what it is, and its shape.
std::string new_fields(std::string_view opcode, std::string_view shape);
/// A constant of that number, of any numeric type of at most 8 bytes; none for others.
std::optional<std::string> constant_fields(const ArrayShape& scalar, std::int64_t number);

class Draft {
 public:
  using Copy = WrittenComputation::Copy;

  Draft(const Module& module, Copies& copies, std::size_t computation);

  /// The instruction as it is, with its name and id.
  [[nodiscard]] Copy as_is(std::size_t instruction) const;
  void put(Copy copy) { written_.copies.push_back(std::move(copy)); }
  void keep(std::size_t instruction) { put(as_is(instruction)); }
  /// One that is new, behind all that is there; its id.
  std::int64_t add(const std::string& name, std::string fields, std::vector<std::int64_t> operands,
                   std::vector<std::int64_t> called = {});
  [[nodiscard]] std::int64_t id_of(std::size_t instruction) const { return source_.instructions[instruction].id; }
  /// Text of the instructions, after those of `others` in the same computation, without instructions that nothing
  /// needs.
  WrittenComputation behind(const std::vector<const Draft*>& others = {});

 private:
  void prune();

  const Module& module_;
  Copies& copies_;
  const Computation& source_;
  WrittenComputation written_;
};

/// A computation that a fusion calls, with another root, and with some instructions taken for others.
struct FusedVariant {
  std::size_t computation = 0;
  std::size_t root = 0;
  std::map<std::size_t, std::size_t> instead{};
  /// By parameter's instruction.
  std::map<std::size_t, std::string> shapes{};
};

/// Adds it before the computation `place`. Gives its id, and numbers of the parameters that it still has, in their order.
std::pair<std::int64_t, std::vector<std::size_t>> add_variant(const Module& module, Copies& copies,
                                                              const FusedVariant& variant, std::size_t place);

}  // namespace remora::hlo
