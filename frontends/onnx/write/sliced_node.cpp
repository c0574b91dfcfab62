// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/write/sliced_node.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "frontends/onnx/loops/loop_rules.hpp"
#include "model/error.hpp"
#include "model/table.hpp"

namespace remora::onnx_frontend {
namespace {

onnx::AttributeProto& attribute(onnx::NodeProto& node, std::string_view name) {
  for (onnx::AttributeProto& one : *node.mutable_attribute()) {
    if (one.name() == name) return one;
  }
  onnx::AttributeProto& added = *node.add_attribute();
  added.set_name(std::string(name));
  return added;
}

void set_integers(onnx::NodeProto& node, std::string_view name, const std::vector<std::int64_t>& list) {
  onnx::AttributeProto& one = attribute(node, name);
  one.set_type(onnx::AttributeProto::INTS);
  one.clear_ints();
  for (const std::int64_t number : list) one.add_ints(number);
}

void remove_attribute(onnx::NodeProto& node, std::string_view name) {
  auto& all = *node.mutable_attribute();
  all.erase(std::remove_if(all.begin(), all.end(), [&](const auto& one) { return one.name() == name; }), all.end());
}

class SliceMaker {
 public:
  using Constant = std::function<std::string(const std::vector<std::int64_t>&)>;

  SliceMaker(const NodeSlice& slice, const Constant& constant, onnx::NodeProto& copy)
      : slice_(slice), context_{.network = slice.network, .node = slice.node}, constant_(constant), copy_(copy) {}

  void run() {
    const std::string& type = slice_.node.type;
    const bool is_transposed = type == "ConvTranspose";
    const bool is_convolution = type == "Conv" || type == "ConvInteger" || type == "QLinearConv";
    const bool is_pool = type == "MaxPool" || type == "AveragePool" || type == "LpPool";
    const auto& made = slice_.axis.outputs[0];
    constexpr std::size_t kFirstSpatial = 2;
    if ((is_convolution || is_pool) && made && made->dim >= kFirstSpatial) set_pads(made->dim - kFirstSpatial);
    if (is_transposed && made && made->dim >= kFirstSpatial) set_transposed_pads(made->dim - kFirstSpatial);
    if ((is_convolution || is_transposed) && made && made->dim == 1 && slice_.axis.inputs[0]) set_groups();
    // The first term has the bias.
    if (!made && slice_.slice > 0 && (type == "Conv" || is_transposed || type == "Gemm")) drop_bias();
    if (type == "Resize") set_sizes();
    if (type == "Expand") copy_.set_input(1, constant_(made_shape()));
  }

 private:
  [[nodiscard]] Shape made_shape() const {
    Shape shape = context_.output(0);
    const auto& made = slice_.axis.outputs[0];
    if (made) shape[made->dim] = made->entries_of(slice_.iterations).size();
    return shape;
  }

  void drop_bias() {
    constexpr int kBias = 2;
    while (copy_.input_size() > kBias) copy_.mutable_input()->RemoveLast();
  }

  /// A depthwise convolution and the like are cut between groups.
  void set_groups() {
    onnx::AttributeProto& groups = attribute(copy_, "group");
    groups.set_type(onnx::AttributeProto::INT);
    groups.set_i(slice_.iterations.size());
  }

  /// Padding is what windows of the slice reach beyond the rows that exist.
  void set_pads(std::size_t spatial) {
    const DimCut& read = *slice_.axis.inputs[0];
    std::vector<std::int64_t> pads = pads_of_node();
    const std::int64_t first = slice_.iterations.begin * read.step + read.offset;
    const std::int64_t end = (slice_.iterations.end - 1) * read.step + read.offset + read.length;
    pads[spatial] = std::max<std::int64_t>(0, -first);
    pads[spatial + pads.size() / 2] = std::max<std::int64_t>(0, end - read.rows);
    remove_attribute(copy_, "auto_pad");
    set_integers(copy_, "pads", pads);
  }

  /// Row i of the input adds to the rows from i * stride - padding on, as many as the kernel reaches over: padding is
  /// what they are beyond the slice's rows.
  void set_transposed_pads(std::size_t spatial) {
    const std::size_t rank = context_.output(0).size() - 2;
    const std::int64_t stride = context_.list_or("strides", rank, 1)[spatial];
    const std::int64_t kernel = context_.input(1)[spatial + 2];
    const std::int64_t reach = (kernel - 1) * context_.list_or("dilations", rank, 1)[spatial] + 1;
    const Range made = slice_.axis.outputs[0]->entries_of(slice_.iterations);
    const Range read = slice_.axis.inputs[0]->entries_of(slice_.iterations);
    std::vector<std::int64_t> pads = context_.list_or("pads", 2 * rank, 0);
    std::vector<std::int64_t> more = context_.list_or("output_padding", rank, 0);
    pads[spatial] += made.begin - read.begin * stride;
    const std::int64_t beyond = (read.size() - 1) * stride + reach - pads[spatial] - made.size();
    ensure(pads[spatial] >= 0, "slices: a transposed convolution begins behind its slice");
    pads[spatial + rank] = std::max<std::int64_t>(0, beyond);
    more[spatial] = std::max<std::int64_t>(0, -beyond);
    set_integers(copy_, "pads", pads);
    set_integers(copy_, "output_padding", more);
  }

  [[nodiscard]] std::vector<std::int64_t> pads_of_node() const {
    const std::size_t rank = context_.output(0).size() - 2;
    std::vector<std::int64_t> pads = context_.list_or("pads", 2 * rank, 0);
    const std::string mode = slice_.node.attributes.get("auto_pad", std::string("NOTSET"));
    if (mode == "VALID") std::ranges::fill(pads, 0);
    if (!mode.starts_with("SAME")) return pads;
    const auto nest = find_loops(context_);
    ensure(nest.has_value(), "slices: a convolution without loops");
    for (std::size_t k = 0; k < rank; ++k) {
      const LoopDim& x = (*nest->inputs[0])[nest->inputs[0]->size() - rank + k];
      const LoopDim& y = (*nest->outputs[0])[nest->outputs[0]->size() - rank + k];
      pads[k] = -x.offset;
      pads[rank + k] = std::max<std::int64_t>(0, (y.extent - 1) * x.step + x.offset + x.length - x.extent);
    }
    return pads;
  }

  /// A Resize that states sizes states those of the whole.
  void set_sizes() {
    constexpr std::size_t kSizes = 3;
    if (!context_.has_input(kSizes)) return;
    const auto sizes = context_.constant(kSizes);
    ensure(sizes.has_value(), "slices: a Resize of unknown sizes");
    if (sizes->empty()) return;
    std::vector<std::int64_t> list = *sizes;
    std::vector<std::int64_t> axes = context_.list("axes");
    const Shape made = made_shape();
    for (std::size_t k = 0; k < list.size(); ++k) {
      const auto dim = axes.empty() ? k : *axis_of(axes[k], made.size());
      list[k] = made[dim];
    }
    copy_.set_input(static_cast<int>(kSizes), constant_(list));
  }

  const NodeSlice& slice_;
  LoopContext context_;
  const Constant& constant_;
  onnx::NodeProto& copy_;
};

}  // namespace

void make_slice(const NodeSlice& slice, const std::function<std::string(const std::vector<std::int64_t>&)>& constant,
                onnx::NodeProto& copy) {
  SliceMaker(slice, constant, copy).run();
}

}  // namespace remora::onnx_frontend
