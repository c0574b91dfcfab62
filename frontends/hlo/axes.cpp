// SPDX-License-Identifier: Apache-2.0
#include "frontends/hlo/axes.hpp"

#include <algorithm>
#include <optional>
#include <set>

#include "frontends/hlo/dataflow.hpp"
#include "frontends/hlo/dim_loops.hpp"
#include "frontends/hlo/draft.hpp"
#include "frontends/hlo/message_fields.hpp"

namespace remora::hlo {
namespace {

/// Parts of all nodes along a loop; none where it is no axis.
class Labels {
 public:
  Labels(const std::vector<Node>& nodes, const DimLoops& loops, std::size_t loop, std::int64_t extent)
      : nodes_(nodes), loops_(loops), loop_(loop), extent_(extent) {}

  std::optional<std::vector<ArrayPart>> run() {
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
      if (nodes_[n].opcode == "tuple") {
        parts_.emplace_back();
        continue;
      }
      const auto part = part_of(n);
      if (!part) return std::nullopt;
      parts_.push_back(*part);
    }
    return std::move(parts_);
  }

 private:
  using Kind = ArrayPart::Kind;

  [[nodiscard]] Kind kind(std::size_t n, std::size_t place) const { return parts_[nodes_[n].operands[place]].kind; }
  [[nodiscard]] bool has(std::size_t n, Kind kind) const {
    return std::ranges::any_of(nodes_[n].operands, [&](std::size_t k) { return parts_[k].kind == kind; });
  }

  [[nodiscard]] std::optional<ArrayPart> part_of(std::size_t n) const {
    std::optional<ArrayPart> rows;
    for (std::size_t dim = 0; dim < loops_.rank(n); ++dim) {
      if (loops_.loop(n, dim) != loop_) continue;
      if (rows) return std::nullopt;
      rows = ArrayPart{Kind::rows, dim, loops_.extent(n, dim) / extent_};
    }
    if (rows) return has(n, Kind::term) ? std::nullopt : rows;
    if (has(n, Kind::rows)) return is_sum(n) ? std::optional(ArrayPart{Kind::term}) : std::nullopt;
    if (has(n, Kind::term)) return is_linear(n) ? std::optional(ArrayPart{Kind::term}) : std::nullopt;
    return ArrayPart{};
  }

  [[nodiscard]] bool is_sum(std::size_t n) const {
    for (std::size_t place = 0; place < nodes_[n].operands.size(); ++place) {
      if (kind(n, place) == Kind::term) return false;
      if (kind(n, place) == Kind::rows && !loops_.sums(n, place, parts_[nodes_[n].operands[place]].dim)) return false;
    }
    return true;
  }

  /// True if the instruction gives a term of its result for terms of its operands.
  [[nodiscard]] bool is_linear(std::size_t n) const {
    static const std::set<std::string_view> kOfOne{"negate", "copy", "transpose", "reshape", "bitcast", "broadcast"};
    const std::string_view opcode = nodes_[n].opcode;
    const std::size_t count = nodes_[n].operands.size();
    if (kOfOne.contains(opcode)) return count == 1;
    if (count != 2) return false;
    const auto [a, b] = std::pair(kind(n, 0), kind(n, 1));
    if (opcode == "add" || opcode == "subtract") return a == Kind::term && b == Kind::term;
    if (opcode == "multiply") return a != b && (a == Kind::whole || b == Kind::whole);
    return opcode == "divide" && a == Kind::term && b == Kind::whole;
  }

  const std::vector<Node>& nodes_;
  const DimLoops& loops_;
  std::size_t loop_;
  std::int64_t extent_;
  std::vector<ArrayPart> parts_{};
};

/// XLA's numbers of the types in which adding terms is right: integers, and floating point of 32 bits and more.
bool may_be_summed(int type) {
  static const std::set<int> kTypes{4, 5, 8, 9, 11, 12};
  return kTypes.contains(type);
}

/// And those whose zero can be written, which rows are put into.
bool may_be_assembled(const std::string& shape) {
  ArrayShape scalar(shape);
  scalar.dimensions.clear();
  scalar.minor_to_major.clear();
  return constant_fields(scalar, 0).has_value();
}

/// Kinds of fusions that XLA compiles for any extents.
bool is_open_fusion(const Instruction& fusion) {
  const std::string_view kind = field_of(fusion.bytes, instruction_field::fusion_kind);
  if (kind == "kLoop" || kind == "kInput" || kind == "kOutput") return true;
  constexpr std::string_view kLibrary = "\"kind\":\"__ynn_fusion\"";
  return kind == "kCustom" &&
         field_of(fusion.bytes, instruction_field::backend_config).find(kLibrary) != std::string_view::npos;
}

/// Larger fusions have no axes: each loop goes through all instructions.
constexpr std::size_t kMostNodes = 4096;

class Finder {
 public:
  Finder(const Module& module, std::size_t c, std::size_t i)
      : module_(module), entry_(module.computations[c]), instruction_(entry_.instructions[i]) {}

  std::vector<InstructionAxis> run() {
    if (!list_nodes()) return {};
    for (std::size_t n = 0; n < nodes_.size(); ++n) nodes_[n].constant = constant_at(n);
    const DimLoops loops(nodes_, module_);
    std::vector<InstructionAxis> axes;
    for (const auto& [loop, extents] : loops.all()) {
      const std::int64_t extent = *std::ranges::min_element(extents);
      const bool fits = extent >= 2 && extent <= kMaxAxisNumber && std::ranges::all_of(extents, [&](std::int64_t one) {
                          return one % extent == 0 && one <= kMaxAxisNumber;
                        });
      if (!fits) continue;
      auto parts = Labels(nodes_, loops, loop, extent).run();
      if (!parts) continue;
      if (auto axis = axis_of(*parts, extent)) axes.push_back(std::move(*axis));
    }
    return axes;
  }

 private:
  [[nodiscard]] bool is_fusion() const { return instruction_.opcode == "fusion"; }

  bool list_nodes() {
    const bool is_array = element_bytes(instruction_.shape) > 0 || instruction_.shape.tuple;
    if (!is_array || is_alias(instruction_) || instruction_.opcode == "parameter") return false;
    if (is_fusion()) {
      if (!is_open_fusion(instruction_) || instruction_.called.size() != 1) return false;
      const Computation& fused = module_.computations[instruction_.called[0]];
      for (const Instruction& one : fused.instructions) nodes_.push_back({&one, one.opcode, one.operands});
      root_ = fused.root;
    } else {
      if (instruction_.shape.tuple) return false;
      Node node{&instruction_, instruction_.opcode};
      for (const std::size_t operand : instruction_.operands) {
        node.operands.push_back(nodes_.size());
        nodes_.push_back({&entry_.instructions[operand], "parameter"});
      }
      root_ = nodes_.size();
      nodes_.push_back(std::move(node));
    }
    if (nodes_.size() > kMostNodes) return false;
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
      if (n != root_ && (nodes_[n].said->shape.tuple || nodes_[n].opcode == "tuple")) return false;
      if (nodes_[n].opcode == "tuple" && nodes_[n].operands.empty()) return false;
      if (nodes_[n].opcode != "tuple" && (nodes_[n].said->shape.tuple || element_bytes(nodes_[n].said->shape) == 0)) {
        return false;
      }
    }
    return true;
  }

  /// The constant that a node is, or that the fusion's operand is for which it stands.
  [[nodiscard]] const Instruction* constant_at(std::size_t n) const {
    const Instruction* said = nodes_[n].said;
    if (is_fusion() && said->opcode == "parameter") {
      const auto number = static_cast<std::size_t>(said->parameter_number);
      if (said->parameter_number < 0 || number >= instruction_.operands.size()) return nullptr;
      said = &entry_.instructions[instruction_.operands[number]];
    }
    return said->opcode == "constant" ? said : nullptr;
  }

  [[nodiscard]] std::optional<InstructionAxis> axis_of(const std::vector<ArrayPart>& parts, std::int64_t extent) const {
    InstructionAxis axis{.extent = extent, .operands = std::vector<ArrayPart>(instruction_.operands.size())};
    const std::vector<std::string> shapes = array_shapes(instruction_);
    if (nodes_[root_].opcode == "tuple") {
      for (const std::size_t leaf : nodes_[root_].operands) axis.results.push_back(parts[leaf]);
    } else {
      axis.results.push_back(parts[root_]);
    }
    if (axis.results.size() != shapes.size()) return std::nullopt;
    for (std::size_t k = 0; k < shapes.size(); ++k) {
      const bool is_term = axis.results[k].kind == ArrayPart::Kind::term;
      const bool is_writable = is_term ? may_be_summed(ArrayShape(shapes[k]).type) : may_be_assembled(shapes[k]);
      if (axis.results[k].kind == ArrayPart::Kind::whole || !is_writable) return std::nullopt;
    }
    if (!is_fusion()) {
      std::copy(parts.begin(), parts.end() - 1, axis.operands.begin());
      return axis;
    }
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
      if (nodes_[n].opcode != "parameter") continue;
      const std::int64_t number = nodes_[n].said->parameter_number;
      if (number < 0 || static_cast<std::size_t>(number) >= axis.operands.size()) return std::nullopt;
      const Instruction& given = entry_.instructions[instruction_.operands[static_cast<std::size_t>(number)]];
      const bool is_same = given.shape.dimensions == nodes_[n].said->shape.dimensions &&
                           given.shape.type == nodes_[n].said->shape.type && !given.shape.tuple;
      if (!is_same) return std::nullopt;
      axis.operands[static_cast<std::size_t>(number)] = parts[n];
    }
    axis.inside = parts;
    return axis;
  }

  const Module& module_;
  const Computation& entry_;
  const Instruction& instruction_;
  std::vector<Node> nodes_{};
  std::size_t root_ = 0;
};

}  // namespace

std::vector<InstructionAxis> axes_of(const Module& module, std::size_t computation, std::size_t i) {
  return Finder(module, computation, i).run();
}

std::vector<std::string> array_shapes(const Instruction& instruction) {
  if (instruction.shape.tuple) return parts_of(shape_of(instruction));
  return {std::string(shape_of(instruction))};
}

}  // namespace remora::hlo
