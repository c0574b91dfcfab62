// SPDX-License-Identifier: Apache-2.0
#include "frontends/tflite/draft.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>

#include "frontends/tflite/addition.hpp"

namespace remora::tflite {
namespace {

using flatbuffer::Position;

/// Kinds of operators that slices need, which the file may not have.
constexpr std::array kNewCodes{Code::slice, Code::pad, Code::concatenation};
/// The version of these that knows integers of 8 bits.
constexpr std::int32_t kVersionOfNew = 2;
constexpr std::uint8_t kInt32 = 2;
constexpr std::uint8_t kConcatenationOptions = 10;

/// Writes a draft. References go forward: tables first, then what they refer to.
class Writer {
 public:
  Writer(const Model& model, const std::vector<NewTensor>& tensors, const std::vector<DraftOperator>& operators)
      : model_(model), tensors_(tensors), operators_(operators) {}

  std::string run(std::string_view bytes) {
    const auto fields =
        put_model(added_, model_, {field::model::operator_codes, field::model::subgraphs, field::model::buffers});
    put_codes(fields[field::model::operator_codes]);
    put_buffers(fields[field::model::buffers]);
    put_subgraph(fields[field::model::subgraphs]);
    std::string written = added_.finish(bytes);
    if (written.size() > std::numeric_limits<std::int32_t>::max()) model_.reader.fail("has 2 GiB or more in slices");
    return written;
  }

 private:
  void put_codes(Position from) {
    const Tables old(model_.reader, model_.table, field::model::operator_codes);
    codes_ = old.size();
    added_.refer(from, added_.end());
    const std::vector<Position> places = put_tables(added_, old, kNewCodes.size());
    for (std::size_t i = 0; i < kNewCodes.size(); ++i) {
      const auto [table, fields] = added_.put_table<4>({true, false, true, true});
      added_.refer(places[i], table);
      added_.set(fields[field::code::deprecated], static_cast<std::int8_t>(kNewCodes[i]));
      added_.set(fields[field::code::version], kVersionOfNew);
      added_.set(fields[field::code::builtin], static_cast<std::int32_t>(kNewCodes[i]));
    }
  }

  void put_buffers(Position from) {
    const Tables old(model_.reader, model_.table, field::model::buffers);
    const auto is_constant = [](const NewTensor& tensor) { return tensor.like < 0; };
    const auto constants = static_cast<std::size_t>(std::ranges::count_if(tensors_, is_constant));
    added_.refer(from, added_.end());
    // One more without data, for tensors without any.
    const std::vector<Position> places = put_tables(added_, old, constants + 1);
    empty_ = old.size() + constants;
    buffers_ = old.size();
    std::size_t next = 0;
    for (const NewTensor& tensor : tensors_) {
      if (is_constant(tensor)) added_.refer(places[next++], added_.put_buffer(tensor.elements));
    }
    added_.refer(places[next], added_.put_table<1>({false}).first);
  }

  void put_subgraph(Position from) {
    added_.refer(from, added_.end());
    const Position place = added_.put_references(1).front();
    std::array<bool, field::subgraph::count> present{};
    const Position old = model_.subgraph;
    for (std::size_t i = 0; i < present.size(); ++i) present[i] = model_.reader.field(old, i).has_value();
    const auto [table, fields] = added_.put_table(present);
    added_.refer(place, table);
    for (const auto i : {field::subgraph::inputs, field::subgraph::outputs, field::subgraph::name}) {
      if (present[i]) added_.refer_to_old(fields[i], model_.reader.target(*model_.reader.field(old, i)));
    }
    if (present[field::subgraph::debug]) {
      added_.set(fields[field::subgraph::debug], model_.reader.number_in<std::uint32_t>(old, field::subgraph::debug));
    }
    added_.refer(fields[field::subgraph::tensors], added_.end());
    const Tables old_tensors(model_.reader, old, field::subgraph::tensors);
    put_tensors(old_tensors);
    added_.refer(fields[field::subgraph::operators], added_.end());
    const std::vector<Position> places = added_.put_references(operators_.size());
    for (std::size_t i = 0; i < operators_.size(); ++i) put_operator(places[i], operators_[i]);
  }

  /// The runtime would allocate what no operator uses any more, unless it has no elements.
  void put_tensors(const Tables& old) {
    std::vector<bool> used(old.size() + tensors_.size(), false);
    const auto use = [&](std::int32_t t) {
      if (t >= 0) used[at(t)] = true;
    };
    std::ranges::for_each(model_.inputs, use);
    std::ranges::for_each(model_.outputs, use);
    for (const DraftOperator& op : operators_) {
      std::ranges::for_each(op.inputs, use);
      std::ranges::for_each(op.outputs, use);
    }
    const std::vector<Position> places = added_.put_references(used.size());
    for (std::size_t i = 0; i < old.size(); ++i) {
      const auto number = static_cast<std::int32_t>(i);
      if (used[i] || !model_.tensor(number).is_activation()) {
        added_.refer_to_old(places[i], old.at(i));
      } else {
        put_tensor(places[i], {.name = model_.tensor(number).name, .shape = {0}, .like = number});
      }
    }
    for (std::size_t i = 0; i < tensors_.size(); ++i) put_tensor(places[old.size() + i], tensors_[i]);
  }

  void put_tensor(Position from, const NewTensor& tensor) {
    const bool is_constant = tensor.like < 0;
    const Position like = is_constant ? 0 : model_.tensor(tensor.like).table;
    const auto quantization = is_constant ? std::nullopt : model_.reader.field(like, field::tensor::quantization);
    std::array<bool, field::tensor::quantization + 1> present{true, true, true, true, quantization.has_value()};
    const auto [table, fields] = added_.put_table(present);
    added_.refer(from, table);
    added_.set(fields[field::tensor::type], is_constant ? kInt32 : model_.tensor(tensor.like).type);
    added_.set(fields[field::tensor::buffer], static_cast<std::uint32_t>(is_constant ? buffers_++ : empty_));
    if (quantization) added_.refer_to_old(fields[field::tensor::quantization], model_.reader.target(*quantization));
    added_.refer(fields[field::tensor::shape], added_.end());
    added_.put_numbers(std::vector<std::int32_t>(tensor.shape.begin(), tensor.shape.end()));
    added_.refer(fields[field::tensor::name], added_.end());
    added_.put_text(tensor.name);
  }

  void put_operator(Position from, const DraftOperator& op) {
    const Operator* const like = op.like < 0 ? nullptr : &model_.operators[at(op.like)];
    if (like != nullptr && like->inputs == op.inputs && like->outputs == op.outputs && !op.is_valid) {
      added_.refer_to_old(from, like->table);
      return;
    }
    std::array<bool, field::operation::count> present{};
    for (std::size_t i = 0; i < present.size(); ++i) {
      present[i] = like != nullptr && model_.reader.field(like->table, i).has_value();
    }
    const bool is_new_concatenation = like == nullptr && op.code == Code::concatenation;
    present[field::operation::code] = present[field::operation::inputs] = present[field::operation::outputs] = true;
    present[field::operation::outside] = present[field::operation::outside_size] = false;
    if (is_new_concatenation) present[field::operation::options_type] = present[field::operation::options] = true;
    const auto [table, fields] = added_.put_table(present);
    added_.refer(from, table);
    if (like != nullptr) copy_fields(*like, op, fields, present);
    if (like == nullptr) added_.set(fields[field::operation::code], new_code(op.code));
    added_.refer(fields[field::operation::inputs], added_.end());
    added_.put_numbers(op.inputs);
    added_.refer(fields[field::operation::outputs], added_.end());
    added_.put_numbers(op.outputs);
    if (op.is_valid) {
      put_valid_options(fields[field::operation::options], *like);
    } else if (is_new_concatenation) {
      added_.set(fields[field::operation::options_type], kConcatenationOptions);
      const auto [options, values] = added_.put_table<2>({true, true});
      added_.refer(fields[field::operation::options], options);
      added_.set(values[0], op.axis);
    }
  }

  using Fields = std::array<Position, field::operation::count>;

  void copy_fields(const Operator& like, const DraftOperator& op, const Fields& fields,
                   const std::array<bool, field::operation::count>& present) {
    constexpr std::array<std::size_t, 3> kBytes{field::operation::options_type, 6, 11};
    for (std::size_t i = 0; i < present.size(); ++i) {
      const bool is_anew = i == field::operation::inputs || i == field::operation::outputs ||
                           (i == field::operation::options && op.is_valid);
      if (!present[i] || is_anew) continue;
      if (i == field::operation::code) {
        added_.set(fields[i], model_.reader.number_in<std::uint32_t>(like.table, i));
      } else if (std::ranges::find(kBytes, i) != kBytes.end()) {
        added_.set(fields[i], model_.reader.number_in<std::uint8_t>(like.table, i));
      } else {
        added_.refer_to_old(fields[i], model_.reader.target(*model_.reader.field(like.table, i)));
      }
    }
  }

  /// The options of a convolution or a pool, whose padding comes first; the others have four bytes, or one.
  void put_valid_options(Position from, const Operator& like) {
    constexpr std::size_t kFields = 7;
    std::array<bool, kFields> present{};
    for (std::size_t i = 0; i < kFields; ++i) present[i] = i == 0 || model_.reader.field(like.options, i).has_value();
    const auto [table, fields] = added_.put_table(present);
    added_.refer(from, table);
    added_.set(fields[0], kValid);
    for (std::size_t i = 1; i < kFields; ++i) {
      if (!present[i]) continue;
      if (is_byte(like.code, i)) {
        added_.set(fields[i], model_.reader.number_in<std::uint8_t>(like.options, i));
      } else {
        added_.set(fields[i], model_.reader.number_in<std::int32_t>(like.options, i));
      }
    }
  }

  static bool is_byte(Code code, std::size_t field) {
    if (code == Code::conv) return field == 3 || field == 6;
    return field == (code == Code::depthwise_conv ? 4U : 5U);
  }

  [[nodiscard]] std::uint32_t new_code(Code code) const {
    const auto found = std::ranges::find(kNewCodes, code);
    return static_cast<std::uint32_t>(codes_ + static_cast<std::size_t>(found - kNewCodes.begin()));
  }

  const Model& model_;
  const std::vector<NewTensor>& tensors_;
  const std::vector<DraftOperator>& operators_;
  Addition added_;
  std::size_t codes_ = 0;
  std::size_t buffers_ = 0;
  std::size_t empty_ = 0;
};

}  // namespace

std::int32_t Draft::add_tensor(NewTensor tensor) {
  tensors_.push_back(std::move(tensor));
  return static_cast<std::int32_t>(model_.tensors.size() + tensors_.size() - 1);
}

std::int32_t Draft::constant(const std::vector<std::int64_t>& elements, const Shape& shape) {
  const auto [place, is_new] = constants_.try_emplace({shape, elements}, 0);
  if (is_new) {
    place->second = add_tensor({.name = "remora/constant" + std::to_string(constants_.size()),
                                .shape = shape,
                                .elements = {elements.begin(), elements.end()}});
  }
  return place->second;
}

const Shape& Draft::shape(std::int32_t tensor) const {
  const std::size_t old = model_.tensors.size();
  return at(tensor) < old ? model_.tensors[at(tensor)].shape : tensors_[at(tensor) - old].shape;
}

std::int32_t Draft::like(std::int32_t tensor) const {
  const std::size_t old = model_.tensors.size();
  return at(tensor) < old ? tensor : tensors_[at(tensor) - old].like;
}

std::string Draft::write(std::string_view bytes) const {
  return Writer(model_, tensors_, operators_).run(bytes);
}

}  // namespace remora::tflite
