// SPDX-License-Identifier: Apache-2.0
#include "frontends/hlo/axes.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <unordered_map>

#include "frontends/formats/wire.hpp"
#include "frontends/hlo/draft.hpp"
#include "frontends/hlo/message_fields.hpp"
#include "frontends/hlo/reader.hpp"

namespace remora::hlo {
namespace {

/// One of the instructions over whose dimensions loops run: of a fusion those inside, otherwise the instruction and
/// stand-ins for its operands.
struct Node {
  const Instruction* said = nullptr;
  std::string_view opcode{};
  std::vector<std::size_t> operands{};
};

/// True for a constant all of whose elements are zero.
bool is_zero(const Instruction& instruction) {
  if (instruction.opcode != "constant") return false;
  bool has_values = false;
  wire::Reader reader(field_of(instruction.bytes, instruction_field::literal));
  while (!reader.at_end()) {
    const auto field = reader.next();
    if (!field || field->cut) return false;
    if (field->number == literal_field::shape) continue;
    has_values = true;
    const bool is_zero = field->type == 0 ? field->value == 0
                                          : std::ranges::all_of(field->payload, [](char byte) { return byte == '\0'; });
    if (!is_zero) return false;
  }
  return has_values;
}

/// True for (a, b) -> a + b.
bool is_addition(const Computation& computation) {
  const auto& all = computation.instructions;
  const Instruction& root = all[computation.root];
  return all.size() == 3 && root.opcode == "add" && root.operands.size() == 2 && root.operands[0] != root.operands[1] &&
         std::ranges::all_of(root.operands, [&](std::size_t k) { return all[k].opcode == "parameter"; });
}

const std::set<std::string_view>& elementwise() {
  static const std::set<std::string_view> kNames{"abs",
                                                 "add",
                                                 "and",
                                                 "atan2",
                                                 "bitcast-convert",
                                                 "cbrt",
                                                 "ceil",
                                                 "clamp",
                                                 "compare",
                                                 "convert",
                                                 "copy",
                                                 "cosine",
                                                 "count-leading-zeros",
                                                 "divide",
                                                 "erf",
                                                 "exponential",
                                                 "exponential-minus-one",
                                                 "floor",
                                                 "is-finite",
                                                 "log",
                                                 "log-plus-one",
                                                 "logistic",
                                                 "maximum",
                                                 "minimum",
                                                 "multiply",
                                                 "negate",
                                                 "not",
                                                 "or",
                                                 "popcnt",
                                                 "power",
                                                 "reduce-precision",
                                                 "remainder",
                                                 "round-nearest-afz",
                                                 "round-nearest-even",
                                                 "rsqrt",
                                                 "select",
                                                 "shift-left",
                                                 "shift-right-arithmetic",
                                                 "shift-right-logical",
                                                 "sign",
                                                 "sine",
                                                 "sqrt",
                                                 "subtract",
                                                 "tan",
                                                 "tanh",
                                                 "xor"};
  return kNames;
}

/// The loops over the dimensions of all nodes.
class Loops {
 public:
  explicit Loops(const std::vector<Node>& nodes, const Module& module) : nodes_(nodes), module_(module) {
    for (const Node& node : nodes_) {
      first_.push_back(extents_.size());
      const auto& dimensions = node.said->shape.dimensions;
      extents_.insert(extents_.end(), dimensions.begin(), dimensions.end());
    }
    parents_.resize(extents_.size());
    std::iota(parents_.begin(), parents_.end(), std::size_t{0});
    refused_.resize(extents_.size(), false);
    summed_.resize(nodes_.size());
  }

  /// `init_of(node)`: the constant that a stand-in is for, or null.
  template <class Init>
  void run(const Init& init_of) {
    for (std::size_t n = 0; n < nodes_.size(); ++n) add(n, init_of);
  }

  [[nodiscard]] std::size_t rank(std::size_t n) const { return nodes_[n].said->shape.dimensions.size(); }
  [[nodiscard]] std::int64_t extent(std::size_t n, std::size_t dim) const { return extents_[first_[n] + dim]; }
  [[nodiscard]] std::size_t loop(std::size_t n, std::size_t dim) const { return root(first_[n] + dim); }
  /// True if the node gives a sum over the loops of these dimensions of its operand.
  [[nodiscard]] bool sums(std::size_t n, std::size_t place, std::size_t dim) const {
    return std::ranges::find(summed_[n], std::pair(place, dim)) != summed_[n].end();
  }
  /// All loops that are not refused, with the extents of their dimensions.
  [[nodiscard]] std::map<std::size_t, std::vector<std::int64_t>> all() const {
    std::map<std::size_t, std::vector<std::int64_t>> loops;
    std::set<std::size_t> refused;
    for (std::size_t k = 0; k < extents_.size(); ++k) {
      loops[root(k)].push_back(extents_[k]);
      if (refused_[k]) refused.insert(root(k));
    }
    for (const std::size_t loop : refused) loops.erase(loop);
    return loops;
  }

 private:
  [[nodiscard]] std::size_t root(std::size_t k) const {
    while (parents_[k] != k) k = parents_[k] = parents_[parents_[k]];
    return k;
  }
  void refuse(std::size_t n, std::size_t dim) { refused_[first_[n] + dim] = true; }
  void refuse_all(std::size_t n) {
    for (std::size_t dim = 0; dim < rank(n); ++dim) refuse(n, dim);
    for (const std::size_t operand : nodes_[n].operands) {
      for (std::size_t dim = 0; dim < rank(operand); ++dim) refuse(operand, dim);
    }
  }
  void join(std::size_t n, std::size_t dim, std::size_t m, std::size_t other) {
    parents_[root(first_[n] + dim)] = root(first_[m] + other);
  }
  [[nodiscard]] bool has(std::size_t n, std::int64_t dim) const {
    return dim >= 0 && static_cast<std::size_t>(dim) < rank(n);
  }
  /// Joins them if they are there and of the same extent.
  [[nodiscard]] bool join_same(std::size_t n, std::int64_t dim, std::size_t m, std::int64_t other) {
    if (!has(n, dim) || !has(m, other)) return false;
    const auto a = static_cast<std::size_t>(dim);
    const auto b = static_cast<std::size_t>(other);
    if (extent(n, a) != extent(m, b)) return false;
    join(n, a, m, b);
    return true;
  }
  [[nodiscard]] std::vector<std::int64_t> numbers(std::size_t n, std::uint64_t field) const {
    return numbers_of(nodes_[n].said->bytes, field);
  }

  template <class Init>
  void add(std::size_t n, const Init& init_of) {
    const Node& node = nodes_[n];
    if (node.opcode == "parameter" || node.opcode == "tuple") return;
    if (node.opcode == "reduce") {
      const Instruction* const init = node.operands.size() == 2 ? init_of(node.operands[1]) : nullptr;
      if (!reduce(n, init != nullptr && is_zero(*init))) refuse_all(n);
      return;
    }
    const auto rule = rules().find(node.opcode);
    const bool is_known = elementwise().contains(node.opcode) ? same_dimensions(n)
                          : rule != rules().end()             ? (this->*rule->second)(n)
                                                              : false;
    if (!is_known) refuse_all(n);
  }

  using Rule = bool (Loops::*)(std::size_t);
  static const std::map<std::string_view, Rule>& rules() {
    static const std::map<std::string_view, Rule> kRules{{"constant", &Loops::constant},
                                                         {"iota", &Loops::iota},
                                                         {"broadcast", &Loops::broadcast},
                                                         {"transpose", &Loops::transpose},
                                                         {"reshape", &Loops::reshape},
                                                         {"bitcast", &Loops::reshape},
                                                         {"dot", &Loops::dot},
                                                         {"concatenate", &Loops::concatenate},
                                                         {"slice", &Loops::slice},
                                                         {"pad", &Loops::pad},
                                                         {"reverse", &Loops::reverse},
                                                         {"reduce-window", &Loops::reduce_window}};
    return kRules;
  }

  // Rules: false where the message is not what the rule is for.

  bool same_dimensions(std::size_t n) {
    for (const std::size_t operand : nodes_[n].operands) {
      if (rank(operand) == 0) continue;
      if (rank(operand) != rank(n)) return false;
      for (std::size_t dim = 0; dim < rank(n); ++dim) {
        if (!join_same(n, static_cast<std::int64_t>(dim), operand, static_cast<std::int64_t>(dim))) return false;
      }
    }
    return !nodes_[n].operands.empty();
  }

  bool constant(std::size_t n) { return rank(n) == 0; }

  bool iota(std::size_t n) {
    const auto along = numbers(n, instruction_field::dimensions);
    if (along.size() != 1 || !has(n, along[0])) return false;
    refuse(n, static_cast<std::size_t>(along[0]));
    return true;
  }

  bool broadcast(std::size_t n) {
    const auto dims = numbers(n, instruction_field::dimensions);
    if (nodes_[n].operands.size() != 1 || dims.size() != rank(nodes_[n].operands[0])) return false;
    for (std::size_t k = 0; k < dims.size(); ++k) {
      if (!join_same(n, dims[k], nodes_[n].operands[0], static_cast<std::int64_t>(k))) return false;
    }
    return true;
  }

  bool transpose(std::size_t n) {
    const auto dims = numbers(n, instruction_field::dimensions);
    if (nodes_[n].operands.size() != 1 || dims.size() != rank(n) || rank(nodes_[n].operands[0]) != rank(n))
      return false;
    for (std::size_t k = 0; k < dims.size(); ++k) {
      if (!join_same(n, static_cast<std::int64_t>(k), nodes_[n].operands[0], dims[k])) return false;
    }
    return true;
  }

  bool reduce(std::size_t n, bool has_zero) {
    if (nodes_[n].operands.size() != 2 || nodes_[n].said->shape.tuple || nodes_[n].said->called.size() != 1)
      return false;
    const std::size_t operand = nodes_[n].operands[0];
    const auto dims = numbers(n, instruction_field::dimensions);
    const bool is_sum = has_zero && is_addition(module_.computations[nodes_[n].said->called[0]]);
    std::int64_t made = 0;
    for (std::size_t dim = 0; dim < rank(operand); ++dim) {
      if (std::ranges::find(dims, static_cast<std::int64_t>(dim)) == dims.end()) {
        if (!join_same(n, made++, operand, static_cast<std::int64_t>(dim))) return false;
      } else if (is_sum) {
        summed_[n].emplace_back(0, dim);
      } else {
        refuse(operand, dim);
      }
    }
    return static_cast<std::size_t>(made) == rank(n);
  }

  bool dot(std::size_t n) {
    if (nodes_[n].operands.size() != 2) return false;
    const std::size_t a = nodes_[n].operands[0];
    const std::size_t b = nodes_[n].operands[1];
    const std::string_view said = field_of(nodes_[n].said->bytes, instruction_field::dot_dimensions);
    const auto of = [&](std::uint64_t field) { return numbers_of(said, field); };
    const auto [a_summed, b_summed] = std::pair(of(dot_field::lhs_contracting), of(dot_field::rhs_contracting));
    const auto [a_batch, b_batch] = std::pair(of(dot_field::lhs_batch), of(dot_field::rhs_batch));
    if (a_summed.size() != b_summed.size() || a_batch.size() != b_batch.size()) return false;
    for (std::size_t k = 0; k < a_summed.size(); ++k) {
      if (!join_same(a, a_summed[k], b, b_summed[k])) return false;
      summed_[n].emplace_back(0, static_cast<std::size_t>(a_summed[k]));
      summed_[n].emplace_back(1, static_cast<std::size_t>(b_summed[k]));
    }
    std::int64_t made = 0;
    for (std::size_t k = 0; k < a_batch.size(); ++k) {
      if (!join_same(n, made, a, a_batch[k]) || !join_same(n, made, b, b_batch[k])) return false;
      ++made;
    }
    const auto add_free = [&](std::size_t operand, const auto& summed, const auto& batch) {
      for (std::int64_t dim = 0; has(operand, dim); ++dim) {
        const auto is_in = [&](const auto& dims) { return std::ranges::find(dims, dim) != dims.end(); };
        if (!is_in(summed) && !is_in(batch) && !join_same(n, made++, operand, dim)) return false;
      }
      return true;
    };
    return add_free(a, a_summed, a_batch) && add_free(b, b_summed, b_batch) &&
           static_cast<std::size_t>(made) == rank(n);
  }

  bool concatenate(std::size_t n) {
    const auto along = numbers(n, instruction_field::dimensions);
    if (along.size() != 1 || !has(n, along[0])) return false;
    for (std::int64_t dim = 0; has(n, dim); ++dim) {
      if (dim == along[0]) refuse(n, static_cast<std::size_t>(dim));
      for (const std::size_t operand : nodes_[n].operands) {
        if (!has(operand, dim)) return false;
        if (dim == along[0]) refuse(operand, static_cast<std::size_t>(dim));
        if (dim != along[0] && !join_same(n, dim, operand, dim)) return false;
      }
    }
    return true;
  }

  /// Joins the dimensions of the first operand that are taken as they are, and refuses the others.
  template <class Kept>
  bool kept_dimensions(std::size_t n, std::size_t said, const Kept& is_kept) {
    if (nodes_[n].operands.empty() || rank(nodes_[n].operands[0]) != rank(n) || said != rank(n)) return false;
    const std::size_t operand = nodes_[n].operands[0];
    for (std::size_t dim = 0; dim < rank(n); ++dim) {
      const auto number = static_cast<std::int64_t>(dim);
      if (is_kept(dim) && join_same(n, number, operand, number)) continue;
      refuse(n, dim);
      refuse(operand, dim);
    }
    return true;
  }

  bool slice(std::size_t n) {
    const auto said = messages_of(nodes_[n].said->bytes, instruction_field::slice_dimensions);
    return kept_dimensions(n, said.size(), [&](std::size_t dim) {
      return number_of(said[dim], slice_field::start) == 0 &&
             number_of(said[dim], slice_field::limit) == extent(n, dim) &&
             number_of(said[dim], slice_field::stride) <= 1;
    });
  }

  bool pad(std::size_t n) {
    const auto said =
        messages_of(field_of(nodes_[n].said->bytes, instruction_field::padding), padding_field::dimensions);
    return nodes_[n].operands.size() == 2 && rank(nodes_[n].operands[1]) == 0 &&
           kept_dimensions(n, said.size(), [&](std::size_t dim) {
             return number_of(said[dim], padding_field::low) == 0 && number_of(said[dim], padding_field::high) == 0 &&
                    number_of(said[dim], padding_field::interior) == 0;
           });
  }

  bool reverse(std::size_t n) {
    const auto dims = numbers(n, instruction_field::dimensions);
    return kept_dimensions(n, rank(n), [&](std::size_t dim) {
      return std::ranges::find(dims, static_cast<std::int64_t>(dim)) == dims.end();
    });
  }

  bool reduce_window(std::size_t n) {
    const auto said = messages_of(field_of(nodes_[n].said->bytes, instruction_field::window), window_field::dimensions);
    return nodes_[n].operands.size() == 2 && !nodes_[n].said->shape.tuple && rank(nodes_[n].operands[1]) == 0 &&
           kept_dimensions(n, said.size(), [&](std::size_t dim) {
             const auto number = [&](std::uint64_t field) { return number_of(said[dim], field); };
             return number(window_field::size) == 1 && number(window_field::stride) <= 1 &&
                    number(window_field::padding_low) == 0 && number(window_field::padding_high) == 0 &&
                    number(window_field::window_dilation) <= 1 && number(window_field::base_dilation) <= 1;
           });
  }

  /// The dimensions of more than one entry, in the order of which a reshape keeps the elements; a bitcast those in memory.
  [[nodiscard]] std::optional<std::vector<std::size_t>> ordered(std::size_t n, bool in_memory) const {
    std::vector<std::size_t> dims(rank(n));
    std::iota(dims.begin(), dims.end(), std::size_t{0});
    if (in_memory) dims = major_to_minor(shape_of(*nodes_[n].said));
    if (dims.size() != rank(n)) return std::nullopt;
    std::erase_if(dims, [&](std::size_t dim) { return extent(n, dim) == 1; });
    return dims;
  }

  /// Groups of dimensions of the same product: the outermost of each group run over the same loop, in which an iteration
  /// may have several rows.
  bool reshape(std::size_t n) {
    if (nodes_[n].operands.size() != 1) return false;
    const std::size_t operand = nodes_[n].operands[0];
    const bool in_memory = nodes_[n].opcode == "bitcast";
    if (element_bytes(nodes_[n].said->shape) != element_bytes(nodes_[operand].said->shape)) return false;
    const auto outer = ordered(n, in_memory);
    const auto inner = ordered(operand, in_memory);
    if (!outer || !inner) return false;
    const std::vector<std::size_t>& a = *outer;
    const std::vector<std::size_t>& b = *inner;
    std::size_t i = 0;
    std::size_t j = 0;
    while (i < a.size() && j < b.size()) {
      const std::int64_t x = extent(n, a[i]);
      const std::int64_t y = extent(operand, b[j]);
      if (x <= 0 || y <= 0) return false;
      const bool divides = x % y == 0 || y % x == 0;
      if (divides) join(n, a[i], operand, b[j]);
      if (!divides) refuse(n, a[i]);
      if (!divides) refuse(operand, b[j]);
      std::int64_t made = x;
      std::int64_t read = y;
      ++i;
      ++j;
      while (made != read) {
        const bool is_less = made < read;
        if (is_less ? i == a.size() : j == b.size()) return false;
        std::int64_t& product = is_less ? made : read;
        product = saturating_product(product, is_less ? extent(n, a[i]) : extent(operand, b[j]));
        // The inner dimensions of a group begin anew for each row.
        if (is_less)
          refuse(n, a[i++]);
        else
          refuse(operand, b[j++]);
      }
    }
    return i == a.size() && j == b.size();
  }

  const std::vector<Node>& nodes_;
  const Module& module_;
  std::vector<std::size_t> first_;
  std::vector<std::int64_t> extents_;
  mutable std::vector<std::size_t> parents_;
  std::vector<bool> refused_;
  /// By node: operands and dimensions over which it sums.
  std::vector<std::vector<std::pair<std::size_t, std::size_t>>> summed_;
};

/// What a loop makes of each node; none where it is no axis.
class Labels {
 public:
  Labels(const std::vector<Node>& nodes, const Loops& loops, std::size_t loop, std::int64_t extent)
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
  const Loops& loops_;
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
    Loops loops(nodes_, module_);
    loops.run([&](std::size_t n) { return constant_at(n); });
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

std::int64_t element_bytes(const Shape& array) {
  std::int64_t elements = 1;
  for (const std::int64_t dimension : array.dimensions) elements = saturating_product(elements, dimension);
  if (array.tuple || elements <= 0 || array.size.count() % elements != 0) return 0;
  return array.size.count() / elements;
}

std::vector<std::size_t> major_to_minor(std::string_view shape) {
  const ArrayShape array(shape);
  const std::size_t rank = array.dimensions.size();
  std::vector<std::size_t> dims(rank);
  std::iota(dims.begin(), dims.end(), std::size_t{0});
  if (array.minor_to_major.empty()) return dims;
  std::vector<std::size_t> found;
  for (auto dim = array.minor_to_major.rbegin(); dim != array.minor_to_major.rend(); ++dim) {
    if (*dim >= 0) found.push_back(static_cast<std::size_t>(*dim));
  }
  return std::ranges::is_permutation(found, dims) ? found : std::vector<std::size_t>{};
}

}  // namespace remora::hlo
