// SPDX-License-Identifier: Apache-2.0
#include "frontends/tflite/writer.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <unordered_set>
#include <utility>

#include "frontends/tflite/addition.hpp"
#include "frontends/tflite/draft.hpp"
#include "model/error.hpp"
#include "model/table.hpp"

namespace remora::tflite {
namespace {

/// TFLite Micro's CONCATENATION takes no more inputs.
constexpr std::size_t kMostToJoin = 10;

/// A tensor of the new model that has some rows of one dimension of a tensor of the graph.
struct Piece {
  Range rows{};
  std::int32_t tensor = -1;
};

/// The parts of a tensor of the sliced graph.
struct Stored {
  std::size_t dim = 0;
  std::vector<Piece> pieces{};
  /// All of it; -1 where it is not put together.
  std::int32_t whole = -1;
};

class Rewriter {
 public:
  Rewriter(const LoweredModel& lowered, std::span<const Region> regions, const SlicedGraph& sliced)
      : lowered_(lowered),
        sliced_(sliced),
        draft_(lowered.model),
        axes_(lowered.graph.ops.size(), -1),
        writes_left_(lowered.graph.tensors.size(), 0),
        stored_(sliced.tensors.size()) {
    for (const Region& region : regions) {
      for (const RegionPart& part : region.parts) {
        for (const SlicedOp& member : part) axes_[member.op] = member.axis;
      }
    }
  }

  const Draft& run(const Sequence& ops) {
    const auto count = [&](OpId v, int runs) {
      for (const TensorId s : sliced_.graph[v].outputs) writes_left_[sliced_.tensors[s].tensor] += runs;
    };
    for (const OpId v : ops) count(v, 1);
    for (const OpId v : ops) {
      count(v, -1);
      const OpSource& source = sliced_.ops[v];
      if (lowered_.operators[source.op.index()] < 0) {
        for (const TensorId s : sliced_.graph[v].outputs) stored_[s].whole = original(s);
      } else if (source.slice < 0) {
        run_whole(v);
      } else {
        run_slice(v);
      }
    }
    for (const TensorId s : sliced_.tensors.ids()) {
      if (sliced_.graph[s].keep) ensure(whole(s) == original(s), "tflite: an output of the model has another number");
    }
    return draft_;
  }

 private:
  [[nodiscard]] const Model& model() const { return lowered_.model; }
  [[nodiscard]] const Operator& operator_of(OpId v) const {
    return model().operators[at(lowered_.operators[sliced_.ops[v].op.index()])];
  }
  /// The number in the file.
  [[nodiscard]] std::int32_t original(TensorId s) const { return lowered_.tensors[sliced_.tensors[s].tensor.index()]; }
  [[nodiscard]] const OpAxis& axis(OpId v) const {
    const OpId source = sliced_.ops[v].op;
    return lowered_.axes[source.index()][static_cast<std::size_t>(axes_[source])];
  }

  /// The version of a tensor of the file that the op of the sliced graph reads.
  [[nodiscard]] TensorId read_by(OpId v, std::int32_t tensor) const {
    const auto& inputs = sliced_.graph[v].inputs;
    const auto found = std::ranges::find_if(inputs, [&](TensorId s) { return original(s) == tensor; });
    ensure(found != inputs.end(), "tflite: an op does not read what its source reads");
    return *found;
  }

  std::int32_t new_like(std::int32_t tensor, Shape shape) {
    const std::int32_t like = draft_.like(tensor);
    const std::string name = model().tensor(like).name + "#" + std::to_string(++made_);
    return draft_.add_tensor({.name = name, .shape = std::move(shape), .like = like});
  }

  // Parts of tensors.

  std::int32_t slice_of(std::int32_t tensor, std::size_t dim, Range rows) {
    Shape shape = draft_.shape(tensor);
    if (rows.begin == 0 && rows.end == shape[dim]) return tensor;
    Shape begin(shape.size(), 0);
    begin[dim] = rows.begin;
    shape[dim] = rows.size();
    const Shape vector{static_cast<std::int64_t>(shape.size())};
    const std::int32_t made = new_like(tensor, shape);
    draft_.add_operator({.code = Code::slice,
                         .inputs = {tensor, draft_.constant(begin, vector), draft_.constant(shape, vector)},
                         .outputs = {made}});
    return made;
  }

  /// Joins parts along a dimension, into `made` if that is a tensor.
  std::int32_t join(std::vector<std::int32_t> parts, std::size_t dim, std::int32_t made) {
    if (parts.size() == 1 && made < 0) return parts.front();
    while (parts.size() > kMostToJoin) {
      std::vector<std::int32_t> fewer;
      for (auto begin = parts.begin(); begin != parts.end();) {
        const auto end = begin + std::min<std::ptrdiff_t>(kMostToJoin, parts.end() - begin);
        fewer.push_back(join({begin, end}, dim, -1));
        begin = end;
      }
      parts = std::move(fewer);
    }
    Shape shape = draft_.shape(parts.front());
    shape[dim] = 0;
    for (const std::int32_t part : parts) shape[dim] += draft_.shape(part)[dim];
    if (made < 0) made = new_like(parts.front(), shape);
    ensure(draft_.shape(made) == shape, "tflite: slices do not make up the whole");
    draft_.add_operator({.code = Code::concatenation,
                         .inputs = std::move(parts),
                         .outputs = {made},
                         .axis = static_cast<std::int32_t>(dim)});
    return made;
  }

  /// Rows from the pieces that have them, in `made` if that is a tensor.
  std::int32_t from_pieces(const Stored& stored, Range rows, std::int32_t made) {
    std::vector<std::int32_t> parts;
    for (std::int64_t row = rows.begin; row < rows.end;) {
      const Piece* best = nullptr;
      for (const Piece& piece : stored.pieces) {
        const bool has_row = piece.rows.begin <= row && row < piece.rows.end;
        if (has_row && (best == nullptr || piece.rows.end > best->rows.end)) best = &piece;
      }
      ensure(best != nullptr, "tflite: a row is in no slice");
      const std::int64_t end = std::min(best->rows.end, rows.end);
      parts.push_back(slice_of(best->tensor, stored.dim, {row - best->rows.begin, end - best->rows.begin}));
      row = end;
    }
    return join(parts, stored.dim, made);
  }

  std::int32_t rows_of(TensorId s, const DimCut& cut, Range rows) {
    const Stored& stored = stored_[s];
    const bool has_rows = stored.whole < 0 && stored.dim == cut.dim;
    return has_rows ? from_pieces(stored, rows, -1) : slice_of(whole(s), cut.dim, rows);
  }

  std::int32_t whole(TensorId s) {
    Stored& stored = stored_[s];
    if (stored.whole >= 0) return stored.whole;
    const std::int32_t number = original(s);
    const std::int32_t made = is_free(s) ? number : new_like(number, model().tensor(number).shape);
    stored.whole = from_pieces(stored, {0, model().tensor(number).shape[stored.dim]}, made);
    return stored.whole;
  }

  /// True if the tensor may have the number of the file: no later run writes it, and none has.
  bool is_free(TensorId s) { return writes_left_[sliced_.tensors[s].tensor] == 0 && used_.insert(original(s)).second; }

  // Operators.

  void run_whole(OpId v) {
    const Operator& op = operator_of(v);
    DraftOperator made{.like = lowered_.operators[sliced_.ops[v].op.index()], .code = op.code, .inputs = op.inputs};
    for (std::int32_t& t : made.inputs) {
      if (t >= 0 && model().tensor(t).is_activation()) t = whole(read_by(v, t));
    }
    for (const std::int32_t t : op.outputs) {
      if (t < 0 || !model().tensor(t).is_activation()) {
        made.outputs.push_back(t);
        continue;
      }
      const TensorId s = written_by(v, t);
      made.outputs.push_back(is_free(s) ? t : new_like(t, model().tensor(t).shape));
      stored_[s] = {.whole = made.outputs.back()};
    }
    draft_.add_operator(std::move(made));
  }

  [[nodiscard]] TensorId written_by(OpId v, std::int32_t tensor) const {
    const auto& outputs = sliced_.graph[v].outputs;
    const auto found = std::ranges::find_if(outputs, [&](TensorId s) { return original(s) == tensor; });
    ensure(found != outputs.end(), "tflite: an op does not write what its source writes");
    return *found;
  }

  void run_slice(OpId v) {
    const Operator& op = operator_of(v);
    const OpAxis& axis = this->axis(v);
    const Range iterations = sliced_.ops[v].iterations;
    const Range rows = axis.output.rows_of(iterations);
    const TensorId s = written_by(v, op.outputs[0]);
    DraftOperator made{.like = lowered_.operators[sliced_.ops[v].op.index()], .code = op.code, .inputs = op.inputs};
    for (std::size_t k = 0; k < op.inputs.size(); ++k) {
      const std::int32_t t = op.inputs[k];
      if (t < 0 || !model().tensor(t).is_activation()) continue;
      const TensorId read = read_by(v, t);
      const auto& cut = axis.inputs[k];
      const std::size_t earlier = static_cast<std::size_t>(std::ranges::find(op.inputs, t) - op.inputs.begin());
      if (earlier < k) {
        made.inputs[k] = made.inputs[earlier];
      } else {
        made.inputs[k] = cut ? rows_of(read, *cut, cut->rows_of(iterations)) : whole(read);
      }
    }
    Shape shape = model().tensor(op.outputs[0]).shape;
    shape[axis.output.dim] = rows.size();
    const std::int32_t written = has_windows(op) ? windows(made, paddings_of(op, axis, iterations), std::move(shape))
                                                 : adapted(op, axis, rows, std::move(made), std::move(shape));
    Stored stored{.dim = axis.output.dim};
    if (sliced_.tensors[s].bytes.empty()) stored.pieces = earlier_pieces(v, s);
    stored.pieces.push_back({rows, written});
    stored_[s] = std::move(stored);
  }

  /// The slices before this one of an assembled tensor.
  [[nodiscard]] std::vector<Piece> earlier_pieces(OpId v, TensorId s) const {
    for (const TensorId other : sliced_.graph[v].inputs) {
      const TensorSource& source = sliced_.tensors[other];
      if (source.tensor == sliced_.tensors[s].tensor && source.slice + 1 == sliced_.tensors[s].slice) {
        return stored_[other].pieces;
      }
    }
    ensure(sliced_.ops[v].slice == 0, "tflite: a slice without those before it");
    return {};
  }

  std::int32_t add(DraftOperator made, Shape shape) {
    const std::int32_t like = model().operators[at(made.like)].outputs[0];
    made.outputs = {new_like(like, std::move(shape))};
    draft_.add_operator(made);
    return made.outputs.front();
  }

  /// With what a slice has in place of the operator's own settings.
  std::int32_t adapted(const Operator& op, const OpAxis& axis, Range rows, DraftOperator made, Shape shape) {
    if (op.code == Code::pad || op.code == Code::pad_v2) {
      const DimCut& cut = *axis.inputs[0];
      std::vector<std::int64_t> paddings = *model().integers(op.inputs[1]);
      set_paddings(cut, {rows.begin + cut.offset, rows.end + cut.offset}, paddings);
      made.inputs[1] = draft_.constant(paddings, {static_cast<std::int64_t>(shape.size()), 2});
    } else if (op.code == Code::resize_nearest) {
      made.inputs[1] = draft_.constant({shape[1], shape[2]}, {2});
    }
    return add(std::move(made), std::move(shape));
  }

  static bool has_windows(const Operator& op) {
    return op.code == Code::conv || op.code == Code::depthwise_conv || op.code == Code::average_pool ||
           op.code == Code::max_pool;
  }

  /// Rows of a window beyond those that exist.
  static void set_paddings(const DimCut& cut, Range window, std::vector<std::int64_t>& paddings) {
    paddings[2 * cut.dim] = std::max<std::int64_t>(0, -window.begin);
    paddings[2 * cut.dim + 1] = std::max<std::int64_t>(0, window.end - cut.rows);
  }

  [[nodiscard]] std::vector<std::int64_t> paddings_of(const Operator& op, const OpAxis& axis, Range iterations) const {
    const Shape& x = model().tensor(op.inputs[0]).shape;
    const Shape& y = model().tensor(op.outputs[0]).shape;
    std::vector<std::int64_t> paddings(2 * x.size(), 0);
    for (const std::size_t dim : {std::size_t{1}, std::size_t{2}}) {
      const Window window = window_of(model(), op, dim);
      const DimCut all{
          .dim = dim, .rows = x[dim], .step = window.stride, .offset = -window.before, .length = window.length};
      set_paddings(all, all.window_of(axis.output.dim == dim ? iterations : Range{0, y[dim]}), paddings);
    }
    return paddings;
  }

  /// Windows over an input with this padding, which becomes an operator of its own. Where the output is smaller than
  /// the padded input, that is the largest tensor: windows at the edges are then computed apart, of their rows alone.
  ///
  ///     |0 x x x x 0|     windows of 3: |0 x x|, |x x x|, |x x x|, |x x 0|, of which the inner ones need no padding
  std::int32_t windows(const DraftOperator& like, const std::vector<std::int64_t>& paddings, Shape shape) {
    const Operator& op = model().operators[at(like.like)];
    for (const std::size_t dim : {std::size_t{1}, std::size_t{2}}) {
      if (const auto made = at_edges(like, paddings, shape, dim)) return *made;
    }
    DraftOperator made = like;
    made.is_valid = true;
    if (std::ranges::any_of(paddings, [](std::int64_t rows) { return rows > 0; })) {
      Shape padded = draft_.shape(made.inputs[0]);
      for (std::size_t dim = 0; dim < padded.size(); ++dim) padded[dim] += paddings[2 * dim] + paddings[2 * dim + 1];
      const std::int32_t all = draft_.constant(paddings, {static_cast<std::int64_t>(padded.size()), 2});
      const std::int32_t tensor = new_like(op.inputs[0], std::move(padded));
      draft_.add_operator({.code = Code::pad, .inputs = {made.inputs[0], all}, .outputs = {tensor}});
      made.inputs[0] = tensor;
    }
    return add(std::move(made), std::move(shape));
  }

  /// The same along one dimension; none where all windows are as well computed together.
  std::optional<std::int32_t> at_edges(const DraftOperator& like, const std::vector<std::int64_t>& paddings,
                                       const Shape& shape, std::size_t dim) {
    const Operator& op = model().operators[at(like.like)];
    const Window window = window_of(model(), op, dim);
    const std::int64_t before = paddings[2 * dim];
    const std::int64_t rows = draft_.shape(like.inputs[0])[dim];
    const bool shrinks = window_of(model(), op, 1).stride * window_of(model(), op, 2).stride > 1;
    const bool is_padded = before > 0 || paddings[2 * dim + 1] > 0;
    if (!shrinks || !is_padded || before % window.stride != 0 || rows < window.length) return std::nullopt;
    // The windows that need no padding, from the one that begins with the first row.
    const Range inner{before / window.stride, (rows - window.length + before) / window.stride + 1};
    if (inner.empty()) return std::nullopt;
    std::vector<std::int32_t> parts;
    const auto add_part = [&](Range made, Range read, std::int64_t first, std::int64_t last) {
      if (made.empty()) return;
      DraftOperator part = like;
      part.inputs[0] = slice_of(like.inputs[0], dim, read);
      std::vector<std::int64_t> own = paddings;
      own[2 * dim] = first;
      own[2 * dim + 1] = last;
      Shape of_part = shape;
      of_part[dim] = made.size();
      parts.push_back(windows(part, own, std::move(of_part)));
    };
    const auto begin = [&](std::int64_t i) { return i * window.stride - before; };
    add_part({0, inner.begin}, {0, begin(inner.begin - 1) + window.length}, before, 0);
    add_part(inner, {0, rows}, 0, 0);
    add_part({inner.end, shape[dim]}, {begin(inner.end), rows}, 0, begin(shape[dim] - 1) + window.length - rows);
    return join(std::move(parts), dim, -1);
  }

  const LoweredModel& lowered_;
  const SlicedGraph& sliced_;
  Draft draft_;
  /// By op of the lowered graph; -1 where it is not cut.
  Table<OpId, int> axes_;
  /// By tensor of the lowered graph: runs to come that write it, or a slice of it.
  Table<TensorId, int> writes_left_;
  Table<TensorId, Stored> stored_;
  std::unordered_set<std::int32_t> used_{};
  int made_ = 0;
};

}  // namespace

std::string rewrite_model(std::string_view bytes, const LoweredModel& lowered, std::span<const Region> regions,
                          const SlicedGraph& sliced, const Sequence& ops) {
  expect_movable(lowered.model);
  return Rewriter(lowered, regions, sliced).run(ops).write(bytes);
}

}  // namespace remora::tflite
