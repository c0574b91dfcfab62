// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/write/stored_tensor.hpp"

#include <algorithm>
#include <utility>

#include "model/error.hpp"
#include "model/quote.hpp"

namespace remora::onnx_frontend {
namespace {

template <class Stored, class Element>
std::string packed(const Stored& elements) {
  std::string bytes;
  bytes.reserve(static_cast<std::size_t>(elements.size()) * sizeof(Element));
  for (const auto& stored : elements) {
    const auto element = static_cast<Element>(stored);
    bytes.append(reinterpret_cast<const char*>(&element), sizeof(Element));
  }
  return bytes;
}

/// The bytes of the elements as raw_data has them, whichever field they are in; empty for other types.
std::string raw_bytes(const onnx::TensorProto& tensor) {
  using Type = onnx::TensorProto;
  if (tensor.has_raw_data()) return tensor.raw_data();
  switch (tensor.data_type()) {
    case Type::FLOAT:
      return packed<decltype(tensor.float_data()), float>(tensor.float_data());
    case Type::DOUBLE:
      return packed<decltype(tensor.double_data()), double>(tensor.double_data());
    case Type::INT64:
      return packed<decltype(tensor.int64_data()), std::int64_t>(tensor.int64_data());
    case Type::UINT64:
      return packed<decltype(tensor.uint64_data()), std::uint64_t>(tensor.uint64_data());
    case Type::UINT32:
      return packed<decltype(tensor.uint64_data()), std::uint32_t>(tensor.uint64_data());
    case Type::INT32:
      return packed<decltype(tensor.int32_data()), std::int32_t>(tensor.int32_data());
    case Type::INT16:
    case Type::UINT16:
    case Type::FLOAT16:
    case Type::BFLOAT16:
      return packed<decltype(tensor.int32_data()), std::uint16_t>(tensor.int32_data());
    case Type::INT8:
    case Type::UINT8:
    case Type::BOOL:
      return packed<decltype(tensor.int32_data()), std::uint8_t>(tensor.int32_data());
    default:
      return {};
  }
}

}  // namespace

onnx::TensorProto integer_tensor(const std::string& name, const std::vector<std::int64_t>& shape,
                                 const std::vector<std::int64_t>& elements) {
  onnx::TensorProto tensor;
  tensor.set_name(name);
  tensor.set_data_type(onnx::TensorProto::INT64);
  for (const std::int64_t extent : shape) tensor.add_dims(extent);
  tensor.set_raw_data(packed<std::vector<std::int64_t>, std::int64_t>(elements));
  return tensor;
}

onnx::TensorProto part_of(const onnx::TensorProto& tensor, const std::string& name, std::size_t dim, Range entries) {
  std::size_t blocks = 1;
  std::size_t inner = 1;
  for (int k = 0; k < tensor.dims_size(); ++k) {
    const auto extent = static_cast<std::size_t>(tensor.dims(k));
    if (static_cast<std::size_t>(k) < dim) blocks *= extent;
    if (static_cast<std::size_t>(k) > dim) inner *= extent;
  }
  const auto rows = static_cast<std::size_t>(tensor.dims(static_cast<int>(dim)));
  const std::string whole = raw_bytes(tensor);
  const std::size_t count = blocks * rows * inner;
  if (whole.empty() || whole.size() % count != 0) {
    throw InputError("initializer " + printable(tensor.name()), "has no elements that could be cut into slices");
  }
  const std::size_t row = inner * (whole.size() / count);
  const auto begin = static_cast<std::size_t>(entries.begin);
  const auto size = static_cast<std::size_t>(entries.size());
  std::string part;
  part.reserve(blocks * size * row);
  for (std::size_t block = 0; block < blocks; ++block) part.append(whole, (block * rows + begin) * row, size * row);
  onnx::TensorProto result;
  result.set_name(name);
  result.set_data_type(tensor.data_type());
  *result.mutable_dims() = tensor.dims();
  result.set_dims(static_cast<int>(dim), entries.size());
  result.set_raw_data(std::move(part));
  return result;
}

std::string SliceInitializers::integers(const std::vector<std::int64_t>& elements, std::vector<std::int64_t> shape) {
  if (shape.empty()) shape = {static_cast<std::int64_t>(elements.size())};
  auto& known = constants_[{shape, elements}];
  if (known.empty()) {
    known = fresh_.make("slice_constant");
    add(integer_tensor(known, shape, elements));
  }
  return known;
}

void SliceInitializers::add(onnx::TensorProto constant) {
  added_ += Bytes(static_cast<std::int64_t>(constant.raw_data().size()));
  *graph_.add_initializer() = std::move(constant);
}

std::string SliceInitializers::part(const std::string& name, std::size_t dim, Range entries) {
  auto& known = parts_[{name, dim, entries.begin, entries.end}];
  if (!known.empty()) return known;
  const auto whole = std::ranges::find(graph_.initializer(), name, &onnx::TensorProto::name);
  ensure(whole != graph_.initializer().end(), "slices: weights that are no initializer");
  known = fresh_.make(name + "#" + std::to_string(entries.begin));
  onnx::TensorProto made = part_of(*whole, known, dim, entries);
  if (cut_.insert(name).second) {
    const auto row = static_cast<std::int64_t>(made.raw_data().size()) / entries.size();
    added_ -= Bytes(row * whole->dims(static_cast<int>(dim)));
  }
  add(std::move(made));
  return known;
}

void SliceInitializers::drop_cut() {
  auto& all = *graph_.mutable_initializer();
  const auto kept =
      std::remove_if(all.begin(), all.end(), [&](const onnx::TensorProto& one) { return cut_.contains(one.name()); });
  all.erase(kept, all.end());
}

}  // namespace remora::onnx_frontend
