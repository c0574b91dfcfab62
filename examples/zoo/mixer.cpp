// SPDX-License-Identifier: Apache-2.0
//
// MLP-Mixer: perceptrons across patches and across channels in turn. The default is B/16.
#include <string>

#include "examples/zoo/families.hpp"
#include "examples/zoo/image_layers.hpp"
#include "examples/zoo/layers.hpp"
#include "examples/zoo/sequence_layers.hpp"
#include "examples/zoo/text.hpp"

namespace remora::zoo {

namespace {

/// Two linear layers with Gelu between them on the last axis, which keeps its extent.
Value perceptron(GraphBuilder& graph, const std::string& name, const Value& x, std::int64_t units,
                 const Dialect& dialect) {
  const auto scope = graph.scope(name);
  const Value inner = gelu(graph, "gelu", linear(graph, "expand", x, units), dialect);
  return linear(graph, "contract", inner, x.shape.back());
}

Value mixer_block(GraphBuilder& graph, const Value& x, const Settings& settings, const Dialect& dialect) {
  const Value columns = transpose(graph, "to_tokens", layer_norm(graph, "norm1", x, dialect), {0, 2, 1});
  const Value mixed = perceptron(graph, "tokens", columns, settings.number("token-width"), dialect);
  const Value middle = add(graph, "residual1", x, transpose(graph, "to_channels", mixed, {0, 2, 1}));
  const Value normal = layer_norm(graph, "norm2", middle, dialect);
  const Value outer = perceptron(graph, "channels", normal, settings.number("channel-width"), dialect);
  return add(graph, "residual2", middle, outer);
}

void mlp_mixer(GraphBuilder& graph, const Settings& settings, std::int64_t batch) {
  const std::int64_t size = settings.number("size");
  const std::int64_t patch = settings.number("patch");
  const std::int64_t width = settings.number("width");
  require(size % patch == 0, text("--patch ", patch, " does not divide --size ", size));
  const Dialect dialect{.decompose_layer_norm = settings.choice("layer-norm") == "decomposed",
                        .erf_gelu = settings.choice("gelu") == "erf"};
  const Value image = graph.input("image", ElementType::float32, {batch, 3, size, size});
  const Value patches = convolution(graph, "patches", image, {.channels = width, .kernel = patch, .stride = patch});
  const std::int64_t tokens = (size / patch) * (size / patch);
  Value x = transpose(graph, "tokens", reshape(graph, "flat", patches, {batch, width, tokens}), {0, 2, 1});
  for (std::int64_t i = 0; i < settings.number("layers"); ++i) {
    const auto scope = graph.scope(text("block", i));
    x = mixer_block(graph, x, settings, dialect);
  }
  x = layer_norm(graph, "norm", x, dialect);
  const Value mean = graph.node("ReduceMean", "mean", {x}, {batch, width},
                                {{"axes", std::vector<std::int64_t>{1}}, {"keepdims", std::int64_t{0}}});
  graph.output(fully_connected(graph, "head", mean, settings.number("classes")));
}

}  // namespace

std::vector<Architecture> mixer_family() {
  return {{.name = "mlp-mixer",
           .summary = "MLP-Mixer image classifier, the default is B/16",
           .source = "Tolstikhin et al. 2021",
           .parameters = {{"size", Range{224, 1, 4096}, "height and width of the image, pixels"},
                          {"patch", Range{16, 1, 4096}, "height and width of a patch, pixels; divides the size"},
                          {"layers", Range{12, 1, 1024}, "blocks"},
                          {"width", Range{768, 1, 65536}, "channels of a patch"},
                          {"token-width", Range{384, 1, 1048576}, "units of the perceptron across patches"},
                          {"channel-width", Range{3072, 1, 1048576}, "units of the perceptron across channels"},
                          {"classes", Range{1000, 1, 1000000}, "number of classes"},
                          {"gelu", Choices{"erf", "tanh"}, "form of Gelu, in elementary ops"},
                          layer_norm_parameter()},
           .build = mlp_mixer}};
}

}  // namespace remora::zoo
