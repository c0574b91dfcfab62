// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <system_error>

#include "frontends/onnx/model/model_proto.hpp"
#include "model/error.hpp"
#include "model/quote.hpp"
#include "onnx/onnx_pb.h"

namespace remora::onnx_frontend {
namespace {
namespace fs = std::filesystem;

/// Calls `visit` with every tensor of a model, wherever it stands.
template <class Visit>
class TensorVisitor {
 public:
  explicit TensorVisitor(const Visit& visit) : visit_(visit) {}

  void visit_graph(onnx::GraphProto& graph) {  // NOLINT(misc-no-recursion)
    for (auto& tensor : *graph.mutable_initializer()) visit_(tensor);
    for (auto& tensor : *graph.mutable_sparse_initializer()) visit_sparse(tensor);
    for (auto& node : *graph.mutable_node()) visit_node(node);
  }

  void visit_node(onnx::NodeProto& node) {  // NOLINT(misc-no-recursion)
    for (auto& attribute : *node.mutable_attribute()) {
      if (attribute.has_t()) visit_(*attribute.mutable_t());
      for (auto& tensor : *attribute.mutable_tensors()) visit_(tensor);
      if (attribute.has_sparse_tensor()) visit_sparse(*attribute.mutable_sparse_tensor());
      for (auto& tensor : *attribute.mutable_sparse_tensors()) visit_sparse(tensor);
      if (attribute.has_g()) visit_graph(*attribute.mutable_g());
      for (auto& body : *attribute.mutable_graphs()) visit_graph(body);
    }
  }

 private:
  void visit_sparse(onnx::SparseTensorProto& tensor) {
    visit_(*tensor.mutable_values());
    visit_(*tensor.mutable_indices());
  }

  const Visit& visit_;
};

bool leaves(const fs::path& relative) {
  return relative.empty() || relative.is_absolute() || *relative.begin() == "..";
}

/// Without symbolic links, whether it is there or not. Throws InputError for what can be no file's place.
fs::path resolved(const fs::path& path) {
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(fs::absolute(path), error);
  if (error) throw InputError(quote(path.string()), "cannot be looked up: " + error.message());
  return whole.has_filename() ? whole : whole.parent_path();
}

/// The place relative to `to` of what has the place `location` relative to `from`.
std::string moved(const std::string& name, const std::string& location, const fs::path& from,
                  const std::optional<fs::path>& to) {
  if (!to) {
    throw InputError(
        "initializer " + printable(name),
        "has its data in " + quote(location) + ", to be found from the model's folder; write the model to a file (-o)");
  }
  if (resolved(from) == resolved(*to)) return location;
  const fs::path named = from / location;
  const fs::path folder = resolved(*to);
  // By its own name first: a link stays where it is while what it points to may come and go.
  const fs::path beside = (resolved(named.parent_path()) / named.filename()).lexically_relative(folder);
  if (!leaves(beside)) return beside.generic_string();
  const fs::path file = resolved(named);
  const fs::path relative = file.lexically_relative(folder);
  if (leaves(relative)) {
    throw InputError("initializer " + printable(name),
                     "has its data in " + file.string() +
                         ", which is not below the folder of the output; write the model next to "
                         "the one it is made from");
  }
  return relative.generic_string();
}

/// Calls `visit` with the name of every tensor that has its data outside the file, and the place of the data.
template <class Visit>
void visit_places(onnx::ModelProto& model, const Visit& visit) {
  const auto visit_tensor = [&](onnx::TensorProto& tensor) {
    if (tensor.data_location() != onnx::TensorProto::EXTERNAL) return;
    for (auto& entry : *tensor.mutable_external_data()) {
      if (entry.key() == "location") visit(tensor.name(), *entry.mutable_value());
    }
  };
  TensorVisitor visitor(visit_tensor);
  visitor.visit_graph(*model.mutable_graph());
  for (auto& function : *model.mutable_functions()) {
    for (auto& node : *function.mutable_node()) visitor.visit_node(node);
  }
  for (auto& training : *model.mutable_training_info()) {
    if (training.has_initialization()) visitor.visit_graph(*training.mutable_initialization());
    if (training.has_algorithm()) visitor.visit_graph(*training.mutable_algorithm());
  }
}

/// True if the location, relative to the folder, leads out of it; links are followed as far as files exist.
bool is_outside(const std::string& location, const std::optional<fs::path>& folder) {
  if (leaves(fs::path(location).lexically_normal())) return true;
  return folder && leaves(resolved(*folder / location).lexically_relative(resolved(*folder)));
}

}  // namespace

void check_external_data(onnx::ModelProto& model, const std::optional<fs::path>& folder) {
  visit_places(model, [&](const std::string& name, const std::string& location) {
    if (!is_outside(location, folder)) return;
    throw InputError(
        name.empty() ? "a tensor" : "initializer " + printable(name),
        "has its data outside the model's folder, in " + quote(location) + "; --allow-external takes such models");
  });
}

void move_external_data(onnx::ModelProto& model, const fs::path& from, const std::optional<fs::path>& to) {
  visit_places(model,
               [&](const std::string& name, std::string& location) { location = moved(name, location, from, to); });
}

std::vector<fs::path> external_files(onnx::ModelProto& model, const fs::path& from) {
  std::vector<fs::path> files;
  visit_places(model,
               [&](const std::string& /*name*/, const std::string& location) { files.push_back(from / location); });
  return files;
}

}  // namespace remora::onnx_frontend
