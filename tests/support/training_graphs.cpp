// SPDX-License-Identifier: Apache-2.0
#include "tests/support/training_graphs.hpp"

#include <string>
#include <utility>
#include <vector>

#include "tests/support/training_step.hpp"

namespace remora::test {
namespace {

/// A tensor of images.
struct Images {
  TensorId tensor{};
  std::int64_t channels = 1;
  std::int64_t size = 1;
};

class UnetBuilder {
 public:
  explicit UnetBuilder(const UnetOptions& options) : options_(options), step_("unet") {}

  Graph build() {
    Images x{.channels = 1, .size = options_.size};
    x.tensor = step_.add_data("image", values(x));
    std::vector<Images> skips;
    for (std::int64_t level = 1; level < options_.levels; ++level) {
      skips.push_back(convolve("conv" + std::to_string(level), x, options_.channels << (level - 1)));
      x = pool("pool" + std::to_string(level), skips.back());
    }
    x = convolve("bottom", x, options_.channels << (options_.levels - 1));
    for (std::int64_t level = options_.levels - 1; level >= 1; --level) {
      x = decode(std::to_string(level), x, skips.back());
      skips.pop_back();
    }
    return step_.finish(head(x).tensor);
  }

 private:
  /// Of a tensor of such images.
  [[nodiscard]] std::int64_t values(const Images& images) const {
    return options_.batch * images.channels * images.size * images.size;
  }

  Images add(ForwardOp op, Images out) {
    op.values = values(out);
    out.tensor = step_.add_forward(std::move(op));
    return out;
  }

  Images convolve(const std::string& name, const Images& x, std::int64_t channels) {
    constexpr std::int64_t kKernel = 9;  // 3x3
    const Images out{.channels = channels, .size = x.size};
    return add({.name = name,
                .type = "Conv",
                .inputs = {x.tensor},
                .flops = 2 * kKernel * x.channels * values(out),
                .reads = BackwardReads::both,
                .parameters = channels * (kKernel * x.channels + 1)},
               out);
  }

  Images pool(const std::string& name, const Images& x) {
    const Images out{.channels = x.channels, .size = x.size / 2};
    return add(
        {.name = name, .type = "MaxPool", .inputs = {x.tensor}, .flops = values(x), .reads = BackwardReads::both}, out);
  }

  Images decode(const std::string& level, const Images& below, const Images& skip) {
    const Images up = add({.name = "up" + level,
                           .type = "ConvTranspose",
                           .inputs = {below.tensor},
                           .flops = 2 * below.channels * values(skip),
                           .reads = BackwardReads::inputs,
                           .parameters = skip.channels * (4 * below.channels + 1)},  // 2x2
                          skip);
    const Images both = add({.name = "concat" + level,
                             .type = "Concat",
                             .inputs = {skip.tensor, up.tensor},
                             .flops = 2 * values(skip),
                             .reads = BackwardReads::nothing},
                            {.channels = 2 * skip.channels, .size = skip.size});
    return convolve("decode" + level, both, skip.channels);
  }

  Images head(const Images& x) {
    return add({.name = "head",
                .type = "Conv",
                .inputs = {x.tensor},
                .flops = 2 * values(x),
                .reads = BackwardReads::inputs,
                .parameters = x.channels + 1},
               {.channels = 1, .size = x.size});
  }

  const UnetOptions& options_;
  TrainingStep step_;
};

class TransformerBuilder {
 public:
  explicit TransformerBuilder(const TransformerOptions& options)
      : options_(options), step_("transformer"), tokens_(options.batch * options.sequence) {}

  Graph build() {
    const std::int64_t width = options_.width;
    const std::int64_t vocabulary = options_.vocabulary;
    TensorId x = step_.add_data("tokens", tokens_);
    x = step_.add_forward({.name = "embed",
                           .type = "Gather",
                           .inputs = {x},
                           .values = tokens_ * width,
                           .flops = tokens_ * width,
                           .parameters = vocabulary * width});
    for (std::int64_t layer = 1; layer <= options_.layers; ++layer) {
      prefix_ = "layer" + std::to_string(layer) + "/";
      x = mlp(attention(x));
    }
    prefix_.clear();
    return step_.finish(linear("head", x, width, vocabulary));
  }

 private:
  TensorId add(ForwardOp op) {
    op.name = prefix_ + op.name;
    return step_.add_forward(std::move(op));
  }

  TensorId linear(const std::string& name, TensorId x, std::int64_t from, std::int64_t to) {
    return add({.name = name,
                .type = "Linear",
                .inputs = {x},
                .values = tokens_ * to,
                .flops = 2 * tokens_ * from * to,
                .parameters = (from + 1) * to});
  }

  TensorId norm(const std::string& name, TensorId x) {
    const std::int64_t values = tokens_ * options_.width;
    return add({.name = name,
                .type = "LayerNormalization",
                .inputs = {x},
                .values = values,
                .flops = 8 * values,
                .parameters = 2 * options_.width});
  }

  TensorId sum(const std::string& name, TensorId x, TensorId y) {
    const std::int64_t values = tokens_ * options_.width;
    return add({.name = name,
                .type = "Add",
                .inputs = {x, y},
                .values = values,
                .flops = values,
                .reads = BackwardReads::nothing});
  }

  TensorId attention(TensorId x) {
    const std::int64_t width = options_.width;
    const std::int64_t weights = tokens_ * options_.heads * options_.sequence;
    const std::int64_t product = 2 * tokens_ * options_.sequence * width;
    const TensorId qkv = linear("qkv", norm("norm1", x), width, 3 * width);
    const TensorId scores =
        add({.name = "scores", .type = "MatMul", .inputs = {qkv}, .values = weights, .flops = product});
    const TensorId softmax = add({.name = "softmax",
                                  .type = "Softmax",
                                  .inputs = {scores},
                                  .values = weights,
                                  .flops = 5 * weights,
                                  .reads = BackwardReads::output});
    const TensorId context = add(
        {.name = "context", .type = "MatMul", .inputs = {softmax, qkv}, .values = tokens_ * width, .flops = product});
    return sum("add1", x, linear("project", context, width, width));
  }

  TensorId mlp(TensorId x) {
    const std::int64_t width = options_.width;
    const TensorId expanded = linear("expand", norm("norm2", x), width, 4 * width);
    const std::int64_t values = tokens_ * 4 * width;
    const TensorId gelu =
        add({.name = "gelu", .type = "Gelu", .inputs = {expanded}, .values = values, .flops = 8 * values});
    return sum("add2", x, linear("shrink", gelu, 4 * width, width));
  }

  const TransformerOptions& options_;
  TrainingStep step_;
  std::int64_t tokens_;
  /// Of the layer's op names.
  std::string prefix_;
};

}  // namespace

Graph generate_chain(const ChainOptions& options) {
  TrainingStep step("chain");
  const std::int64_t values = options.batch * options.channels;
  TensorId x = step.add_data("batch", values);
  for (std::int64_t layer = 1; layer <= options.layers; ++layer) {
    x = step.add_forward({.name = "linear" + std::to_string(layer),
                          .type = "Linear",
                          .inputs = {x},
                          .values = values,
                          .flops = 2 * values * options.channels,
                          .reads = BackwardReads::inputs,
                          .parameters = options.channels * (options.channels + 1)});
  }
  return step.finish(x);
}

Graph generate_unet(const UnetOptions& options) {
  return UnetBuilder(options).build();
}

Graph generate_transformer(const TransformerOptions& options) {
  return TransformerBuilder(options).build();
}

}  // namespace remora::test
