// SPDX-License-Identifier: Apache-2.0
//
// A computation graph as the user gives it: tensors, and ops listed in the input topological order.
//
// Graph is plain data, filled by the readers of file formats, by the generators or by hand with add_tensor and add_op.
// It guarantees nothing; `validate` checks it, and Instance (model/instance.hpp) is the checked, constant and indexed
// form that everything downstream works on.
//
//     Graph graph;
//     TensorId a = graph.add_tensor("a", Bytes(4));
//     graph.add_op({.name = "A", .duration = Duration(1), .outputs = {a}});
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/api.hpp"
#include "model/axes.hpp"
#include "model/modes.hpp"
#include "model/table.hpp"
#include "model/types.hpp"

namespace remora {

/// The part of a training step that an op belongs to.
enum class Phase { none, forward, loss, backward };

/// Allocations of a run of an op (remora-graph 2, `recompute_allocates`).
enum class Allocation {
  missing,  ///< those of its outputs that are not resident
  all  ///< all its outputs anew, as PyTorch does: the older copy of one still resident counts, too, while the op runs
};

/// A value that one op writes and others read. Either an op's output or, without a producer, an input of the graph:
/// permanently resident, counted, never evicted.
struct Tensor {
  std::string name{};
  Bytes size{};
  /// Must be resident when the schedule ends; it may be evicted before and recomputed.
  bool keep = false;
  /// Keys of the file that the project does not use, as the text of a JSON object; empty if there are none.
  std::string extra{};

  friend bool operator==(const Tensor&, const Tensor&) = default;
};

/// An output that takes over an input's storage (remora-graph 2): where at a run the output is not resident and the run
/// releases the input, which some op produces, the larger of their sizes counts instead of both.
struct InPlace {
  TensorId output{};
  TensorId input{};

  friend bool operator==(const InPlace&, const InPlace&) = default;
};

/// One operation.
struct Op {
  std::string name{};
  std::string type{};
  Duration duration{};
  /// Scratch memory that lives only while the op runs.
  Bytes workspace{};
  std::vector<TensorId> inputs{};
  std::vector<TensorId> outputs{};
  /// False for random or effectful ops, which run exactly once.
  bool recompute = true;
  /// This op's own limit C_v, the first compute counted.
  std::optional<int> max_computes{};
  Phase phase = Phase::none;
  /// The forward op whose gradient this op computes, or none.
  OpId backward_of{};
  /// Order-only dependencies: those ops' first runs come before this op's first run.
  std::vector<OpId> after{};
  /// Each output and each input in one pair at most.
  std::vector<InPlace> in_place{};
  /// Along which the op may be computed in slices.
  std::vector<Axis> axes{};
  /// Other ways to compute it (model/modes.hpp); none of an op with one.
  std::optional<OpModes> modes{};
  std::string extra{};

  friend bool operator==(const Op&, const Op&) = default;
};

struct Graph {
  std::string name{};
  /// Always resident: parameters, optimizer state.
  Bytes fixed_memory{};
  /// Affects only the replay of written schedules: those of `evaluate` never keep an older copy of a run's outputs.
  Allocation recompute_allocates = Allocation::missing;
  Numbered<TensorId, Tensor> tensors{};
  /// In the input topological order.
  Numbered<OpId, Op> ops{};
  /// Where the graph came from, as the text of a JSON object; empty if unknown.
  std::string meta{};
  std::string extra{};

  TensorId add_tensor(std::string tensor_name, Bytes size, bool keep = false) {
    tensors.push_back({.name = std::move(tensor_name), .size = size, .keep = keep});
    return TensorId(tensors.size() - 1);
  }
  OpId add_op(Op op) {
    ops.push_back(std::move(op));
    return OpId(ops.size() - 1);
  }

  [[nodiscard]] const Op& operator[](OpId op) const { return ops[op.index()]; }
  [[nodiscard]] Op& operator[](OpId op) { return ops[op.index()]; }
  [[nodiscard]] const Tensor& operator[](TensorId tensor) const { return tensors[tensor.index()]; }
  [[nodiscard]] Tensor& operator[](TensorId tensor) { return tensors[tensor.index()]; }

  friend bool operator==(const Graph&, const Graph&) = default;
};

/// How often every op can be computed before a schedule's duration could exceed 64 bits in a graph that `validate`
/// accepted. A solve with a larger `max_computes` has to check its own sums.
inline constexpr std::int64_t kComputesWithin64Bits = 64;

/// The op that writes each tensor; none of an input of the graph. Every id must be in range.
REMORA_API Table<TensorId, OpId> producers_of(const Graph& graph);

/// The ops that read each tensor, in the graph's order; one that reads it twice is there twice.
REMORA_API Adjacency<TensorId, OpId> readers_of(const Graph& graph);

/// Checks what remora-graph demands beyond syntax: unique names that are not empty, one or more outputs an op, one
/// producer a tensor, every op after the producers of its inputs and after its `after` ops, amounts not negative, and
/// sums within 64 bits, each amount by the mode that has most: the fixed memory, all sizes and any one workspace;
/// kComputesWithin64Bits times all durations. Also that every id is in range, that `in_place` pairs an output of the op
/// with an input, neither twice, and what check_axes and check_modes demand. Throws InputError with the path
/// ("ops[3].inputs[0]") of the first fault and, where two things clash, both names; ops that no order could satisfy are
/// reported as the cycle they form. A tensor twice among an op's inputs is allowed. O(tensors + edges) expected time.
REMORA_API void validate(const Graph& graph);

/// Checks the modes of an op whose other members are right: as many sizes as outputs, amounts not negative, unread
/// tensors that are inputs, freed ones that are read, each once, weights of at least 1, one of them within the limit,
/// and a leader that produces, by every mode, something that the op reads, and has as many modes. Throws InputError;
/// `place` is the path of the op.
REMORA_API void check_modes(const Graph& graph, const Op& op, const std::string& place);

/// True if any op has modes of its own.
REMORA_API bool has_modes(const Graph& graph);

/// The amounts of an op by one of its modes, mode 0 its own; nothing where it lacks the mode.
REMORA_API std::optional<Mode> find_mode(const Graph& graph, OpId op, ModeNumber mode);
/// The same of a mode that it has.
inline Mode mode_of(const Graph& graph, OpId op, ModeNumber mode) {
  return find_mode(graph, op, mode).value();
}

/// Throws InputError for the first op with modes of its own: what `user` ("a sweep") does takes one mode per op.
REMORA_API void expect_one_mode(const Graph& graph, const std::string& user);

/// The ops of one cycle among the dependencies of a graph that need not be sound, each depending on the one before it and
/// the first on the last; empty if there is none. An op depends on the producers of its inputs and on its `after` ops:
///
///     A --a--> B --b--> C      C also lists A under `after`: no cycle
///     ^                 |
///     +-------c---------+      A reads c: the cycle A, B, C
///
/// `producer[t]` is the op that writes tensor t, or none; all ids of `graph` must be in range. O(ops + edges).
REMORA_API std::vector<OpId> find_cycle(const Graph& graph, const Table<TensorId, OpId>& producer);

/// The graph with its ops in another order: op i is what was op order[i], and everything that names an op names the same
/// one. Tensors stay where they are. `order` holds every op once (else std::logic_error); that it is a topological order
/// is for validate() to say.
REMORA_API Graph reordered(const Graph& graph, const Order& order);

/// Positions in an order of ops: where each op comes in it, as a number of an op.
REMORA_API Table<OpId, OpId> places_in(const Order& order);

}  // namespace remora
