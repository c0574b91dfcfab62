// SPDX-License-Identifier: Apache-2.0
//
// Keras' layers as far as the networks of Jain et al. 2020 use them: what a layer makes of the shapes that it reads,
// how many operations that takes, and how many parameters it has.
//
// Operations are counted as Jain et al. count them, in their code and in their published FCN-8 graph:
//
//     convolution             a multiply-add is one: values out x channels in x kernel area
//     depthwise convolution   values out x kernel area
//     dense                   values in x values out
//     transposed convolution  values out x channels in, whatever the kernel: too few where its copies overlap
//     batch normalization     4 a value            activation   1 a value, where it is a layer of its own
//     addition                values in            upsampling   values out (nearest neighbour)
//     all others              0: pooling, padding, cropping, concatenation, reshaping, dropout
//
// An activation inside a convolution or dense layer is free. Everything is per image; the batch multiplies it later.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "model/types.hpp"

namespace remora::instances::keras {

/// Of the values of one image. A vector has height and width 1.
struct Shape {
  std::int64_t height = 1;
  std::int64_t width = 1;
  std::int64_t channels = 1;

  [[nodiscard]] constexpr std::int64_t values() const { return height * width * channels; }

  friend constexpr bool operator==(const Shape&, const Shape&) = default;
};

/// Same: n values become n / stride, rounded up. Valid: only where the window lies within them.
enum class Padding { same, valid };

struct Conv2D {
  static constexpr const char* kType = "Conv2D";
  std::int64_t filters = 1;
  /// Kernels are square.
  std::int64_t kernel = 3;
  std::int64_t stride = 1;
  Padding padding = Padding::same;
  bool bias = true;
};

/// With padding `valid` and no bias.
struct Conv2DTranspose {
  static constexpr const char* kType = "Conv2DTranspose";
  std::int64_t filters = 1;
  std::int64_t kernel = 4;
  std::int64_t stride = 2;
};

/// One filter a channel, without bias.
struct DepthwiseConv2D {
  static constexpr const char* kType = "DepthwiseConv2D";
  std::int64_t kernel = 3;
  std::int64_t stride = 1;
  Padding padding = Padding::same;
};

struct BatchNormalization {
  static constexpr const char* kType = "BatchNormalization";
};

/// Any function of each value, or softmax.
struct Activation {
  static constexpr const char* kType = "Activation";
};

/// With padding `valid`.
struct MaxPooling2D {
  static constexpr const char* kType = "MaxPooling2D";
  std::int64_t size = 2;
  std::int64_t stride = 2;
};

struct GlobalAveragePooling2D {
  static constexpr const char* kType = "GlobalAveragePooling2D";
};

struct Dense {
  static constexpr const char* kType = "Dense";
  std::int64_t units = 1;
};

struct Flatten {
  static constexpr const char* kType = "Flatten";
};

struct Reshape {
  static constexpr const char* kType = "Reshape";
  Shape target{};
};

struct Dropout {
  static constexpr const char* kType = "Dropout";
};

/// Of inputs of one shape.
struct Add {
  static constexpr const char* kType = "Add";
};

/// Of channels; height and width agree.
struct Concatenate {
  static constexpr const char* kType = "Concatenate";
};

/// Rows above and below, and columns left and right.
struct ZeroPadding2D {
  static constexpr const char* kType = "ZeroPadding2D";
  std::int64_t before = 1;
  std::int64_t after = 1;
};

/// Cuts the last rows and columns off.
struct Cropping2D {
  static constexpr const char* kType = "Cropping2D";
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

/// Repeats each row and column.
struct UpSampling2D {
  static constexpr const char* kType = "UpSampling2D";
  std::int64_t factor = 2;
};

using LayerKind = std::variant<Conv2D, Conv2DTranspose, DepthwiseConv2D, BatchNormalization, Activation, MaxPooling2D,
                               GlobalAveragePooling2D, Dense, Flatten, Reshape, Dropout, Add, Concatenate,
                               ZeroPadding2D, Cropping2D, UpSampling2D>;

struct LayerFigures {
  Shape output{};
  /// For one image.
  std::int64_t operations = 0;
  /// All of them, and those that training changes: moving averages are not trained.
  std::int64_t parameters = 0;
  std::int64_t trained_parameters = 0;
};

/// Keras' name of the layer's class.
const char* type_of(const LayerKind& kind);

/// `inputs`: the shapes that the layer reads, one or, of Add and Concatenate, more; they suit the layer.
LayerFigures measure(const LayerKind& kind, std::span<const Shape> inputs);

// A network as Keras sees it: layers that read other layers' outputs, from an image to the last layer added.
//
//     LayerGraph graph({.height = 224, .width = 224, .channels = 3});
//     LayerId x = graph.add("conv1", Conv2D{.filters = 64}, {LayerGraph::kImage});
//     x = graph.add("pool1", MaxPooling2D{}, {x});

/// A layer's position in its LayerGraph.
using LayerId = Id<struct LayerTag>;

struct Layer {
  std::string name{};
  const char* type = "";
  /// Never the image.
  std::vector<LayerId> inputs{};
  LayerFigures figures{};
};

class LayerGraph {
 public:
  /// Stands for the image among a layer's inputs. It is no layer: Jain et al. don't count it.
  static constexpr LayerId kImage = LayerId::none();

  explicit LayerGraph(const Shape& image) : image_(image) {}

  /// `name`: unique. `inputs`: one or more; layers added earlier, or the image.
  LayerId add(std::string name, const LayerKind& kind, const std::vector<LayerId>& inputs);

  [[nodiscard]] const Shape& shape(LayerId layer) const;
  [[nodiscard]] const std::vector<Layer>& layers() const { return layers_; }

 private:
  Shape image_;
  std::vector<Layer> layers_;
};

/// The order in which a Keras model lists its layers, which Jain et al. take as the order of the ops. The depth of a
/// layer is the length of the longest way from it to the last layer. The deepest come first; of the same depth, those
/// first that a depth-first walk from the last layer to its inputs, in their order, meets first.
///
///     a -> b -> c -> add(c, d)      a, b, c, d, add: c and d have depth 1, the walk meets c first
///     a ---------> d ---^
///
/// Every layer must lead to the last. O(layers log layers + edges).
std::vector<LayerId> keras_order(const LayerGraph& graph);

// The networks of Jain et al. 2020 by name, each with the batch and the image of its published graph or, for U-Net, of
// the paper's measurements. For VGG-19 and ResNet-50 no batch is known to us; that of VGG-16 is taken.

LayerGraph build_vgg16(const Shape& image);
LayerGraph build_vgg19(const Shape& image);
LayerGraph build_mobilenet(const Shape& image);
LayerGraph build_resnet50(const Shape& image);
LayerGraph build_fcn8(const Shape& image);
LayerGraph build_segnet(const Shape& image);
LayerGraph build_unet(const Shape& image);

struct Architecture {
  std::string_view name;
  LayerGraph (*build)(const Shape& image);
  /// The published images in a batch, and their size.
  std::int64_t batch;
  Shape image;
  /// Height and width are multiples of it: every pooling halves them exactly.
  std::int64_t multiple;
};

inline constexpr Shape kSmallImage{.height = 224, .width = 224, .channels = 3};
inline constexpr Shape kStreetImage{.height = 416, .width = 608, .channels = 3};

inline constexpr std::array kArchitectures{
    Architecture{"vgg16", build_vgg16, 256, kSmallImage, 1},
    Architecture{"vgg19", build_vgg19, 256, kSmallImage, 1},
    Architecture{"mobilenet", build_mobilenet, 512, kSmallImage, 1},
    Architecture{"resnet50", build_resnet50, 256, kSmallImage, 1},
    Architecture{"fcn8", build_fcn8, 32, kStreetImage, 32},
    Architecture{"segnet", build_segnet, 32, kStreetImage, 16},
    Architecture{"unet", build_unet, 32, kStreetImage, 16},
};

}  // namespace remora::instances::keras
