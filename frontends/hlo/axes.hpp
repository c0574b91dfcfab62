// SPDX-License-Identifier: Apache-2.0
//
// The axes of an instruction of which HLO has the slices: the same instruction on a part of one dimension of its arrays
// (docs/design/slices.md).
//
//     fusion: s[n] = reduce(exp(x[n, m] - broadcast(b[n])), add)     n: rows of x, b and s
//                                                                    m: columns of x, and s is a sum of terms
//
// Dimensions over which the same loop runs are joined, through all instructions of a fusion. A loop is an axis if no
// instruction refuses it, no array has it in two dimensions, and what is summed over it is only scaled and added from
// there on. An instruction without a rule refuses all its loops.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/hlo/module.hpp"
#include "model/axes.hpp"

namespace remora::hlo {

/// The part of an array that a range of iterations has.
struct ArrayPart {
  enum class Kind { whole, rows, term };

  Kind kind = Kind::whole;
  /// The dimension that is cut, and the rows of an iteration.
  std::size_t dim = 0;
  std::int64_t step = 1;

  [[nodiscard]] bool is_cut() const { return kind == Kind::rows; }
  [[nodiscard]] Range rows_of(Range iterations) const { return {iterations.begin * step, iterations.end * step}; }
  friend bool operator==(const ArrayPart&, const ArrayPart&) = default;
};

struct InstructionAxis {
  std::int64_t extent = 1;
  /// By operand, and by array of the result, none of which is whole.
  std::vector<ArrayPart> operands{};
  std::vector<ArrayPart> results{};
  /// By instruction of the computation that a fusion calls.
  std::vector<ArrayPart> inside{};
};

/// The axes of instruction i of a computation, of two iterations or more. Throws InputError for damaged messages.
std::vector<InstructionAxis> axes_of(const Module& module, std::size_t computation, std::size_t i);

/// The shapes of the arrays of a result, as messages: of a tuple its parts.
std::vector<std::string> array_shapes(const Instruction& instruction);

}  // namespace remora::hlo
