// SPDX-License-Identifier: Apache-2.0
//
// An HLO module (XLA's HloModuleProto, xla/service/hlo.proto) as plain data: what scheduling needs to know of each instruction, and its
// bytes, from which it is written again with every field that is not known here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/error.hpp"
#include "model/types.hpp"

namespace remora::hlo {

/// An array, a tuple, or what has no memory of its own (token, opaque).
struct Shape {
  bool tuple = false;
  /// XLA's number of the element type.
  int type = 0;
  std::vector<std::int64_t> dimensions{};
  /// A dimension may have fewer entries.
  bool is_dynamic = false;
  /// Size of an array, as XLA counts it for the CPU: elements times their bytes, and the sizes of dimensions that are
  /// not fixed. 0 for
  /// tokens.
  Bytes size{};
  /// Elements of a tuple.
  std::vector<Shape> parts{};

  /// Arrays and tokens in it, in depth-first order.
  [[nodiscard]] std::size_t leaves() const;
};

/// An instruction: everything but `bytes` is read from them, and numbers of instructions and computations are places in the vectors
/// that hold them.
struct Instruction {
  std::string name{};
  std::string opcode{};
  Shape shape{};
  std::int64_t id = 0;
  std::vector<std::size_t> operands{};
  std::vector<std::size_t> control_predecessors{};
  std::vector<std::size_t> called{};
  std::int64_t parameter_number = 0;
  std::int64_t tuple_index = 0;
  bool has_side_effect = false;
  std::string target{};
  /// For dot: the dimensions of the first operand that are summed over.
  std::vector<std::int64_t> contracting{};
  /// Elements of the window; of a convolution also which dimension of the kernel is the output's features.
  std::int64_t window = 1;
  std::optional<std::int64_t> kernel_output_dimension{};
  /// How often a while loop runs, where XLA knows it.
  std::int64_t trips = 1;
  /// Value of a constant that is one integer or truth value.
  std::optional<std::int64_t> literal{};
  /// For compare: LT, GE, ...
  std::string comparison{};
  /// An array of the output that lies in one of an operand, as the instruction says.
  struct Alias {
    std::vector<std::int64_t> output{};
    std::int64_t operand = 0;
    std::vector<std::int64_t> operand_index{};
  };
  std::vector<Alias> aliases{};
  std::string_view bytes{};
};

/// A part of an instruction that every sound module has there; InputError for others.
template <class T>
const T& part_of(const std::vector<T>& parts, std::size_t place) {
  if (place >= parts.size())
    throw InputError("",
                     "is not understood as an HLO module: an instruction lacks an operand, a part or what it calls");
  return parts[place];
}

struct Computation {
  std::string name{};
  std::int64_t id = 0;
  std::vector<Instruction> instructions{};
  std::size_t root = 0;
  bool is_fusion = false;
  /// The order in which the instructions run: the schedule's, or that of the file where there is none.
  std::vector<std::size_t> order{};
  bool scheduled = false;
  std::string_view bytes{};
};

/// An output of the entry computation that lies in a parameter.
struct Donation {
  std::vector<std::int64_t> output{};
  std::int64_t parameter = 0;
  std::vector<std::int64_t> parameter_index{};
};

struct Module {
  std::string name{};
  std::vector<Computation> computations{};
  std::size_t entry = 0;
  std::vector<Donation> donations{};
};

/// Advice on the file to give in place of modules that are not scheduled or not in binary form.
constexpr const char* kWhatToGive =
    "give the scheduled module, *after_optimizations.hlo.pb, which a program with "
    "XLA_FLAGS=\"--xla_dump_to=DIR --xla_dump_hlo_as_proto\" writes";

/// True if the file is a serialized HloModuleProto, or an HloProto, as XLA dumps modules; or a module as text, of which `module_bytes`
/// says what to give instead. Never throws.
bool looks_like_module(std::string_view file);

/// The serialized HloModuleProto of a file. Throws InputError for text. What is no module stays as it is.
std::string module_bytes(std::string file);

/// Reads a module, whose views refer to `bytes`. Throws InputError that names `source` for what is not understood, refers to what is not
/// there, or calls itself, and for sizes that are not known. O(size).
Module read_module(std::string_view bytes, const std::string& source);

/// A computation as it is written.
struct WrittenComputation {
  /// An instruction of `source`, with ids in place of what the file has.
  struct Copy {
    std::size_t instruction = 0;
    std::string name{};
    std::int64_t id = 0;
    std::vector<std::int64_t> operands{};
    std::vector<std::int64_t> control_predecessors{};
    std::vector<std::int64_t> called{};
    /// Its fields without name and ids, where they are not those of the instruction.
    std::optional<std::string> fields{};
  };
  /// The computation of the module from which all but instructions, name and ids is taken.
  std::size_t source = 0;
  /// The computation of the module in whose place this one is written, or before which.
  std::size_t place = 0;
  bool replaces = false;
  std::string name{};
  std::int64_t id = 0;
  /// In the order in which they run.
  std::vector<Copy> copies{};
  std::int64_t root_id = 0;
};

/// A field of a message, the last one if there are several; empty if there is none.
std::string_view field_of(std::string_view message, std::uint64_t field);

/// The numbers of a repeated field, in their order, and the messages of one.
std::vector<std::int64_t> numbers_of(std::string_view message, std::uint64_t field);
std::vector<std::string_view> messages_of(std::string_view message, std::uint64_t field);
/// A field that is one number; 0 if there is none, as in protobuf.
std::int64_t number_of(std::string_view message, std::uint64_t field);

/// The instruction's fields without name and ids, and without those of `left_out`.
std::string fields_of(const Instruction& instruction, std::initializer_list<std::uint64_t> left_out = {});

/// The line of the program that the instruction comes from, as "file:line", of a fusion without one that of its last instruction with one;
/// empty where the module does not say. `bytes`: those of the module.
std::string source_line(std::string_view bytes, const Module& module, const Instruction& instruction);

/// The scopes of the program that the instruction comes from, such as "jit(f)/while/body/tanh"; empty where the module does not say.
std::string_view scope_of(const Instruction& instruction);

/// The bytes of the module with these computations, in the order given; all else stays as it is.
std::string write_module(std::string_view bytes, const Module& module, std::span<const WrittenComputation> written);

}  // namespace remora::hlo
