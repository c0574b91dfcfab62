// SPDX-License-Identifier: Apache-2.0
#include "examples/zoo/architecture.hpp"

#include <iterator>

#include "examples/zoo/families.hpp"

namespace remora::zoo {

std::vector<Architecture> architectures() {
  std::vector<Architecture> zoo;
  for (auto* const family : {&vgg_family, &resnet_family, &regnet_family, &mobilenet_family, &unet_family, &fcn_family,
                             &gpt2_family, &bert_family, &transformer_family, &mixer_family}) {
    std::vector<Architecture> members = family();
    zoo.insert(zoo.end(), std::make_move_iterator(members.begin()), std::make_move_iterator(members.end()));
  }
  return zoo;
}

Model build_model(const Architecture& architecture, const Settings& settings, std::int64_t batch) {
  GraphBuilder graph(architecture.name);
  architecture.build(graph, settings, batch);
  Model model;
  model.parameter_count = graph.parameter_count();
  model.proto = std::move(graph).finish();
  model.proto.set_doc_string(architecture.summary + " (" + architecture.source + ")");
  for (const auto& [name, value] : settings.texts()) {
    onnx::StringStringEntryProto& entry = *model.proto.add_metadata_props();
    entry.set_key("zoo." + name);
    entry.set_value(value);
  }
  return model;
}

}  // namespace remora::zoo
