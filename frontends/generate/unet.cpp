// SPDX-License-Identifier: Apache-2.0
#include "frontends/generate/unet.hpp"

#include <string>
#include <utility>
#include <vector>

#include "frontends/generate/training_step.hpp"
#include "model/error.hpp"

namespace remora::generate {
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

}  // namespace

Graph generate_unet(const UnetOptions& options) {
  check_options(options, kUnetTable);
  const std::int64_t halvings = std::int64_t{1} << (options.levels - 1);
  if (options.size % halvings != 0) {
    throw InputError("--size", std::to_string(options.size) + " is no multiple of " + std::to_string(halvings) +
                                   ", as " + std::to_string(options.levels) + " levels need");
  }
  return UnetBuilder(options).build();
}

}  // namespace remora::generate
