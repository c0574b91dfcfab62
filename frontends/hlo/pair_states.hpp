// SPDX-License-Identifier: Apache-2.0
//
// What a pair of loops carries once it is written anew. Leaves of the two states are numbered anew: those that stay,
// in their order, then stacks that are new, and in B what it needs of F to compute again:
//
//     F's state   its leaves without stacks that go  | new stacks
//     B's state   its leaves without stacks that go  | new stacks | leaves of F's state that B reads
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/hlo/draft.hpp"
#include "frontends/hlo/loops.hpp"
#include "frontends/hlo/repeat.hpp"

namespace remora::hlo {

/// Leaves of a state, by their old numbers and as they are written.
struct State {
  std::vector<std::optional<std::size_t>> numbers{};
  std::vector<std::string> shapes{};
};

/// A stack that XLA did not have.
struct NewStack {
  Origin value{};
  ArrayShape slice;
  ArrayShape shape;
  std::size_t forward_leaf = 0;
  std::size_t backward_leaf = 0;
};

struct PairStates {
  PairStates(const LoweredModule& lowered, const LoopPair& pair, std::span<const TensorId> saved,
             std::size_t slot_count);

  [[noreturn]] void cannot(const std::string& why) const;
  [[nodiscard]] const Instruction& at(std::size_t c, std::size_t i) const;
  void choose_stacks();
  [[nodiscard]] State state_of(const Loop& loop) const;
  void add_stack(const Origin& value);
  /// The shape of a value in F's body.
  [[nodiscard]] std::string value_shape(const Origin& value) const;
  [[nodiscard]] const Stack& stack_of(const Origin& update) const;
  /// The parameter of a body or condition, and its elements.
  Draft state_in(std::size_t c, const State& state);
  [[nodiscard]] Slots slots() const;

  const Module& module;
  Dataflow dataflow;
  const LoopPair& pair;
  /// Iterations of which the carried values are saved, and nothing else; 0: what is saved is saved in all iterations.
  std::size_t slot_count;
  Copies copies;
  const Computation& forward;
  const Computation& backward;
  std::set<Origin> saved{};
  /// By leaf of F's state.
  std::map<std::size_t, const Stack*> dropped{};
  /// Stacks of XLA's that stay, by what is in them.
  std::map<Origin, const Stack*> holders{};
  std::vector<NewStack> added{};
  State forward_state{};
  State backward_state{};
  /// By leaf of F's state: that of B's.
  std::map<std::size_t, std::size_t> invariants{};
};

std::size_t parameter_in(const Computation& computation);
std::string element_fields(std::string_view shape, std::size_t leaf);
bool is_element(const Computation& computation, std::size_t i, std::size_t parameter);
void keep_element(Draft& draft, const Computation& computation, std::size_t i, const State& state);
std::string with_shape(const Instruction& instruction, const State& state);
std::vector<std::int64_t> state_operands(const Instruction& tuple, const State& state, const Computation& computation);

/// B's body, which computes again what is not saved. Stacks and leaves that it needs are added to the states.
WrittenComputation write_backward(PairStates& states);

}  // namespace remora::hlo
