// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/write/slice_writer.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "frontends/onnx/loops/loop_rules.hpp"
#include "frontends/onnx/write/onnx_writer.hpp"
#include "frontends/onnx/write/sliced_node.hpp"
#include "frontends/onnx/write/stored_tensor.hpp"
#include "model/error.hpp"
#include "model/quote.hpp"

namespace remora::onnx_frontend {
namespace {

/// A value of the result.
struct Piece {
  std::string name{};
  Shape shape{};
};

Shape with_extent(Shape shape, std::size_t dim, std::int64_t extent) {
  shape[dim] = extent;
  return shape;
}

/// How slices of one storage follow each other: blocks of chunks, which begin and end where slices do.
struct Assembly {
  std::int64_t blocks = 1;
  std::int64_t chunks = 1;
  Bytes chunk{};
};

/// Drops types of values that are no longer there.
void describe_values(onnx::GraphProto& graph) {
  std::unordered_set<std::string> made;
  for (const auto& input : graph.input()) made.insert(input.name());
  for (const auto& initializer : graph.initializer()) made.insert(initializer.name());
  for (const auto& node : graph.node()) made.insert(node.output().begin(), node.output().end());
  auto& infos = *graph.mutable_value_info();
  const auto kept =
      std::remove_if(infos.begin(), infos.end(), [&](const auto& info) { return !made.contains(info.name()); });
  infos.erase(kept, infos.end());
}

class SliceWriter {
 public:
  SliceWriter(onnx::GraphProto& graph, const LoweredModel& lowered, std::span<const Region> regions,
              const SlicedGraph& sliced, const NodeTable& table, FreshNames& fresh)
      : graph_(graph),
        lowered_(lowered),
        network_(lowered.network),
        sliced_(sliced),
        table_(table),
        fresh_(fresh),
        initializers_(graph, fresh),
        axes_(lowered.graph.ops.size(), -1),
        slices_(lowered.graph.ops.size()),
        names_(sliced.graph.tensors.size()),
        shapes_(sliced.graph.tensors.size()),
        last_(lowered.graph.tensors.size()),
        assemblies_(lowered.graph.tensors.size()) {
    for (const Region& region : regions) {
      for (const RegionPart& part : region.parts) {
        for (const SlicedOp& member : part) axes_[member.op] = member.axis;
      }
    }
    for (const OpId v : sliced.ops.ids()) {
      if (sliced.ops[v].slice >= 0) slices_[sliced.ops[v].op].push_back(v);
    }
    for (const TensorId t : sliced.tensors.ids()) last_[sliced.tensors[t].tensor] = t;
    result_.nodes = Table<OpId, std::vector<int>>(sliced.ops.size());
  }

  SlicedNodes run() {
    name_tensors();
    add_nodes();
    initializers_.drop_cut();
    replace_lost_reads();
    describe_values(graph_);
    result_.constants = initializers_.added();
    return std::move(result_);
  }

 private:
  [[nodiscard]] const Node& node_of(OpId v) const { return network_.nodes[lowered_.op_nodes[v]]; }
  [[nodiscard]] const WritableAxis& writable(OpId v) const { return lowered_.writable[v.index()][at(axes_[v])]; }
  [[nodiscard]] const Axis& axis(OpId v) const { return lowered_.graph[v].axes[at(axes_[v])]; }
  [[nodiscard]] const Value& value_of(TensorId t) const { return network_.values[lowered_.tensor_values[t.index()]]; }
  [[nodiscard]] bool is_internal(TensorId s) const { return !sliced_.tensors[s].bytes.empty(); }
  [[nodiscard]] bool is_last(TensorId s) const { return last_[sliced_.tensors[s].tensor] == s; }
  [[nodiscard]] std::int64_t element_bytes(TensorId t) const { return value_of(t).type.bytes(); }

  void name_tensors() {
    for (const OpId v : Ids<OpId>(lowered_.graph.ops.size())) {
      if (axes_[v] < 0 || slices_[v].empty()) continue;
      for (const TensorId t : lowered_.graph[v].outputs) {
        const Cut* const cut = cut_of(axis(v), t);
        if (cut != nullptr && !is_internal(last_[t])) assemblies_[t] = assembly(v, t, *cut);
      }
    }
    if (!uneven_.empty()) {
      const std::string place = "node " + printable(node_of(uneven_.front().op).name);
      throw UnevenSlices(place,
                         "cannot be written in these uneven slices, which a large number of indices would put "
                         "together; ask for another number of slices, which divides its iterations",
                         std::move(uneven_));
    }
    for (const TensorId s : sliced_.tensors.ids()) {
      const TensorSource& source = sliced_.tensors[s];
      const std::string& name = value_of(source.tensor).name;
      const bool has_name = source.slice < 0 || (is_last(s) && !assemblies_[source.tensor] && !is_internal(s));
      names_[s] = has_name ? name : fresh_.make(name + "#" + std::to_string(source.slice));
      if (assemblies_[source.tensor]) shapes_[s] = flat_shape(source.tensor, assemblies_[source.tensor]->chunks);
    }
  }

  [[nodiscard]] Range bytes_of(const Cut& cut, OpId slice) const {
    const Range rows = rows_of(cut, sliced_.ops[slice].iterations);
    return {rows.begin * cut.stride.count(), rows.end * cut.stride.count()};
  }

  [[nodiscard]] Assembly assembly(OpId v, TensorId t, const Cut& cut) {
    const std::int64_t block = cut.block().count();
    std::int64_t chunk = block;
    for (const OpId slice : slices_[v]) {
      const Range bytes = bytes_of(cut, slice);
      chunk = std::gcd(std::gcd(chunk, bytes.begin), bytes.end);
    }
    const std::int64_t size = lowered_.graph[t].size.count();
    const Assembly result{size / block, block / chunk, Bytes(chunk)};
    constexpr std::int64_t kBytesOfIndex = 16;
    constexpr std::int64_t kLargestPart = 4;
    const bool is_uneven = result.blocks * result.chunks * kBytesOfIndex > size / kLargestPart && size > (1 << 16);
    if (is_uneven && (uneven_.empty() || uneven_.back().op != v)) uneven_.push_back({v, axes_[v]});
    return result;
  }

  [[nodiscard]] Shape flat_shape(TensorId t, std::int64_t chunks) const {
    const Assembly& how = *assemblies_[t];
    return {how.blocks, chunks, how.chunk.count() / element_bytes(t)};
  }

  // Nodes of the result.

  onnx::NodeProto& append(onnx::NodeProto node, NodeRole role) {
    result_.table.roles.push_back(role);
    result_.table.names.push_back(node.name());
    if (role == NodeRole::op && group_ != nullptr) group_->push_back(nodes_.size());
    onnx::NodeProto& added = *nodes_.Add();
    added = std::move(node);
    return added;
  }

  onnx::NodeProto made_node(const char* type, const std::string& name, const std::vector<std::string>& inputs,
                            const std::string& output) {
    onnx::NodeProto node;
    node.set_op_type(type);
    node.set_name(fresh_.make(name));
    for (const std::string& input : inputs) node.add_input(input);
    node.add_output(output);
    return node;
  }

  /// The piece in another shape, as a view.
  Piece reshaped(const Piece& piece, const Shape& shape) {
    if (piece.shape == shape) return piece;
    auto& known = views_[{piece.name, shape}];
    if (known.empty()) {
      known = fresh_.make(piece.name + "/view");
      append(made_node("Reshape", known, {piece.name, initializers_.integers(shape)}, known), NodeRole::view);
    }
    return {known, shape};
  }

  Piece sliced(const Piece& piece, std::size_t dim, Range entries) {
    if (entries.begin == 0 && entries.end == piece.shape[dim]) return piece;
    const std::string name = fresh_.make(piece.name + "/slice");
    append(made_node("Slice", name,
                     {piece.name, initializers_.integers({entries.begin}), initializers_.integers({entries.end}),
                      initializers_.integers({static_cast<std::int64_t>(dim)})},
                     name),
           NodeRole::op);
    return {name, with_extent(piece.shape, dim, entries.size())};
  }

  // What a slice reads.

  /// The bytes `wanted` of each block of a piece that has `has` of them.
  Piece part_of_piece(const Piece& piece, TensorId t, std::int64_t block, Range has, Range wanted) {
    const std::int64_t element = element_bytes(t);
    const std::int64_t blocks = lowered_.graph[t].size.count() / block;
    std::int64_t before = 1;
    for (std::size_t dim = 0; dim < piece.shape.size(); ++dim) {
      if (before == blocks && piece.shape[dim] > 1) {
        const std::int64_t entry = has.size() / piece.shape[dim];
        const bool fits =
            has.size() % piece.shape[dim] == 0 && (wanted.begin - has.begin) % entry == 0 && wanted.size() % entry == 0;
        if (fits) {
          const std::int64_t first = (wanted.begin - has.begin) / entry;
          return sliced(piece, dim, {first, first + wanted.size() / entry});
        }
        break;
      }
      before *= piece.shape[dim];
    }
    const Piece flat = reshaped(piece, {blocks, has.size() / element});
    const std::int64_t first = (wanted.begin - has.begin) / element;
    return sliced(flat, 1, {first, first + wanted.size() / element});
  }

  /// The name of what the slice reads at a position.
  std::string read(OpId slice, std::size_t k, const std::string& name, std::map<TensorId, Piece>& known) {
    const OpId v = sliced_.ops[slice].op;
    const auto& inputs = writable(v).inputs;
    if (name.empty() || k >= inputs.size() || !inputs[k]) return name;
    const DimCut& cut = *inputs[k];
    const ValueId id = node_of(v).inputs[k];
    const Value& value = network_.values[id];
    const Range entries = cut.entries_of(sliced_.ops[slice].iterations);
    if (network_.values[network_.storage(id)].kind == ValueKind::parameter) {
      if (entries.begin == 0 && entries.end == value.shape[cut.dim]) return name;
      return initializers_.part(name, cut.dim, entries);
    }
    const Shape wanted = with_extent(value.shape, cut.dim, entries.size());
    const auto read_tensor = std::ranges::find_if(sliced_.graph[slice].inputs, [&](TensorId s) {
      return lowered_.tensor_values[sliced_.tensors[s].tensor.index()] == network_.storage(id);
    });
    ensure(read_tensor != sliced_.graph[slice].inputs.end(), "slices: an op does not read what its source reads");
    const TensorId s = *read_tensor;
    const TensorId t = sliced_.tensors[s].tensor;
    auto found = known.find(t);
    if (found == known.end()) {
      Piece piece;
      const Cut& bytes = *cut_of(axis(v), t);
      if (is_internal(s)) {
        piece = part_of_piece({names_[s], shapes_[s]}, t, bytes.block().count(), sliced_.tensors[s].bytes,
                              bytes_of(bytes, slice));
      } else if (is_last(s)) {
        piece = sliced({name, value.shape}, cut.dim, entries);
      } else {
        piece = part_of_piece({names_[s], shapes_[s]}, t, bytes.block().count(), {0, bytes.block().count()},
                              bytes_of(bytes, slice));
      }
      found = known.emplace(t, std::move(piece)).first;
    }
    return reshaped(found->second, wanted).name;
  }

  // What a slice writes.

  void add_slice(OpId slice, const onnx::NodeProto& original) {
    const OpSource& source = sliced_.ops[slice];
    const OpId v = source.op;
    const Node& node = node_of(v);
    group_ = &result_.nodes[slice];
    onnx::NodeProto copy = original;
    const std::string name = fresh_.make(node.name + "#" + std::to_string(source.slice));
    copy.set_name(name);
    std::map<TensorId, Piece> known;
    for (int k = 0; k < copy.input_size(); ++k) copy.set_input(k, read(slice, at(k), original.input(k), known));
    const auto constant = [&](const std::vector<std::int64_t>& elements) { return initializers_.integers(elements); };
    make_slice({network_, node, writable(v), source.iterations, source.slice}, constant, copy);
    std::vector<std::pair<std::size_t, TensorId>> to_join;
    for (int k = 0; k < copy.output_size(); ++k) {
      const ValueId id = at(k) < node.outputs.size() ? node.outputs[at(k)] : ValueId();
      if (!id.valid()) {
        copy.set_output(k, "");
        continue;
      }
      const TensorId s = written(slice, id);
      const bool joins = !is_internal(s) && (assemblies_[sliced_.tensors[s].tensor] || source.slice > 0);
      if (joins) to_join.emplace_back(at(k), s);
      copy.set_output(k, joins ? fresh_.make(names_[s] + "/part") : names_[s]);
      if (is_internal(s)) shapes_[s] = made_shape(slice, at(k));
    }
    const onnx::NodeProto& added = append(std::move(copy), NodeRole::op);
    const std::vector<std::string> outputs(added.output().begin(), added.output().end());
    for (const auto& [k, s] : to_join) join(slice, s, {outputs[k], made_shape(slice, k)}, name);
    group_ = nullptr;
  }

  [[nodiscard]] TensorId written(OpId slice, ValueId id) const {
    for (const TensorId s : sliced_.graph[slice].outputs) {
      if (lowered_.tensor_values[sliced_.tensors[s].tensor.index()] == id) return s;
    }
    ensure(false, "slices: an op does not write what its source writes");
    return {};
  }

  [[nodiscard]] Shape made_shape(OpId slice, std::size_t k) const {
    const OpId v = sliced_.ops[slice].op;
    const Shape& whole = network_.values[node_of(v).outputs[k]].shape;
    const auto& cut = writable(v).outputs[k];
    if (!cut) return whole;
    return with_extent(whole, cut->dim, cut->entries_of(sliced_.ops[slice].iterations).size());
  }

  /// Puts rows or a term to what earlier slices have made.
  void join(OpId slice, TensorId s, const Piece& part, const std::string& name) {
    const TensorId t = sliced_.tensors[s].tensor;
    const int number = sliced_.ops[slice].slice;
    TensorId previous;
    for (const TensorId input : sliced_.graph[slice].inputs) {
      if (sliced_.tensors[input].tensor == t) previous = input;
    }
    ensure(previous.valid() == (number > 0), "slices: a slice does not add to the one before it");
    if (!assemblies_[t]) {
      append(made_node("Add", name + "/sum", {names_[previous], part.name}, names_[s]), NodeRole::op);
      result_.in_place.insert(names_[s]);
      return;
    }
    const Assembly& how = *assemblies_[t];
    const OpId v = sliced_.ops[slice].op;
    const Range bytes = bytes_of(*cut_of(axis(v), t), slice);
    const Range chunks{bytes.begin / how.chunk.count(), bytes.end / how.chunk.count()};
    const Piece flat = reshaped(part, flat_shape(t, chunks.size()));
    if (number == 0) {
      const std::string pads = initializers_.integers({0, 0, 0, 0, how.chunks - chunks.size(), 0});
      append(made_node("Pad", name + "/whole", {flat.name, pads}, names_[s]), NodeRole::op);
    } else {
      const std::string indices = indices_of(how.blocks, chunks);
      append(made_node("ScatterND", name + "/into", {names_[previous], indices, flat.name}, names_[s]), NodeRole::op);
      result_.in_place.insert(names_[s]);
    }
    if (!is_last(s)) return;
    const Value& value = value_of(t);
    append(made_node("Reshape", name + "/done", {names_[s], initializers_.integers(value.shape)}, value.name),
           NodeRole::view);
  }

  std::string indices_of(std::int64_t blocks, Range chunks) {
    std::vector<std::int64_t> elements;
    for (std::int64_t block = 0; block < blocks; ++block) {
      for (std::int64_t chunk = chunks.begin; chunk < chunks.end; ++chunk) {
        elements.push_back(block);
        elements.push_back(chunk);
      }
    }
    return initializers_.integers(elements, {blocks, chunks.size(), 2});
  }

  // The rest of the graph.

  void add_nodes() {
    std::unordered_map<int, OpId> ops;
    for (const OpId v : Ids<OpId>(lowered_.graph.ops.size())) ops.emplace(node_of(v).position, v);
    Table<OpId, OpId> whole(lowered_.graph.ops.size());
    for (const OpId s : sliced_.ops.ids()) {
      if (sliced_.ops[s].slice < 0) whole[sliced_.ops[s].op] = s;
    }
    for (int k = 0; k < graph_.node_size(); ++k) {
      const auto found = ops.find(k);
      if (found != ops.end() && !slices_[found->second].empty()) {
        for (const OpId slice : slices_[found->second]) add_slice(slice, graph_.node(k));
        continue;
      }
      if (found != ops.end()) result_.nodes[whole[found->second]].push_back(nodes_.size());
      result_.table.roles.push_back(table_.roles[at(k)]);
      result_.table.names.push_back(table_.names[at(k)]);
      *nodes_.Add() = graph_.node(k);
    }
  }

  /// Views of what is in slices go; what is known of its shape becomes constants.
  void replace_lost_reads() {
    std::unordered_set<std::string> lost;
    for (const TensorId t : last_.ids()) {
      if (is_internal(last_[t])) lost.insert(value_of(t).name);
    }
    std::unordered_map<std::string, ValueId> values;
    for (std::size_t k = 0; k < network_.values.size(); ++k) values.emplace(network_.values[k].name, ValueId(k));
    std::vector<int> positions(at(nodes_.size()), -1);
    google::protobuf::RepeatedPtrField<onnx::NodeProto> kept;
    NodeTable table;
    for (int k = 0; k < nodes_.size(); ++k) {
      onnx::NodeProto& node = *nodes_.Mutable(k);
      std::string missing;
      visit_reads(node, [&](const std::string& name) {
        if (lost.contains(name)) missing = name;
      });
      if (!missing.empty()) {
        replace(node, result_.table.roles[at(k)], missing, values, lost);
        continue;
      }
      positions[at(k)] = kept.size();
      table.roles.push_back(result_.table.roles[at(k)]);
      table.names.push_back(std::move(result_.table.names[at(k)]));
      kept.Add()->Swap(&node);
    }
    for (std::vector<int>& group : result_.nodes) {
      for (int& position : group) position = positions[at(position)];
    }
    result_.table = std::move(table);
    graph_.mutable_node()->Swap(&kept);
  }

  void replace(const onnx::NodeProto& node, NodeRole role, const std::string& missing,
               const std::unordered_map<std::string, ValueId>& values, std::unordered_set<std::string>& lost) {
    for (const std::string& output : node.output()) {
      if (output.empty()) continue;
      const auto found = values.find(output);
      if (role == NodeRole::view) {
        lost.insert(output);
        continue;
      }
      // Nobody uses it.
      if (found == values.end() && role == NodeRole::other) continue;
      const Value* const value = found == values.end() ? nullptr : &network_.values[found->second];
      constexpr int kBitsOfIndex = 64;
      const bool is_known = role == NodeRole::other && !value->constant.empty() && !value->type.floating &&
                            value->type.bits == kBitsOfIndex && !value->output;
      if (!is_known) {
        throw InputError(node_place(node), "reads " + quote(missing) + ", which is computed in slices");
      }
      initializers_.add(integer_tensor(output, value->shape, value->constant));
    }
  }

  onnx::GraphProto& graph_;
  const LoweredModel& lowered_;
  const Network& network_;
  const SlicedGraph& sliced_;
  const NodeTable& table_;
  FreshNames& fresh_;
  SliceInitializers initializers_;
  /// By op of the model's graph: the axis, and its slices; -1 and none of one that is not cut.
  Table<OpId, int> axes_;
  std::vector<SlicedOp> uneven_{};
  Table<OpId, std::vector<OpId>> slices_;
  /// By tensor of the sliced graph.
  Table<TensorId, std::string> names_;
  Table<TensorId, Shape> shapes_;
  /// By tensor of the model's graph.
  Table<TensorId, TensorId> last_;
  Table<TensorId, std::optional<Assembly>> assemblies_;
  std::map<std::pair<std::string, Shape>, std::string> views_;
  NodeCopies::Nodes nodes_;
  std::vector<int>* group_ = nullptr;
  SlicedNodes result_;
};

}  // namespace

SlicedNodes write_slices(onnx::GraphProto& graph, const LoweredModel& lowered, std::span<const Region> regions,
                         const SlicedGraph& sliced, const NodeTable& table, FreshNames& fresh) {
  return SliceWriter(graph, lowered, regions, sliced, table, fresh).run();
}

}  // namespace remora::onnx_frontend
