// SPDX-License-Identifier: Apache-2.0
//
// A network as Keras sees it: layers that read other layers' outputs, from an image to the last layer added.
//
//     LayerGraph graph({.height = 224, .width = 224, .channels = 3});
//     LayerId x = graph.add("conv1", Conv2D{.filters = 64}, {LayerGraph::kImage});
//     x = graph.add("pool1", MaxPooling2D{}, {x});
#pragma once

#include <string>
#include <vector>

#include "frontends/generate/keras/layers.hpp"
#include "model/types.hpp"

namespace remora::generate::keras {

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

}  // namespace remora::generate::keras
