// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/loops/loop_nest.hpp"

#include <algorithm>
#include <cstddef>

#include "model/table.hpp"

namespace remora::onnx_frontend {
namespace {

/// Loops as one, the outermost first.
using Chain = std::vector<int>;

/// An input that lacks a loop of a chain is read whole, if it is this much smaller than the largest tensor that is cut:
/// a mask for all heads of an attention.
constexpr std::int64_t kSmallPart = 8;

enum class Mention { none, cut, broken };

struct UseCut {
  Mention mention = Mention::none;
  Cut cut{};
};

bool in_range(std::int64_t number) {
  return number >= 1 && number <= kMaxAxisNumber;
}

/// The chain in the dimensions of a tensor: a cut if its loops stand there once, in order and next to each other.
UseCut cut_along(const TensorUse& use, const Chain& chain, const std::vector<std::int64_t>& extents) {
  if (!use.dims) return {};
  const LoopDims& dims = *use.dims;
  const auto is_of_chain = [&](const LoopDim& dim) { return std::ranges::find(chain, dim.loop) != chain.end(); };
  const auto first = std::ranges::find_if(dims, is_of_chain);
  if (first == dims.end()) return {};
  const auto count = static_cast<std::ptrdiff_t>(chain.size());
  UseCut result{.mention = Mention::broken};
  if (std::ranges::count_if(dims, is_of_chain) != count || dims.end() - first < count) return result;
  std::int64_t rows = 1;
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    const LoopDim& dim = first[i];
    if (dim.loop != chain[at(i)]) return result;
    if (count > 1 && (!dim.plain() || dim.extent != extents[at(dim.loop)])) return result;
    rows = saturating_product(rows, dim.extent);
  }
  std::int64_t stride = use.element_bytes;
  for (auto dim = first + count; dim != dims.end(); ++dim) stride = saturating_product(stride, dim->extent);
  std::int64_t bytes = saturating_product(stride, rows);
  for (auto dim = dims.begin(); dim != first; ++dim) bytes = saturating_product(bytes, dim->extent);
  // A view of a part of a tensor has fewer.
  if (bytes != use.size.count() || bytes == 0) return result;
  const bool fits = in_range(rows) && in_range(first->step) && in_range(first->length) &&
                    first->offset >= -kMaxAxisNumber && first->offset <= kMaxAxisNumber;
  if (!fits) return result;
  return {Mention::cut,
          {.tensor = use.tensor,
           .rows = rows,
           .stride = Bytes(stride),
           .step = first->step,
           .offset = first->offset,
           .length = first->length}};
}

/// An axis and what it does to the inputs.
struct Candidate {
  Axis axis{};
  /// All inputs that have one of the loops are cut.
  bool strict = true;
  Bytes largest_cut{};
  Bytes largest_broken{};

  [[nodiscard]] bool usable() const { return strict || largest_broken.count() <= largest_cut.count() / kSmallPart; }
};

class AxisFinder {
 public:
  AxisFinder(const std::vector<std::int64_t>& extents, const std::vector<TensorUse>& uses)
      : extents_(extents), uses_(uses) {}

  std::vector<Axis> run() {
    for (std::size_t loop = 0; loop < extents_.size(); ++loop) {
      if (extents_[loop] > 1) add_from(static_cast<int>(loop));
    }
    return std::move(axes_);
  }

 private:
  /// The longest chain that cuts every input with one of its loops, and the longest that does not.
  void add_from(int head) {
    Chain chain{head};
    std::optional<Candidate> strict = candidate(chain);
    if (!strict || !strict->usable()) return;
    std::optional<Candidate> longest;
    for (int next = next_loop(head); next != kNoLoop; next = next_loop(next)) {
      if (std::ranges::find(chain, next) != chain.end()) break;
      chain.push_back(next);
      std::optional<Candidate> longer = candidate(chain);
      if (!longer) break;
      if (longer->strict) {
        strict = std::move(longer);
      } else if (longer->usable()) {
        longest = std::move(longer);
      }
    }
    axes_.push_back(std::move(strict->axis));
    if (longest && longest->axis.extent > axes_.back().extent) axes_.push_back(std::move(longest->axis));
  }

  /// The loop of the next dimension, of the first tensor that has one behind the loop's.
  [[nodiscard]] int next_loop(int loop) const {
    for (const bool outputs : {true, false}) {
      for (const TensorUse& use : uses_) {
        if (use.is_output != outputs || !use.dims) continue;
        const auto found = std::ranges::find(*use.dims, loop, &LoopDim::loop);
        if (found != use.dims->end() && found + 1 != use.dims->end()) return (found + 1)->loop;
      }
    }
    return kNoLoop;
  }

  /// None where an output would be neither cut nor summed.
  [[nodiscard]] std::optional<Candidate> candidate(const Chain& chain) const {
    Candidate result;
    for (const int loop : chain) result.axis.extent = saturating_product(result.axis.extent, extents_[at(loop)]);
    if (!in_range(result.axis.extent)) return std::nullopt;
    std::vector<TensorId> whole;
    for (const TensorUse& use : uses_) {
      const UseCut found = cut_along(use, chain, extents_);
      if (use.is_output && !add_output(found, use, result.axis)) return std::nullopt;
      if (use.is_output) continue;
      if (found.mention == Mention::broken) {
        result.strict = false;
        result.largest_broken = std::max(result.largest_broken, use.size);
      }
      const Cut* const known = cut_of(result.axis, use.tensor);
      const bool is_new = known == nullptr && std::ranges::find(whole, use.tensor) == whole.end();
      if (found.mention == Mention::cut && is_new) {
        result.axis.cuts.push_back(found.cut);
      } else if (known == nullptr || found.mention != Mention::cut || *known != found.cut) {
        std::erase_if(result.axis.cuts, [&](const Cut& cut) { return cut.tensor == use.tensor; });
        whole.push_back(use.tensor);
      }
    }
    for (const TensorUse& use : uses_) {
      if (cut_of(result.axis, use.tensor) != nullptr) result.largest_cut = std::max(result.largest_cut, use.size);
    }
    if (result.axis.cuts.empty()) return std::nullopt;
    return result;
  }

  static bool add_output(const UseCut& found, const TensorUse& use, Axis& axis) {
    const Cut* const known = cut_of(axis, use.tensor);
    const bool is_summed = std::ranges::find(axis.sums, use.tensor) != axis.sums.end();
    if (found.mention == Mention::broken) return false;
    if (found.mention == Mention::none) {
      if (known != nullptr) return false;
      if (!is_summed) axis.sums.push_back(use.tensor);
      return true;
    }
    const Cut& cut = found.cut;
    const bool writes_each_once = cut.offset == 0 && cut.length == cut.step && cut.rows <= axis.extent * cut.step &&
                                  cut.rows > (axis.extent - 1) * cut.step;
    if (is_summed || !writes_each_once || (known != nullptr && *known != cut)) return false;
    if (known == nullptr) axis.cuts.push_back(cut);
    return true;
  }

  const std::vector<std::int64_t>& extents_;
  const std::vector<TensorUse>& uses_;
  std::vector<Axis> axes_{};
};

}  // namespace

std::vector<Axis> axes_of(const std::vector<std::int64_t>& extents, const std::vector<TensorUse>& uses) {
  return AxisFinder(extents, uses).run();
}

}  // namespace remora::onnx_frontend
