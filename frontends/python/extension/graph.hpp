// SPDX-License-Identifier: Apache-2.0
//
// A graph that Python builds op by op.
//
// Faults are found where they are made: add_tensor and add_op refuse what model/graph.hpp's `validate` would, with the
// same path ("ops[3].duration"), and leave the graph as it was. A solve takes a snapshot, which costs nothing: the
// graph is copied when it is changed for the first time after that.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>

#include "model/graph.hpp"

namespace remora::python {

/// Where an op writes a tensor of its own: name, bytes, keep.
using NewTensor = std::tuple<std::string, std::int64_t, bool>;
/// The name of an output, and the input whose storage it takes over.
using TakenStorage = std::pair<std::string, TensorId>;
/// The name of a tensor; rows, stride, step, offset and length (model/axes.hpp). What is left out follows from the
/// others.
using NewCut = std::tuple<std::string, std::optional<std::int64_t>, std::optional<std::int64_t>, std::int64_t,
                          std::int64_t, std::optional<std::int64_t>>;
/// The extent, what is cut, the names of the outputs that are summed, and the workspace of an iteration.
using NewAxis = std::tuple<std::int64_t, std::vector<NewCut>, std::vector<std::string>, Bytes>;

/// Workspace in bytes, which may be negative; the tensors that are freed before, each with its bytes at most.
using InnerPeakRow = std::tuple<Bytes, std::vector<std::pair<TensorId, Bytes>>>;
/// Duration, workspace, output sizes (or none: the graph's), unread inputs, weight, inner peaks (model/modes.hpp).
using ModeRow = std::tuple<Duration, Bytes, std::optional<std::vector<Bytes>>, std::vector<TensorId>, int,
                           std::vector<InnerPeakRow>>;
/// Further modes; the op that it follows or none; of mode 0 unread inputs, weight, inner peaks; the most that its
/// computes may weigh, or none.
using OpModesRow = std::tuple<std::vector<std::optional<ModeRow>>, OpId, std::vector<TensorId>, int,
                              std::vector<InnerPeakRow>, std::optional<int>>;

/// Parts of an op that name tensors, since it may make them itself.
struct NamedParts {
  std::vector<TakenStorage> in_place{};
  std::vector<NewAxis> axes{};
};

class GraphHandle {
 public:
  explicit GraphHandle(std::string name);
  /// The graph must be valid. `sha256`: of the file.
  explicit GraphHandle(Graph graph, std::string sha256 = {});

  /// Hash of the file that holds the graph as it is, or empty.
  [[nodiscard]] const std::string& sha256() const { return sha256_; }

  [[nodiscard]] const Graph& read() const { return *graph_; }
  /// For a change that keeps names and references as they are; the graph is that of no file any more.
  Graph& change();
  /// The graph as it is now, whatever becomes of this one.
  [[nodiscard]] std::shared_ptr<const Graph> snapshot() const;

  /// Throws InputError for an empty name or one that is taken, and for a negative size.
  std::int32_t add_tensor(std::string name, std::int64_t size, bool keep);
  /// Makes `made`, whose ids follow each other, and adds the op; its outputs are `op.outputs` and then those. Throws
  /// InputError for names that are empty or taken, negative amounts, no outputs, an output that has a producer, ids
  /// of nothing, for storage that is taken over by no output, from no input, or twice, and for axes and modes that
  /// `validate` rejects; then nothing has changed. O(inputs + outputs) expected time.
  std::int32_t add_op(Op op, const std::vector<NewTensor>& made, const NamedParts& parts = {});

  /// Throws InputError for modes that `validate` rejects, or that no follower could have; then nothing has changed.
  void set_modes(std::int32_t op, std::optional<OpModes> modes);

  /// -1 for an unknown name.
  [[nodiscard]] std::int32_t find_tensor(const std::string& name) const;
  [[nodiscard]] std::int32_t find_op(const std::string& name) const;

  /// -1 for an input of the graph.
  [[nodiscard]] std::int32_t producer(std::int32_t tensor) const;
  [[nodiscard]] const std::vector<std::int32_t>& users(std::int32_t tensor) const;

  /// Throw InputError for an unknown number.
  [[nodiscard]] OpId op_id(std::int32_t op) const;
  [[nodiscard]] TensorId tensor_id(std::int32_t tensor) const;

 private:
  using Names = std::unordered_map<std::string, std::int32_t>;

  void check_op(const Op& op, const std::vector<NewTensor>& made) const;
  void check_references(const Op& op, const std::string& path) const;
  void check_outputs(const Op& op, const std::vector<NewTensor>& made, const std::string& path) const;
  void check_made(const std::vector<NewTensor>& made) const;
  void check_taken(const Op& op, const std::vector<NewTensor>& made, const std::vector<TakenStorage>& taken) const;
  void check_new_axes(const Op& op, const std::vector<NewTensor>& made, const std::vector<NewAxis>& axes) const;
  void index_op(std::size_t op);

  std::shared_ptr<Graph> graph_;
  std::string sha256_{};
  /// True if somebody holds a snapshot of graph_.
  mutable bool is_shared_ = false;
  Names tensor_ids_{};
  Names op_ids_{};
  /// By tensor.
  std::vector<std::int32_t> producers_{};
  std::vector<std::vector<std::int32_t>> users_{};
};

/// "" for none.
Phase phase_from(std::string_view name, const std::string& place);
std::string_view phase_name(Phase phase);

/// Adds the class to the module.
void bind_graph(nanobind::module_& module);

}  // namespace remora::python
