// SPDX-License-Identifier: Apache-2.0
//
// Loops whose integers are known: what counts iterations and says where a slice begins is computed for every iteration.
//
//     while (i = 0, x, ..)   condition: i < 12   body: (i + 1, ..)        12 iterations, i = 0 .. 11; 11 - i is 11 .. 0
//
// So that two loops belong together is checked number by number, whatever XLA has made of the expressions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "frontends/hlo/module.hpp"

namespace remora::hlo {

/// Loops of more iterations are not followed.
constexpr std::size_t kMaxIterations = 4096;

using Number = std::optional<std::int64_t>;

/// One run of a computation, with what is known of its parameters.
struct Frame {
  std::size_t computation = 0;
  /// For a body or condition: the loop's state, by leaf.
  const std::vector<Number>* state = nullptr;
  /// For a fusion or call: the frame and the instruction that calls it.
  const Frame* caller = nullptr;
  std::size_t call = 0;
  mutable std::map<std::pair<std::size_t, std::size_t>, Number> known{};
};

/// The integer that part `leaf` of the instruction is in this run, if it is one and known.
Number number_of(const Module& module, const Frame& frame, std::size_t instruction, std::size_t leaf = 0);

/// A while loop in a computation.
struct Loop {
  std::size_t computation = 0;
  std::size_t instruction = 0;
  std::size_t body = 0;
  std::size_t condition = 0;
  /// The state at the beginning of each iteration, by leaf.
  std::vector<std::vector<Number>> states{};

  [[nodiscard]] std::size_t trips() const { return states.size(); }
  /// One leaf, or an instruction of the body, in all iterations; empty unless all of them are known.
  [[nodiscard]] std::vector<std::int64_t> leaf(std::size_t leaf) const;
};

/// The loop with its states; none where the number of iterations is not known, or the state is no tuple of arrays.
std::optional<Loop> counted_loop(const Module& module, std::size_t computation, std::size_t instruction);

}  // namespace remora::hlo
