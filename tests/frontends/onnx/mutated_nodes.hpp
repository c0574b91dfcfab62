// SPDX-License-Identifier: Apache-2.0
//
// Models of one node each, for any operator schema of the installed libonnx: drawn near what the schema asks for, so that
// many get as far as its shape inference, and wrong in a few places: ranks, extents, types, constants, attributes, the
// number of inputs and outputs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "onnx/defs/data_type_utils.h"
#include "onnx/defs/schema.h"
#include "onnx/onnx_pb.h"

namespace remora::onnx_frontend::test {

/// The same seed gives the same model, on every machine with the same libonnx.
class MutatedNode {
 public:
  MutatedNode(const onnx::OpSchema& schema, std::uint64_t seed) : schema_(schema), draw_(seed) {
    common_ = any_shape(4);
    model_.set_ir_version(8);
    onnx::OperatorSetIdProto& opset = *model_.add_opset_import();
    opset.set_version(one_in(8) ? schema.since_version() + below(8) : schema.since_version());
    if (!schema.domain().empty()) {
      onnx::OperatorSetIdProto& own = *model_.add_opset_import();
      own.set_domain(schema.domain());
      own.set_version(schema.since_version());
    }
    graph().set_name("mutated");
    node_ = graph().add_node();
    node_->set_op_type(schema.Name());
    node_->set_domain(schema.domain());
    for (std::int64_t k = arity(schema.min_input(), schema.max_input()); k > 0; --k) add_input();
    for (std::int64_t k = arity(schema.min_output(), schema.max_output()); k > 0; --k) add_output();
    for (const auto& [name, attribute] : schema.attributes()) {
      if (attribute.required ? !one_in(16) : one_in(2)) add_attribute(name, attribute.type);
    }
    if (one_in(64)) add_attribute("unknown", onnx::AttributeProto::INT);
    if (one_in(64) && node_->attribute_size() > 0) *node_->add_attribute() = node_->attribute(0);
  }

  [[nodiscard]] const onnx::ModelProto& model() const { return model_; }

 private:
  using Extents = std::vector<std::int64_t>;

  onnx::GraphProto& graph() { return *model_.mutable_graph(); }
  std::int64_t below(std::int64_t limit) {
    return static_cast<std::int64_t>(draw_() % static_cast<std::uint64_t>(limit));
  }
  bool one_in(std::int64_t many) { return below(many) == 0; }
  template <class Value>
  Value any_of(const std::vector<Value>& values) {
    return values[static_cast<std::size_t>(below(static_cast<std::int64_t>(values.size())))];
  }

  std::int64_t any_number() {
    if (!one_in(6)) return below(9) - 3;
    return any_of<std::int64_t>({16, 1 << 15, INT32_MAX, INT32_MIN, std::int64_t{1} << 31, std::int64_t{1} << 32,
                                 std::int64_t{1} << 40, std::int64_t{1} << 62, INT64_MAX, INT64_MIN});
  }
  std::int64_t any_extent() {
    if (!one_in(24)) return any_of<std::int64_t>({1, 1, 2, 3, 3, 4, 8});
    return any_of<std::int64_t>(
        {0, 100, 65537, INT32_MAX, std::int64_t{1} << 31, std::int64_t{1} << 32, std::int64_t{1} << 40});
  }
  Extents any_shape(std::int64_t most_axes) {
    Extents shape(static_cast<std::size_t>(below(most_axes + 1)));
    for (std::int64_t& extent : shape) extent = any_extent();
    return shape;
  }
  /// Often that of the other inputs, in whole or nearly.
  Extents input_shape() {
    if (one_in(3)) return any_shape(5);
    Extents shape = common_;
    if (one_in(4) && !shape.empty()) shape[static_cast<std::size_t>(below(std::int64_t(shape.size())))] = any_extent();
    if (one_in(8) && !shape.empty()) shape.pop_back();
    if (one_in(8)) shape.push_back(any_extent());
    return shape;
  }
  /// Lists in attributes and constants speak of all axes, of the spatial ones or of both their ends.
  Extents any_list() {
    const auto rank = static_cast<std::int64_t>(common_.size());
    Extents list(
        static_cast<std::size_t>(any_of<std::int64_t>({0, 1, 1, 2, rank, rank, std::max<std::int64_t>(rank - 2, 0),
                                                       2 * rank, std::max<std::int64_t>(2 * rank - 4, 0), below(7)})));
    const bool calm = one_in(2);
    for (std::int64_t& number : list) number = calm ? below(3) + 1 : any_number();
    return list;
  }

  std::int64_t arity(int least, int most) {
    const std::int64_t end = std::min(most, least + 4);
    const std::int64_t count = end < least ? least : least + below(end - least + 1);
    if (!one_in(16)) return count;
    return std::max<std::int64_t>(0, count + below(3) - 1);
  }

  /// One of the types that the schema allows at a place, the same for all places of a type parameter; or any.
  int element_type(const std::vector<onnx::OpSchema::FormalParameter>& places, std::size_t k) {
    if (places.empty() || one_in(24)) return static_cast<int>(below(27));
    const auto& place = places[std::min(k, places.size() - 1)];
    const auto chosen = types_.find(place.GetTypeStr());
    if (chosen != types_.end() && !one_in(24)) return chosen->second;
    std::vector<std::string> names;
    for (const auto* type : place.GetTypes()) names.push_back(*type);
    std::sort(names.begin(), names.end());  // the set's own order depends on addresses
    if (names.empty()) return onnx::TensorProto::FLOAT;
    std::string name = any_of(names);
    if (one_in(2) && std::find(names.begin(), names.end(), "tensor(float)") != names.end()) name = "tensor(float)";
    const onnx::TypeProto type = onnx::Utils::DataTypeUtils::ToTypeProto(onnx::Utils::DataTypeUtils::ToType(name));
    const int element = type.has_tensor_type() ? type.tensor_type().elem_type() : onnx::TensorProto::FLOAT;
    types_[place.GetTypeStr()] = element;
    return element;
  }

  void add_input() {
    const auto k = static_cast<std::size_t>(node_->input_size());
    if (one_in(24)) return node_->add_input("");
    if (k > 0 && one_in(24)) return node_->add_input(node_->input(0));
    const std::string name = "i" + std::to_string(k);
    node_->add_input(name);
    const int type = element_type(schema_.inputs(), k);
    const bool integers = type == onnx::TensorProto::INT64;
    if (one_in(integers ? 6 : 2) || k == 0) {
      describe(*graph().add_input(), name, type, integers && one_in(2) ? Extents{any_extent()} : input_shape());
    } else {
      onnx::TensorProto& tensor = *graph().add_initializer();
      fill(tensor, type);
      tensor.set_name(name);
    }
  }

  void describe(onnx::ValueInfoProto& value, const std::string& name, int type, const Extents& shape) {
    value.set_name(name);
    if (one_in(100)) return;
    auto& tensor = *value.mutable_type()->mutable_tensor_type();
    tensor.set_elem_type(type);
    if (one_in(100)) return;
    tensor.mutable_shape();
    for (const std::int64_t extent : shape) {
      auto& dimension = *tensor.mutable_shape()->add_dim();
      if (one_in(200)) {
        dimension.set_dim_param("n");
      } else if (!one_in(200)) {
        dimension.set_dim_value(one_in(200) ? any_number() : one_in(40) ? 0 : std::max<std::int64_t>(1, extent));
      }
    }
  }

  /// A tensor with its elements, without, or with too few or too many.
  void fill(onnx::TensorProto& tensor, int type) {
    tensor.set_data_type(type);
    const bool list = one_in(2);
    const Extents elements = any_list();
    if (list) {
      if (!elements.empty() || one_in(2)) tensor.add_dims(static_cast<std::int64_t>(elements.size()));
    } else {
      for (const std::int64_t extent : one_in(3) ? Extents{} : input_shape()) tensor.add_dims(extent);
    }
    if (one_in(50) && tensor.dims_size() > 0) tensor.set_dims(0, any_number());
    std::int64_t count = 1;
    for (const std::int64_t extent : tensor.dims()) count = extent >= 0 && extent <= 100 ? count * extent : 1000;
    count = std::min<std::int64_t>(count, 1000);
    if (one_in(24)) count = below(4);
    if (one_in(6)) return;
    std::string bytes;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t value = list && i < std::int64_t(elements.size()) ? elements[std::size_t(i)] : any_number();
      add_element(tensor, type, value);
      for (int byte = 0; byte < 8; ++byte) bytes += static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * byte));
    }
    if (!one_in(4)) return;
    tensor.clear_int64_data();
    tensor.clear_int32_data();
    tensor.clear_float_data();
    tensor.clear_double_data();
    if (one_in(4)) bytes.resize(static_cast<std::size_t>(below(static_cast<std::int64_t>(bytes.size()) + 1)));
    tensor.set_raw_data(bytes);
  }
  static void add_element(onnx::TensorProto& tensor, int type, std::int64_t value) {
    switch (type) {
      case onnx::TensorProto::FLOAT:
        return tensor.add_float_data(static_cast<float>(value));
      case onnx::TensorProto::DOUBLE:
        return tensor.add_double_data(static_cast<double>(value));
      case onnx::TensorProto::INT64:
        return tensor.add_int64_data(value);
      default:
        return tensor.add_int32_data(static_cast<std::int32_t>(value));
    }
  }

  void add_output() {
    const auto k = static_cast<std::size_t>(node_->output_size());
    if (k > 0 && one_in(12)) return node_->add_output("");
    const std::string name = k > 0 && one_in(48) ? node_->output(0) : "o" + std::to_string(k);
    node_->add_output(name);
    if (k > 0 && one_in(3)) return;
    graph().add_output()->set_name(name);
    if (one_in(8)) describe(*graph().add_value_info(), name, element_type(schema_.outputs(), k), input_shape());
  }

  void add_attribute(const std::string& name, int type) {
    onnx::AttributeProto& attribute = *node_->add_attribute();
    attribute.set_name(name);
    if (one_in(32)) type = static_cast<int>(below(15));
    if (onnx::AttributeProto::AttributeType_IsValid(type)) {
      attribute.set_type(static_cast<onnx::AttributeProto::AttributeType>(type));
    }
    if (one_in(64)) attribute.set_ref_attr_name("elsewhere");
    if (one_in(64)) return;
    switch (type) {
      case onnx::AttributeProto::FLOAT:
        return attribute.set_f(static_cast<float>(any_number()) / 2);
      case onnx::AttributeProto::INT:
        return attribute.set_i(one_in(2) ? below(2) : any_number());
      case onnx::AttributeProto::STRING:
        return attribute.set_s(any_text());
      case onnx::AttributeProto::TENSOR:
        return fill(*attribute.mutable_t(), static_cast<int>(below(14)));
      case onnx::AttributeProto::SPARSE_TENSOR:
        for (const std::int64_t extent : any_list()) attribute.mutable_sparse_tensor()->add_dims(extent);
        return fill(*attribute.mutable_sparse_tensor()->mutable_values(), onnx::TensorProto::FLOAT);
      case onnx::AttributeProto::GRAPH:
        return attribute.mutable_g()->set_name("inner");
      case onnx::AttributeProto::TYPE_PROTO:
        return attribute.mutable_tp()->mutable_tensor_type()->set_elem_type(static_cast<int>(below(27)));
      case onnx::AttributeProto::FLOATS:
        for (const std::int64_t number : any_list()) attribute.add_floats(static_cast<float>(number) / 2);
        return;
      case onnx::AttributeProto::INTS:
        for (const std::int64_t number : any_list()) attribute.add_ints(number);
        return;
      case onnx::AttributeProto::STRINGS:
        for (std::int64_t k = below(4); k > 0; --k) attribute.add_strings(any_text());
        return;
      case onnx::AttributeProto::TENSORS:
        return fill(*attribute.add_tensors(), onnx::TensorProto::FLOAT);
      default:
        return;
    }
  }
  std::string any_text() {
    return any_of<std::string>(
        {"SAME_UPPER", "SAME_LOWER", "VALID",         "NOTSET",       "none",      "mean",
         "sum",        "forward",    "bidirectional", "reverse",      "linear",    "nearest",
         "DCR",        "CRD",        "constant",      "TO_FLOAT",     "ij,jk->ik", "ij,jk",
         "ii",         "Ab,bC",      "...i,...i",     "...,...->...", "i...j->ji", "a,a,a",
         "->",         ",",          "......",        "é,{->}",       "",          std::string(300, 'a')});
  }

  const onnx::OpSchema& schema_;
  std::mt19937_64 draw_;
  Extents common_;
  /// By type parameter ("T").
  std::map<std::string, int> types_;
  onnx::ModelProto model_;
  onnx::NodeProto* node_ = nullptr;
};

}  // namespace remora::onnx_frontend::test
