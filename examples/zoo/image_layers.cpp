// SPDX-License-Identifier: Apache-2.0
#include "examples/zoo/image_layers.hpp"

#include <string>

#include "examples/zoo/settings.hpp"
#include "examples/zoo/text.hpp"

namespace remora::zoo {

namespace {

using Numbers = std::vector<std::int64_t>;

Shape image_shape(const Value& image, std::int64_t channels, std::int64_t size) {
  return {image.shape.front(), channels, size, size};
}

/// Windows of `kernel` pixels every `stride` in `size` pixels.
std::int64_t windows(std::string_view name, std::int64_t size, std::int64_t kernel, std::int64_t stride, bool cutoff) {
  require(size >= kernel,
          text(name, " needs an image of ", kernel, " pixels but gets ", size, ": take a larger --size"));
  return (size - kernel + (cutoff ? stride - 1 : 0)) / stride + 1;
}

std::vector<Attribute> window_attributes(std::int64_t kernel, std::int64_t stride, std::int64_t padding) {
  return {{"kernel_shape", Numbers(2, kernel)}, {"strides", Numbers(2, stride)}, {"pads", Numbers(4, padding)}};
}

std::vector<Value> with_weights(GraphBuilder& graph, std::string_view name, const Value& image,
                                const Convolution& layer, const Shape& weight) {
  const std::string label(name);
  std::vector<Value> inputs{image, graph.weight(label + "/weight", weight)};
  if (layer.bias) inputs.push_back(graph.weight(label + "/bias", {layer.channels}));
  return inputs;
}

}  // namespace

std::int64_t channels_of(const Value& image) {
  return image.shape[1];
}
std::int64_t size_of(const Value& image) {
  return image.shape[2];
}

Value convolution(GraphBuilder& graph, std::string_view name, const Value& image, const Convolution& layer) {
  const std::int64_t size =
      windows(name, size_of(image) + 2 * layer.padding, layer.kernel, layer.stride, /*cutoff=*/false);
  const Shape weight{layer.channels, channels_of(image) / layer.groups, layer.kernel, layer.kernel};
  std::vector<Attribute> attributes = window_attributes(layer.kernel, layer.stride, layer.padding);
  if (layer.groups != 1) attributes.push_back({"group", layer.groups});
  return graph.node("Conv", name, with_weights(graph, name, image, layer, weight),
                    image_shape(image, layer.channels, size), attributes);
}

Value transposed_convolution(GraphBuilder& graph, std::string_view name, const Value& image, const Convolution& layer) {
  const std::int64_t size = (size_of(image) - 1) * layer.stride + layer.kernel - 2 * layer.padding;
  const Shape weight{channels_of(image), layer.channels, layer.kernel, layer.kernel};
  return graph.node("ConvTranspose", name, with_weights(graph, name, image, layer, weight),
                    image_shape(image, layer.channels, size),
                    window_attributes(layer.kernel, layer.stride, layer.padding));
}

Value batch_norm(GraphBuilder& graph, std::string_view name, const Value& image) {
  const std::string label(name);
  const Shape channels{channels_of(image)};
  const Value scale = graph.weight(label + "/scale", channels, 1.0F);
  const Value shift = graph.weight(label + "/shift", channels, 0.0F);
  const Value mean = graph.filled(label + "/mean", ElementType::float32, channels, 0.0);
  const Value variance = graph.filled(label + "/variance", ElementType::float32, channels, 1.0);
  return graph.node("BatchNormalization", name, {image, scale, shift, mean, variance}, image.shape,
                    {{"epsilon", 1e-5F}});
}

Value max_pool(GraphBuilder& graph, std::string_view name, const Value& image, const Pooling& pooling) {
  const std::int64_t size =
      windows(name, size_of(image) + 2 * pooling.padding, pooling.kernel, pooling.stride, pooling.cutoff);
  std::vector<Attribute> attributes = window_attributes(pooling.kernel, pooling.stride, pooling.padding);
  if (pooling.cutoff) attributes.push_back({"ceil_mode", std::int64_t{1}});
  return graph.node("MaxPool", name, {image}, image_shape(image, channels_of(image), size), attributes);
}

Value global_average_pool(GraphBuilder& graph, std::string_view name, const Value& image) {
  return graph.node("GlobalAveragePool", name, {image}, image_shape(image, channels_of(image), 1));
}

Value crop(GraphBuilder& graph, std::string_view name, const Value& image, std::int64_t offset, std::int64_t size) {
  if (size == size_of(image)) return image;
  require(offset + size <= size_of(image),
          text(name, " cannot take ", size, " of ", size_of(image), " pixels: take another --size"));
  const Numbers starts(2, offset);
  const Numbers ends(2, offset + size);
  return graph.node("Slice", name, {image, graph.list(starts), graph.list(ends), graph.list({2, 3})},
                    image_shape(image, channels_of(image), size));
}

Value concatenate_channels(GraphBuilder& graph, std::string_view name, const std::vector<Value>& images) {
  std::int64_t channels = 0;
  for (const Value& image : images) channels += channels_of(image);
  return graph.node("Concat", name, images, image_shape(images.front(), channels, size_of(images.front())),
                    {{"axis", std::int64_t{1}}});
}

}  // namespace remora::zoo
