// SPDX-License-Identifier: Apache-2.0
//
// The loops over the dimensions of instructions that belong together: of a fusion those inside, otherwise the
// instruction and its operands.
//
//     y = dot(x, w)     x [n, k], w [k, m], y [n, m]: a loop n, a loop m, and a loop k over which y is a sum
//
// Each opcode has a rule that joins the dimensions of its result and its operands over which the same loop runs, and
// rejects loops of which there are no slices: dimensions that inputs follow each other in, windows, positions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "frontends/hlo/module.hpp"

namespace remora::hlo {

struct Node {
  const Instruction* said = nullptr;
  /// "parameter" for an operand of the instruction.
  std::string_view opcode{};
  std::vector<std::size_t> operands{};
  /// The constant that it is, or for which it stands.
  const Instruction* constant = nullptr;
};

class DimLoops {
 public:
  /// `nodes`, each behind its operands, and `module` must outlive the object. Throws InputError for damaged messages.
  DimLoops(const std::vector<Node>& nodes, const Module& module);

  [[nodiscard]] std::size_t rank(std::size_t n) const { return nodes_[n].said->shape.dimensions.size(); }
  [[nodiscard]] std::int64_t extent(std::size_t n, std::size_t dim) const { return extents_[first_[n] + dim]; }
  [[nodiscard]] std::size_t loop(std::size_t n, std::size_t dim) const { return root(first_[n] + dim); }
  /// True if the node is a sum over this dimension of its operand.
  [[nodiscard]] bool sums(std::size_t n, std::size_t operand, std::size_t dim) const;
  /// All loops that are not refused, with the extents of their dimensions.
  [[nodiscard]] std::map<std::size_t, std::vector<std::int64_t>> all() const;

 private:
  using Rule = bool (DimLoops::*)(std::size_t);
  static const std::map<std::string_view, Rule>& rules();

  [[nodiscard]] std::size_t root(std::size_t k) const;
  void add(std::size_t n);
  void refuse(std::size_t n, std::size_t dim) { refused_[first_[n] + dim] = true; }
  void refuse_all(std::size_t n);
  void join(std::size_t n, std::size_t dim, std::size_t m, std::size_t other);
  /// Joins them if they are there and of the same extent.
  [[nodiscard]] bool join_same(std::size_t n, std::int64_t dim, std::size_t m, std::int64_t other);
  [[nodiscard]] bool has(std::size_t n, std::int64_t dim) const {
    return dim >= 0 && static_cast<std::size_t>(dim) < rank(n);
  }
  [[nodiscard]] std::vector<std::int64_t> numbers(std::size_t n, std::uint64_t field) const {
    return numbers_of(nodes_[n].said->bytes, field);
  }
  [[nodiscard]] std::optional<std::vector<std::size_t>> ordered(std::size_t n, bool in_memory) const;
  template <class Kept>
  bool kept_dimensions(std::size_t n, std::size_t said, const Kept& is_kept);

  // Rules: false where the message is not what the rule is for.

  bool same_dimensions(std::size_t n);
  bool constant(std::size_t n);
  bool iota(std::size_t n);
  bool broadcast(std::size_t n);
  bool transpose(std::size_t n);
  bool reduce(std::size_t n);
  bool dot(std::size_t n);
  bool convolution(std::size_t n);
  bool concatenate(std::size_t n);
  bool slice(std::size_t n);
  bool pad(std::size_t n);
  bool reverse(std::size_t n);
  bool reduce_window(std::size_t n);
  bool reshape(std::size_t n);

  const std::vector<Node>& nodes_;
  const Module& module_;
  std::vector<std::size_t> first_{};
  std::vector<std::int64_t> extents_{};
  mutable std::vector<std::size_t> parents_{};
  std::vector<bool> refused_{};
  /// By node: operands and dimensions over which it sums.
  std::vector<std::vector<std::pair<std::size_t, std::size_t>>> summed_{};
};

/// The size of an element, in bytes; 0 where it is not whole, and for arrays of no or of varying size.
std::int64_t element_bytes(const Shape& array);

/// Dimensions from the outermost in memory to the innermost. Empty where the layout is none.
std::vector<std::size_t> major_to_minor(std::string_view shape);

}  // namespace remora::hlo
