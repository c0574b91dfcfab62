// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/loops/writable_axes.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "frontends/onnx/loops/loop_nest.hpp"
#include "frontends/onnx/loops/loop_rules.hpp"
#include "model/error.hpp"
#include "model/table.hpp"

namespace remora::onnx_frontend {
namespace {

/// True if a node of this type, with the same attributes but for what slice_writer.cpp changes, computes the slice.
using Condition = bool (*)(const LoopContext&, const WritableAxis&);

bool always(const LoopContext& /*context*/, const WritableAxis& /*axis*/) {
  return true;
}

bool is_summed(const WritableAxis& axis) {
  return !axis.outputs[0];
}

/// Terms of a mean are no means.
bool unless_summed(const LoopContext& /*context*/, const WritableAxis& axis) {
  return !is_summed(axis);
}

/// Rows of the first input for as many of the output.
bool is_plain(const WritableAxis& axis) {
  const auto& x = axis.inputs[0];
  const auto& y = axis.outputs[0];
  return x && y && x->rows == y->rows && x->step == 1 && x->offset == 0 && x->length == 1 && y->step == 1;
}

bool if_plain(const LoopContext& /*context*/, const WritableAxis& axis) {
  return is_plain(axis);
}

/// Each window has a row that is no padding: a slice has one, too.
bool has_rows(const WritableAxis& axis) {
  const auto& x = axis.inputs[0];
  const auto& y = axis.outputs[0];
  if (!x || !y) return true;
  return -x->offset < x->length && (y->rows - 1) * x->step + x->offset < x->rows;
}

bool if_rows(const LoopContext& /*context*/, const WritableAxis& axis) {
  return has_rows(axis);
}

/// Each slice has a row of the input, which no kernel shorter than its stride lets begin behind it.
bool if_transposed_rows(const LoopContext& context, const WritableAxis& axis) {
  constexpr std::size_t kFirstSpatial = 2;
  const auto& x = axis.inputs[0];
  const auto& y = axis.outputs[0];
  if (!x || !y || y->dim < kFirstSpatial) return true;
  const std::size_t spatial = y->dim - kFirstSpatial;
  const std::size_t rank = context.output(0).size() - kFirstSpatial;
  const std::int64_t reach = (context.input(1)[y->dim] - 1) * context.list_or("dilations", rank, 1)[spatial] + 1;
  const std::int64_t last = (y->rows + y->step - 1) / y->step - 1;
  return reach >= y->step && x->offset + x->length > 0 && last * x->step + x->offset < x->rows;
}

/// Scales of weights may be of each channel.
bool if_weights_are_whole(const LoopContext& context, const WritableAxis& axis) {
  const std::size_t weights = context.node.type == "QLinearConv" ? 3 : 1;
  return !axis.inputs[weights] && has_rows(axis);
}

/// A window that begins behind all rows is left out by onnxruntime, but not by its shape inference, from which it plans
/// which values share memory: not to be met in more nodes than before.
bool leaves_out_windows(const LoopContext& context) {
  if (context.attribute("ceil_mode", 0) == 0) return false;
  const std::vector<std::int64_t> kernel = context.list("kernel_shape");
  const auto strides = context.list_or("strides", kernel.size(), 1);
  const auto dilations = context.list_or("dilations", kernel.size(), 1);
  const auto pads = context.list_or("pads", 2 * kernel.size(), 0);
  for (std::size_t k = 0; k < kernel.size(); ++k) {
    const std::int64_t reach = (kernel[k] - 1) * dilations[k] + 1;
    const std::int64_t room = context.input(0)[k + 2] + pads[k] + pads[k + kernel.size()] - reach;
    if ((room + strides[k] - 1) / strides[k] + 1 > context.output(0)[k + 2]) return true;
  }
  return false;
}

/// A last window that is rounded up reaches beyond the padding, which becomes padding in a slice.
bool if_pooled_alike(const LoopContext& context, const WritableAxis& axis) {
  if (leaves_out_windows(context)) return false;
  if (is_plain(axis)) return true;
  if (!has_rows(axis)) return false;
  const auto dilations = context.list("dilations");
  const bool is_dilated = std::ranges::any_of(dilations, [](std::int64_t one) { return one != 1; });
  return context.attribute("ceil_mode", 0) == 0 || (!is_dilated && context.attribute("count_include_pad", 0) == 0);
}

/// Rows beyond a slice are its last one in an interpolation.
bool if_resized_alone(const LoopContext& /*context*/, const WritableAxis& axis) {
  const auto& x = axis.inputs[0];
  return x && x->offset == 0 && x->length == x->step;
}

/// Neither along the dimension that is split, nor along blocks of channels.
bool unless_split(const LoopContext& context, const WritableAxis& axis) {
  const auto split = axis_of(context.attribute("axis", 0), context.input(0).size());
  return is_plain(axis) && split && axis.outputs[0]->dim != *split;
}

bool unless_in_channels(const LoopContext& /*context*/, const WritableAxis& axis) {
  const auto& x = axis.inputs[0];
  const auto& y = axis.outputs[0];
  return x && y && x->dim == y->dim && x->dim != 1;
}

/// Indices are of the table's rows along one dimension, and beside them along all others.
bool if_beside_table(const LoopContext& context, const WritableAxis& axis) {
  const auto along = axis_of(context.attribute("axis", 0), context.input(0).size());
  return axis.inputs[0] || (along && axis.outputs[0] && axis.outputs[0]->dim == *along);
}

bool if_first_is_cut(const LoopContext& /*context*/, const WritableAxis& axis) {
  return axis.inputs[0].has_value();
}

bool unless_in_blocks(const LoopContext& context, const WritableAxis& /*axis*/) {
  return context.attribute("block_size", 0) == 0;
}

/// The number of heads is an attribute where they have no dimension, and a causal mask depends on the row's number.
bool attention(const LoopContext& context, const WritableAxis& axis, std::string_view causal) {
  if (!axis.outputs[0]) return false;
  const std::size_t rank = context.output(0).size();
  const std::size_t dim = axis.outputs[0]->dim;
  if (dim + 2 == rank) return context.attribute(causal, 0) == 0;
  return dim == 0 || (rank == 4 && dim == 1);
}

bool onnx_attention(const LoopContext& context, const WritableAxis& axis) {
  const bool same_rank = context.input(0).size() == context.output(0).size();
  return same_rank && attention(context, axis, "is_causal");
}

bool microsoft_attention(const LoopContext& context, const WritableAxis& axis) {
  return attention(context, axis, "unidirectional");
}

/// Types of which any slice is a node with the same attributes.
constexpr std::string_view kUnchanged =
    "MatMul FusedMatMul MatMulInteger Gemm Einsum GlobalMaxPool GlobalLpPool LSTM GRU RNN LpNormalization CumSum "
    "Trilu LayerNormalization RMSNormalization SimplifiedLayerNormalization SkipLayerNormalization "
    "SkipSimplifiedLayerNormalization BatchNormalization InstanceNormalization LRN MeanVarianceNormalization TopK "
    "OneHot Gather Concat Transpose Expand Softmax LogSoftmax Hardmax ReduceSum ReduceL1 ReduceSumSquare "
    "ReduceMax ReduceMin ReduceProd ReduceL2 ReduceLogSum ReduceLogSumExp ArgMax ArgMin Add Sub Mul Div Pow Mod "
    "Max Min Sum Mean Where PRelu Clip Cast CastLike Neg Abs Log Exp Erf Sqrt Reciprocal Sin Cos Tan Asin Acos "
    "Atan Sinh Cosh Tanh Asinh Acosh Atanh Sign Floor Ceil Round Relu Sigmoid HardSigmoid HardSwish Selu Softplus "
    "Softsign LeakyRelu Elu Celu Gelu QuickGelu FastGelu BiasGelu Mish Swish Shrink Not And Or Xor Equal Greater "
    "Less LessOrEqual BitwiseAnd BitwiseOr BitwiseXor BitwiseNot BitShift IsNaN IsInf ThresholdedRelu "
    "GreaterOrEqual";

using Conditions = std::map<std::string_view, Condition, std::less<>>;

const Conditions& conditions() {
  static const Conditions kConditions = [] {
    Conditions all{{"Conv", if_rows},
                   {"ConvInteger", if_weights_are_whole},
                   {"QLinearConv", if_weights_are_whole},
                   {"ConvTranspose", if_transposed_rows},
                   {"MaxPool", if_pooled_alike},
                   {"AveragePool", if_pooled_alike},
                   {"LpPool", if_pooled_alike},
                   {"GlobalAveragePool", unless_summed},
                   {"ReduceMean", unless_summed},
                   {"Resize", if_resized_alone},
                   {"Slice", if_plain},
                   {"Pad", if_plain},
                   {"Tile", if_first_is_cut},
                   {"Split", unless_split},
                   {"GatherElements", if_beside_table},
                   {"DepthToSpace", unless_in_channels},
                   {"SpaceToDepth", unless_in_channels},
                   {"QuantizeLinear", unless_in_blocks},
                   {"DequantizeLinear", unless_in_blocks},
                   {"Attention", onnx_attention},
                   {"MultiHeadAttention", microsoft_attention}};
    std::string_view rest = kUnchanged;
    while (!rest.empty()) {
      const std::string_view type = rest.substr(0, rest.find(' '));
      rest.remove_prefix(std::min(rest.size(), type.size() + 1));
      all.emplace(type, always);
    }
    return all;
  }();
  return kConditions;
}

/// Inputs that are settings and not data, by position: no iteration has a part of them.
bool is_setting(std::string_view type, std::size_t input) {
  static const std::map<std::string_view, std::vector<std::size_t>, std::less<>> kSettings{
      {"Expand", {1}},
      {"Tile", {1}},
      {"Slice", {1, 2, 3, 4}},
      {"Pad", {1, 2, 3}},
      {"Resize", {1, 2, 3}},
      {"TopK", {1}},
      {"Split", {1}},
      {"OneHot", {1, 2}},
      {"CumSum", {1}},
      {"Trilu", {1}},
      {"QLinearConv", {1, 2, 4, 5, 6, 7}},
      {"ConvInteger", {2, 3}},
      {"MultiHeadAttention", {3}}};
  if (type.starts_with("Reduce")) return input == 1;
  const auto found = kSettings.find(type);
  return found != kSettings.end() && std::ranges::find(found->second, input) != found->second.end();
}

/// The dimension that has the rows of the loop, or a number of entries for each row; none where no dimension has.
std::optional<DimCut> dim_cut(const Shape& shape, const LoopDims& dims, int loop) {
  const auto found = std::ranges::find(dims, loop, &LoopDim::loop);
  if (found == dims.end() ||
      std::find_if(found + 1, dims.end(), [&](const LoopDim& dim) { return dim.loop == loop; }) != dims.end()) {
    return std::nullopt;
  }
  std::int64_t all = 1;
  std::int64_t stride = 1;
  for (auto dim = dims.begin(); dim != dims.end(); ++dim) {
    all = saturating_product(all, dim->extent);
    if (dim > found) stride = saturating_product(stride, dim->extent);
  }
  if (all != element_count(shape) || all == 0) return std::nullopt;
  std::int64_t inner = 1;
  for (std::size_t k = shape.size(); k-- > 0;) {
    const bool is_block = inner * shape[k] == stride * found->extent && stride % inner == 0;
    if (is_block) {
      return DimCut{.dim = k,
                    .entries = stride / inner,
                    .rows = found->extent,
                    .step = found->step,
                    .offset = found->offset,
                    .length = found->length};
    }
    inner *= shape[k];
  }
  return std::nullopt;
}

/// The dimensions with this loop alone.
LoopDims with_loop(LoopDims dims, int loop) {
  for (LoopDim& dim : dims) {
    if (dim.loop != loop) dim.loop = kNoLoop;
  }
  return dims;
}

bool mentions(const LoopDims& dims, int loop) {
  return std::ranges::find(dims, loop, &LoopDim::loop) != dims.end();
}

class WritableTable {
 public:
  WritableTable(const Network& network, const std::vector<ValueId>& tensor_values, const Graph& graph)
      : network_(network), graph_(graph), tensors_(network.values.size()), reads_(network.values.size(), 0) {
    for (std::size_t t = 0; t < tensor_values.size(); ++t) tensors_[at(tensor_values[t])] = TensorId(t);
    for (const Node& node : network_.nodes) {
      for (const ValueId input : node.inputs) {
        if (input.valid()) ++reads_[at(network_.storage(input))];
      }
    }
  }

  /// The axes of the op, and what they are in the model.
  [[nodiscard]] std::vector<WritableAxis> add(NodeId id, Op& op) const {
    const Node& node = network_.nodes[id];
    std::vector<WritableAxis> found;
    if (node.never_recompute || node.unknown || node.inner || node.position < 0) return found;
    const auto condition = conditions().find(node.type);
    const LoopContext context{.network = network_, .node = node};
    const auto nest = condition == conditions().end() ? std::nullopt : find_loops(context);
    if (!nest) return found;
    for (std::size_t loop = 0; loop < nest->extents.size(); ++loop) {
      if (nest->extents[loop] < 2) continue;
      WritableAxis writable;
      const auto uses = uses_of(node, *nest, static_cast<int>(loop), writable);
      if (!uses || !condition->second(context, writable)) continue;
      std::vector<Axis> axes = axes_of(nest->extents, *uses);
      if (axes.size() != 1 || !cuts_alike(*uses, axes.front())) continue;
      op.axes.push_back(std::move(axes.front()));
      found.push_back(std::move(writable));
    }
    return found;
  }

 private:
  /// The tensors as the loop cuts them; none where the node cannot be written. Parameters are no tensors.
  [[nodiscard]] std::optional<std::vector<TensorUse>> uses_of(const Node& node, const LoopNest& nest, int loop,
                                                              WritableAxis& writable) const {
    std::vector<TensorUse> uses;
    writable.inputs.resize(std::max(node.inputs.size(), nest.inputs.size()));
    writable.outputs.resize(std::max(node.outputs.size(), nest.outputs.size()));
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      const ValueId value = node.outputs[k];
      if (!value.valid()) continue;
      if (!nest.outputs[k]) return std::nullopt;
      if (!add_use(uses, value, *nest.outputs[k], loop, true, writable.outputs[k])) return std::nullopt;
    }
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      const ValueId value = node.inputs[k];
      if (!value.valid()) continue;
      const bool has_parts = network_.values[value].unknown || element_count(network_.values[value].shape) > 1;
      if (!nest.inputs[k] && has_parts && !is_setting(node.type, k)) return std::nullopt;
      const LoopDims dims = nest.inputs[k] ? *nest.inputs[k] : uncut_dims(network_.values[value].shape);
      if (!add_use(uses, value, dims, loop, false, writable.inputs[k])) return std::nullopt;
    }
    return uses;
  }

  bool add_use(std::vector<TensorUse>& uses, ValueId id, const LoopDims& dims, int loop, bool is_output,
               std::optional<DimCut>& cut) const {
    const Value& value = network_.values[id];
    if (mentions(dims, loop)) {
      cut = dim_cut(value.shape, dims, loop);
      if (!cut) return false;
    }
    const bool has_whole_bytes = value.type.bytes() > 0;
    const ValueId storage = network_.storage(id);
    if (network_.values[storage].kind == ValueKind::parameter) {
      return !cut || (has_whole_bytes && value.stored && !value.output && reads_[at(id)] == 1);
    }
    if (!has_whole_bytes) return false;
    const TensorId tensor = tensors_[at(storage)];
    uses.push_back({.tensor = tensor,
                    .size = graph_[tensor].size,
                    .element_bytes = value.type.bytes(),
                    .is_output = is_output,
                    .dims = with_loop(dims, loop)});
    return true;
  }

  /// True if the axis cuts a tensor wherever the node reads it with the loop, and nowhere else.
  static bool cuts_alike(const std::vector<TensorUse>& uses, const Axis& axis) {
    return std::ranges::all_of(uses, [&](const TensorUse& use) {
      const bool has_loop = std::ranges::any_of(*use.dims, [](const LoopDim& dim) { return dim.loop != kNoLoop; });
      return has_loop == (cut_of(axis, use.tensor) != nullptr);
    });
  }

  const Network& network_;
  const Graph& graph_;
  /// By value; none for views and parameters.
  std::vector<TensorId> tensors_;
  /// By value that has memory: how often nodes read it or a view of it.
  std::vector<int> reads_;
};

}  // namespace

std::vector<std::vector<WritableAxis>> add_writable_axes(const Network& network, const std::vector<NodeId>& op_nodes,
                                                         const std::vector<ValueId>& tensor_values, Graph& graph) {
  if (network.opset < kLeastOpsetOfSlices) {
    throw InputError("", "is of operator set " + std::to_string(network.opset) + "; slices can be written from set " +
                             std::to_string(kLeastOpsetOfSlices) + " on: convert it first");
  }
  const WritableTable table(network, tensor_values, graph);
  std::vector<std::vector<WritableAxis>> found;
  for (std::size_t v = 0; v < op_nodes.size(); ++v) found.push_back(table.add(op_nodes[v], graph.ops[v]));
  validate(graph);
  return found;
}

}  // namespace remora::onnx_frontend
