// SPDX-License-Identifier: Apache-2.0
//
// Values that the gradient of each op type really reads.
//
// A rule lists, for each differentiable input of an op, which of the op's inputs and outputs the formula of that
// input's gradient mentions, beside the gradients of the op's outputs, which it always reads. With y = a * b:
//
//     grad a = grad y * b        {.of = 0, .inputs = {1}}
//     grad b = grad y * a        {.of = 1, .inputs = {0}}
//
// so a network that needs grad a alone never keeps a. Shapes are known and cost nothing to remember: the gradient of a
// broadcast operand, of a mean or of a slice reads no tensor for its shape. An input that no operand rule covers gets
// no gradient (indices, target shapes, running statistics); a rule without operands stops gradients (ArgMax, Round).
//
// Where a derivative can be written with the input or with the output, the rule takes the output: for activation
// functions it is the one that the next op reads anyway.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/onnx/model/network.hpp"

namespace remora::onnx_frontend {

/// Positions in a node's list of inputs or outputs, from 0.
using Positions = std::vector<std::size_t>;

/// In `OperandRule::of`: every input that has no rule of its own. In its `inputs` or `outputs`: all of them.
inline constexpr std::size_t kEvery = std::numeric_limits<std::size_t>::max();
/// In `OperandRule::inputs`: every input but the operand itself.
inline constexpr std::size_t kOthers = kEvery - 1;

/// The gradient of one input: what its formula reads. Positions that a node doesn't have are ignored, so a rule may
/// name an optional output (the saved statistics of a normalization) that is read only where it is there.
struct OperandRule {
  std::size_t of = 0;
  Positions inputs{};
  Positions outputs{};
};

struct Rule {
  /// At most one for an input; empty if no gradient flows through the op.
  std::vector<OperandRule> operands{};
  /// Outputs from this position on carry no gradient (running statistics).
  std::size_t differentiable_outputs = kEvery;
  /// The position of an output that the forward op must save for its backward, one byte an element of output 0: the
  /// mask of a Dropout. It is added where the network has dropped it.
  std::optional<std::size_t> mask{};
};

/// The positions, ascending and without repetition, that a backward node reads.
struct Reads {
  Positions inputs{};
  Positions outputs{};

  friend bool operator==(const Reads&, const Reads&) = default;
};

/// The rule of the gradient of input `position`, or null if that input gets none.
const OperandRule* find_operand(const Rule& rule, std::size_t position);

/// Values that the gradients of the inputs `wanted` read together. Each of `wanted` must have an operand rule.
Reads reads_of(const Rule& rule, const Node& node, std::span<const std::size_t> wanted);

/// The rules by domain and op type. Plain data: built once a network, read without synchronization.
class RuleTable {
 public:
  /// A rule that depends on a node's attributes or on which optional outputs it has.
  using Maker = Rule (*)(const Node& node);

  /// All the rules of training_rules.cpp.
  static RuleTable standard();

  /// The rule of unknown ops, and of recurrent ones: every input gets a gradient that reads all inputs and outputs.
  static Rule conservative();

  [[nodiscard]] bool knows(const Node& node) const;

  /// The node's rule; the conservative one if the table doesn't know its type.
  [[nodiscard]] Rule rule(const Node& node) const;

  void add(std::initializer_list<std::string_view> types, const Rule& rule, std::string_view domain = "");
  void add(std::initializer_list<std::string_view> types, Maker maker, std::string_view domain = "");

 private:
  struct Entry {
    Rule rule{};
    Maker maker = nullptr;
  };

  [[nodiscard]] const Entry* find(const Node& node) const;
  void insert(std::initializer_list<std::string_view> types, std::string_view domain, const Entry& entry);

  std::map<std::string, Entry, std::less<>> entries_{};
};

/// One family each.
void add_layer_rules(RuleTable& table);
void add_normalization_rules(RuleTable& table);
void add_pointwise_rules(RuleTable& table);
void add_movement_rules(RuleTable& table);
void add_reduction_rules(RuleTable& table);
void add_stopping_rules(RuleTable& table);

}  // namespace remora::onnx_frontend
