// SPDX-License-Identifier: Apache-2.0
#include "frontends/generate/checkmate.hpp"

#include <algorithm>
#include <string>

#include "frontends/generate/keras/training_graph.hpp"
#include "model/error.hpp"

namespace remora::generate {
namespace {

/// The image of the options, or the published one.
keras::Shape image_of(const keras::Architecture& architecture, const CheckmateOptions& options) {
  keras::Shape image = architecture.image;
  if (!options.size) return image;
  if (*options.size % architecture.multiple != 0) {
    throw InputError("--size", std::to_string(*options.size) + " is no multiple of " +
                                   std::to_string(architecture.multiple) + ", as " + options.network + " needs");
  }
  image.height = *options.size;
  image.width = *options.size;
  return image;
}

std::string meta_of(const std::string& network, std::int64_t batch, const keras::Shape& image) {
  return R"({"source":"remora generate checkmate","duration_unit":"operation","network":")" + network +
         R"(","batch":)" + std::to_string(batch) + R"(,"height":)" + std::to_string(image.height) + R"(,"width":)" +
         std::to_string(image.width) + "}";
}

}  // namespace

Graph generate_checkmate(const CheckmateOptions& options) {
  check_options(options, kCheckmateTable);
  const keras::Architecture& architecture =
      *std::find_if(keras::kArchitectures.begin(), keras::kArchitectures.end(),
                    [&](const keras::Architecture& known) { return known.name == options.network; });
  const keras::Shape image = image_of(architecture, options);
  const std::int64_t batch = options.batch.value_or(architecture.batch);
  const bool parameters = options.fixed_memory == "parameters";
  Graph graph = keras::training_graph(architecture.build(image), batch,
                                      parameters ? keras::FixedMemory::parameters : keras::FixedMemory::none);
  graph.name = options.network + "-train";
  graph.meta = meta_of(options.network, batch, image);
  return graph;
}

}  // namespace remora::generate
