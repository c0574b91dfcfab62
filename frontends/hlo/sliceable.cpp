// SPDX-License-Identifier: Apache-2.0
#include "frontends/hlo/sliceable.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "frontends/hlo/dataflow.hpp"
#include "frontends/hlo/dim_loops.hpp"
#include "frontends/hlo/draft.hpp"

namespace remora::hlo {
namespace {

class Builder {
 public:
  explicit Builder(const LoweredModule& lowered)
      : lowered_(lowered),
        module_(lowered.module),
        c_(lowered.computation),
        entry_(module_.computations[c_]),
        dataflow_(module_),
        tensors_(dataflow_.values().size()) {
    result_.graph = lowered.graph;
    result_.axes.resize(lowered.graph.ops.size());
    result_.shapes.resize(lowered.graph.tensors.size());
  }

  SliceableGraph run() {
    for (const OpId op : Ids<OpId>(result_.graph.ops.size())) {
      find_tensors(op);
      add_axes(op);
    }
    for (std::size_t i = 0; i < entry_.instructions.size(); ++i) {
      const std::vector<ValueId>& leaves = dataflow_.leaves(c_, i);
      result_.tensors.push_back(leaves.size() == 1 ? tensors_[leaves[0].index()] : TensorId());
    }
    validate(result_.graph);
    return std::move(result_);
  }

 private:
  [[nodiscard]] std::size_t place(OpId op) const { return lowered_.instructions[op.index()]; }

  void find_tensors(OpId op) {
    const std::size_t i = place(op);
    const std::vector<ValueId>& leaves = dataflow_.leaves(c_, i);
    const std::vector<TensorId>& outputs = result_.graph[op].outputs;
    const std::vector<std::string> shapes = array_shapes(entry_.instructions[i]);
    std::size_t k = 0;
    for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf) {
      const Value& value = dataflow_[leaves[leaf]];
      if (value.computation != c_ || value.instruction != i) continue;
      const TensorId tensor = outputs[k++];
      tensors_[leaves[leaf].index()] = tensor;
      if (leaves.size() == shapes.size()) result_.shapes[tensor.index()] = shapes[leaf];
      if (result_.graph[tensor].size > Bytes()) result_.graph[tensor].size = value.size;
    }
  }

  void add_axes(OpId op) {
    const std::size_t i = place(op);
    const bool is_free = result_.graph[op].recompute && dataflow_.in_place(c_, i).empty() &&
                         dataflow_.destroys(c_, i).empty() &&
                         dataflow_.leaves(c_, i).size() == result_.graph[op].outputs.size();
    if (!is_free) return;
    for (InstructionAxis& axis : axes_of(module_, c_, i)) {
      Axis made{.extent = axis.extent};
      if (!add_results(op, axis, made)) continue;
      add_operands(i, axis, made);
      result_.graph[op].axes.push_back(std::move(made));
      result_.axes[op.index()].push_back(std::move(axis));
    }
  }

  bool add_results(OpId op, const InstructionAxis& axis, Axis& made) const {
    const std::vector<TensorId>& outputs = result_.graph[op].outputs;
    if (outputs.size() != axis.results.size()) return false;
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      if (result_.graph[outputs[k]].size <= Bytes() || result_.shapes[outputs[k].index()].empty()) return false;
      if (axis.results[k].kind == ArrayPart::Kind::term) {
        made.sums.push_back(outputs[k]);
        continue;
      }
      const auto cut = cut_in(outputs[k], result_.shapes[outputs[k].index()], axis.results[k]);
      if (!cut) return false;
      made.cuts.push_back(*cut);
    }
    return true;
  }

  /// Leaves out what is read in two ways, and is whole then, and arguments and constants, which are no tensors.
  void add_operands(std::size_t i, const InstructionAxis& axis, Axis& made) const {
    const std::vector<std::size_t>& operands = entry_.instructions[i].operands;
    std::set<TensorId> whole;
    std::vector<Cut> cuts;
    for (std::size_t k = 0; k < operands.size(); ++k) {
      for (const ValueId value : dataflow_.leaves(c_, operands[k])) {
        const TensorId tensor = tensors_[value.index()];
        if (!tensor.valid()) continue;
        std::optional<Cut> cut;
        if (axis.operands[k].is_cut() && has_type_of(tensor, operands[k])) {
          cut = cut_in(tensor, std::string(shape_of(entry_.instructions[operands[k]])), axis.operands[k]);
        }
        const auto known = std::ranges::find(cuts, tensor, &Cut::tensor);
        if (!cut || (known != cuts.end() && *known != *cut)) whole.insert(tensor);
        if (cut && known == cuts.end()) cuts.push_back(*cut);
      }
    }
    for (const Cut& cut : cuts) {
      if (!whole.contains(cut.tensor)) made.cuts.push_back(cut);
    }
  }

  [[nodiscard]] bool has_type_of(TensorId tensor, std::size_t operand) const {
    const std::string& shape = result_.shapes[tensor.index()];
    return !shape.empty() && ArrayShape(shape).type == entry_.instructions[operand].shape.type;
  }

  /// None for a layout, or a size, that an array of this shape does not have.
  [[nodiscard]] std::optional<Cut> cut_in(TensorId tensor, const std::string& shape, const ArrayPart& part) const {
    const ArrayShape array(shape);
    const std::vector<std::size_t> dims = major_to_minor(shape);
    if (part.dim >= dims.size()) return std::nullopt;
    std::int64_t elements = 1;
    for (const std::int64_t dimension : array.dimensions) elements = saturating_product(elements, dimension);
    const std::int64_t size = result_.graph[tensor].size.count();
    if (elements <= 0 || size <= 0 || size % elements != 0) return std::nullopt;
    std::int64_t stride = size / elements;
    for (auto dim = dims.rbegin(); dim != dims.rend() && *dim != part.dim; ++dim) {
      stride = saturating_product(stride, array.dimensions[*dim]);
    }
    return Cut{.tensor = tensor,
               .rows = array.dimensions[part.dim],
               .stride = Bytes(stride),
               .step = part.step,
               .length = part.step};
  }

  const LoweredModule& lowered_;
  const Module& module_;
  std::size_t c_;
  const Computation& entry_;
  Dataflow dataflow_;
  /// By value: the tensor of what the computation makes, else none.
  std::vector<TensorId> tensors_;
  SliceableGraph result_;
};

}  // namespace

SliceableGraph sliceable_graph(const LoweredModule& lowered) {
  return Builder(lowered).run();
}

SliceRun slice_run(const Machine& machine) {
  constexpr double kNanosecondsOfSecond = 1e9;
  return {.overhead = nanoseconds(machine.launch_overhead),
          .temporaries = true,
          .copies = true,
          .bandwidth = Bytes(std::max<std::int64_t>(1, std::llround(machine.bandwidth / kNanosecondsOfSecond)))};
}

}  // namespace remora::hlo
