// SPDX-License-Identifier: Apache-2.0
#include "frontends/hlo/dim_loops.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include "frontends/formats/wire.hpp"
#include "frontends/hlo/dataflow.hpp"
#include "frontends/hlo/draft.hpp"
#include "frontends/hlo/message_fields.hpp"

namespace remora::hlo {
namespace {

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

/// Elementwise, but never cut.
const std::set<std::string_view>& whole_only() {
  static const std::set<std::string_view> kNames{"acos", "acosh", "asin", "asinh", "atanh", "complex",
                                                 "cosh", "imag",  "map",  "real",  "sinh",  "stochastic-convert"};
  return kNames;
}

}  // namespace

DimLoops::DimLoops(const std::vector<Node>& nodes, const Module& module) : nodes_(nodes), module_(module) {
  for (const Node& node : nodes_) {
    first_.push_back(extents_.size());
    const auto& dimensions = node.said->shape.dimensions;
    extents_.insert(extents_.end(), dimensions.begin(), dimensions.end());
  }
  parents_.resize(extents_.size());
  std::iota(parents_.begin(), parents_.end(), std::size_t{0});
  refused_.resize(extents_.size(), false);
  summed_.resize(nodes_.size());
  for (std::size_t n = 0; n < nodes_.size(); ++n) add(n);
}

bool DimLoops::sums(std::size_t n, std::size_t operand, std::size_t dim) const {
  return std::ranges::find(summed_[n], std::pair(operand, dim)) != summed_[n].end();
}

std::map<std::size_t, std::vector<std::int64_t>> DimLoops::all() const {
  std::map<std::size_t, std::vector<std::int64_t>> loops;
  std::set<std::size_t> refused;
  for (std::size_t k = 0; k < extents_.size(); ++k) {
    loops[root(k)].push_back(extents_[k]);
    if (refused_[k]) refused.insert(root(k));
  }
  for (const std::size_t loop : refused) loops.erase(loop);
  return loops;
}

std::size_t DimLoops::root(std::size_t k) const {
  while (parents_[k] != k) k = parents_[k] = parents_[parents_[k]];
  return k;
}

void DimLoops::refuse_all(std::size_t n) {
  for (std::size_t dim = 0; dim < rank(n); ++dim) refuse(n, dim);
  for (const std::size_t operand : nodes_[n].operands) {
    for (std::size_t dim = 0; dim < rank(operand); ++dim) refuse(operand, dim);
  }
}

void DimLoops::join(std::size_t n, std::size_t dim, std::size_t m, std::size_t other) {
  parents_[root(first_[n] + dim)] = root(first_[m] + other);
}

bool DimLoops::join_same(std::size_t n, std::int64_t dim, std::size_t m, std::int64_t other) {
  if (!has(n, dim) || !has(m, other)) return false;
  const auto a = static_cast<std::size_t>(dim);
  const auto b = static_cast<std::size_t>(other);
  if (extent(n, a) != extent(m, b)) return false;
  join(n, a, m, b);
  return true;
}

void DimLoops::add(std::size_t n) {
  const std::string_view opcode = nodes_[n].opcode;
  if (opcode == "parameter" || opcode == "tuple") return;
  const auto rule = rules().find(opcode);
  bool is_known = false;
  if (rule != rules().end()) {
    is_known = (this->*rule->second)(n);
  } else if (is_elementwise(opcode) && !whole_only().contains(opcode)) {
    is_known = same_dimensions(n);
  }
  if (!is_known) refuse_all(n);
}

const std::map<std::string_view, DimLoops::Rule>& DimLoops::rules() {
  static const std::map<std::string_view, Rule> kRules{{"constant", &DimLoops::constant},
                                                       {"iota", &DimLoops::iota},
                                                       {"broadcast", &DimLoops::broadcast},
                                                       {"transpose", &DimLoops::transpose},
                                                       {"reshape", &DimLoops::reshape},
                                                       {"bitcast", &DimLoops::reshape},
                                                       {"dot", &DimLoops::dot},
                                                       {"convolution", &DimLoops::convolution},
                                                       {"concatenate", &DimLoops::concatenate},
                                                       {"slice", &DimLoops::slice},
                                                       {"pad", &DimLoops::pad},
                                                       {"reverse", &DimLoops::reverse},
                                                       {"reduce-window", &DimLoops::reduce_window},
                                                       {"reduce", &DimLoops::reduce}};
  return kRules;
}

bool DimLoops::same_dimensions(std::size_t n) {
  for (const std::size_t operand : nodes_[n].operands) {
    if (rank(operand) == 0) continue;
    if (rank(operand) != rank(n)) return false;
    for (std::size_t dim = 0; dim < rank(n); ++dim) {
      if (!join_same(n, static_cast<std::int64_t>(dim), operand, static_cast<std::int64_t>(dim))) return false;
    }
  }
  return !nodes_[n].operands.empty();
}

bool DimLoops::constant(std::size_t n) {
  return rank(n) == 0;
}

bool DimLoops::iota(std::size_t n) {
  const auto along = numbers(n, instruction_field::dimensions);
  if (along.size() != 1 || !has(n, along[0])) return false;
  refuse(n, static_cast<std::size_t>(along[0]));
  return true;
}

bool DimLoops::broadcast(std::size_t n) {
  const auto dims = numbers(n, instruction_field::dimensions);
  if (nodes_[n].operands.size() != 1 || dims.size() != rank(nodes_[n].operands[0])) return false;
  for (std::size_t k = 0; k < dims.size(); ++k) {
    if (!join_same(n, dims[k], nodes_[n].operands[0], static_cast<std::int64_t>(k))) return false;
  }
  return true;
}

bool DimLoops::transpose(std::size_t n) {
  const auto dims = numbers(n, instruction_field::dimensions);
  if (nodes_[n].operands.size() != 1 || dims.size() != rank(n) || rank(nodes_[n].operands[0]) != rank(n)) return false;
  for (std::size_t k = 0; k < dims.size(); ++k) {
    if (!join_same(n, static_cast<std::int64_t>(k), nodes_[n].operands[0], dims[k])) return false;
  }
  return true;
}

bool DimLoops::reduce(std::size_t n) {
  if (nodes_[n].operands.size() != 2 || nodes_[n].said->shape.tuple || nodes_[n].said->called.size() != 1) return false;
  const std::size_t operand = nodes_[n].operands[0];
  const auto dims = numbers(n, instruction_field::dimensions);
  const bool has_zero = nodes_[nodes_[n].operands[1]].constant && is_zero(*nodes_[nodes_[n].operands[1]].constant);
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

bool DimLoops::dot(std::size_t n) {
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
  return add_free(a, a_summed, a_batch) && add_free(b, b_summed, b_batch) && static_cast<std::size_t>(made) == rank(n);
}

/// Images, and features of the input, which it sums over, and of the output. The gradient of a kernel has images as
/// features.
bool DimLoops::convolution(std::size_t n) {
  if (nodes_[n].operands.size() != 2) return false;
  const std::size_t x = nodes_[n].operands[0];
  const std::size_t kernel = nodes_[n].operands[1];
  const std::string_view said = nodes_[n].said->bytes;
  const std::string_view numbers = field_of(said, instruction_field::convolution_dimensions);
  const auto number = [&](std::uint64_t field) { return number_of(numbers, field); };
  if (number_of(said, instruction_field::batch_groups) > 1) return false;
  const std::int64_t batch = number(convolution_field::input_batch);
  const std::int64_t made = number(convolution_field::output_batch);
  if (!join_same(n, made, x, batch)) return false;
  const bool is_grouped = number_of(said, instruction_field::feature_groups) > 1;
  const std::int64_t read = number(convolution_field::input_feature);
  const std::int64_t weights = number(convolution_field::kernel_input_dimension);
  const std::int64_t feature = number(convolution_field::output_feature);
  const std::int64_t weight = number(convolution_field::kernel_output_dimension);
  const auto refuse_but = [&](std::size_t node, std::int64_t one, std::int64_t other) {
    for (std::int64_t dim = 0; has(node, dim); ++dim) {
      if (dim != one && (is_grouped || dim != other)) refuse(node, static_cast<std::size_t>(dim));
    }
  };
  refuse_but(n, made, feature);
  refuse_but(x, batch, read);
  refuse_but(kernel, is_grouped ? -1 : weights, weight);
  if (is_grouped) return true;
  if (read == batch || feature == made || weight == weights) return false;
  if (!join_same(x, read, kernel, weights) || !join_same(n, feature, kernel, weight)) return false;
  summed_[n].emplace_back(0, static_cast<std::size_t>(read));
  summed_[n].emplace_back(1, static_cast<std::size_t>(weights));
  return true;
}

bool DimLoops::concatenate(std::size_t n) {
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
bool DimLoops::kept_dimensions(std::size_t n, std::size_t said, const Kept& is_kept) {
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

bool DimLoops::slice(std::size_t n) {
  const auto said = messages_of(nodes_[n].said->bytes, instruction_field::slice_dimensions);
  return kept_dimensions(n, said.size(), [&](std::size_t dim) {
    return number_of(said[dim], slice_field::start) == 0 &&
           number_of(said[dim], slice_field::limit) == extent(n, dim) && number_of(said[dim], slice_field::stride) <= 1;
  });
}

bool DimLoops::pad(std::size_t n) {
  const auto said = messages_of(field_of(nodes_[n].said->bytes, instruction_field::padding), padding_field::dimensions);
  return nodes_[n].operands.size() == 2 && rank(nodes_[n].operands[1]) == 0 &&
         kept_dimensions(n, said.size(), [&](std::size_t dim) {
           return number_of(said[dim], padding_field::low) == 0 && number_of(said[dim], padding_field::high) == 0 &&
                  number_of(said[dim], padding_field::interior) == 0;
         });
}

bool DimLoops::reverse(std::size_t n) {
  const auto dims = numbers(n, instruction_field::dimensions);
  return kept_dimensions(n, rank(n), [&](std::size_t dim) {
    return std::ranges::find(dims, static_cast<std::int64_t>(dim)) == dims.end();
  });
}

bool DimLoops::reduce_window(std::size_t n) {
  const auto said = messages_of(field_of(nodes_[n].said->bytes, instruction_field::window), window_field::dimensions);
  return nodes_[n].operands.size() == 2 && !nodes_[n].said->shape.tuple && rank(nodes_[n].operands[1]) == 0 &&
         kept_dimensions(n, said.size(), [&](std::size_t dim) {
           const auto number = [&](std::uint64_t field) { return number_of(said[dim], field); };
           return number(window_field::size) == 1 && number(window_field::stride) <= 1 &&
                  number(window_field::padding_low) == 0 && number(window_field::padding_high) == 0 &&
                  number(window_field::window_dilation) <= 1 && number(window_field::base_dilation) <= 1;
         });
}

/// The dimensions of more than one entry, in the order in which a reshape keeps the elements; in memory a bitcast.
std::optional<std::vector<std::size_t>> DimLoops::ordered(std::size_t n, bool in_memory) const {
  std::vector<std::size_t> dims(rank(n));
  std::iota(dims.begin(), dims.end(), std::size_t{0});
  if (in_memory) dims = major_to_minor(shape_of(*nodes_[n].said));
  if (dims.size() != rank(n)) return std::nullopt;
  std::erase_if(dims, [&](std::size_t dim) { return extent(n, dim) == 1; });
  return dims;
}

/// Groups of dimensions of the same product: the outermost of each group run over the same loop, an iteration of
/// which may have several rows.
bool DimLoops::reshape(std::size_t n) {
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

std::int64_t element_bytes(const Shape& array) {
  std::int64_t elements = 1;
  for (const std::int64_t dimension : array.dimensions) elements = saturating_product(elements, dimension);
  if (array.tuple || array.is_dynamic || elements <= 0 || array.size.count() % elements != 0) return 0;
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
