// SPDX-License-Identifier: Apache-2.0
//
// The nodes of a model as often and in the order that a schedule runs them.
//
// The kind of a node decides how often it occurs in the result:
//
//     op        once for each compute; every reader reads the latest one before it
//     view      (Reshape, ...) once for each compute that somebody views, right before its first reader
//     the rest  (constants, what reads only shapes, what contributes to no output) once. What depends on constants and
//               on the model's inputs alone stands right before its first reader, anything else behind the first
//               computes that it reads, when these are resident for certain.
//
//     schedule  A B C A D      A: x -> a,  V: view a -> v,  B: v -> b,  C: b -> c,  D: v, c -> d
//     result    A  V  B  C  A#2: x -> a#2  V#2: a#2 -> v#2  D: v#2, c -> d
//
// A node or value keeps its name in its first copy, an output of the model in its last one: the copy that stays.
#pragma once

#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "frontends/onnx/model/model_proto.hpp"
#include "onnx/onnx_pb.h"

namespace remora::onnx_frontend {

enum class NodeRole { op, view, other };

class NodeCopies {
 public:
  using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

  /// `roles`: by node of the graph; a view is one of its first input. `names`: of ops, by node, for the copies of nodes
  /// that have none. Both must outlive the object, and so must `graph`, whose nodes are used up.
  NodeCopies(onnx::GraphProto& graph, const std::vector<NodeRole>& roles, const std::vector<std::string>& names,
             FreshNames& fresh);

  /// Once. `computes`: the ops in the order of the schedule, as positions of their nodes; each at least once.
  /// Throws InputError for a node that is to run before what only its shape depends on.
  Nodes run(std::span<const int> computes);

  /// Fresh names of values, each with the name that it had.
  [[nodiscard]] const std::vector<std::pair<std::string, std::string>>& renamed() const { return renamed_; }

 private:
  /// State of a node.
  struct State {
    NodeRole role = NodeRole::other;
    /// Who makes what it reads, each once.
    std::vector<int> makers{};
    std::vector<int> readers{};
    /// Makers of which nothing is there yet.
    int waiting = 0;
    /// Everything that it reads is there once an op has run, and of an op also that it ran.
    bool available = false;
    /// For an op: its runs in the schedule, and those until now. For a view: how often it was copied.
    int total = 0;
    int done = 0;
    /// For a view: the op whose output it views, none for the model's inputs.
    int root = -1;
    /// For a view: the run of its root that the latest copy views; for others 0 once they are in the result.
    int version = -1;
  };

  void connect();
  /// Marks what is there now that `node` is, and appends the nodes of role other among it to `found`.
  void make_available(int node, std::vector<int>& found);
  void compute(int node);
  /// Puts what the node reads and is not there in its latest form before it.
  void bring_inputs(int node);
  void append_if_stale(int node);
  void append(int node);

  [[nodiscard]] int root_version(const State& state) const { return state.root < 0 ? 0 : states_[at(state.root)].done; }
  [[nodiscard]] bool is_current(int node) const;
  /// True if the copy about to be appended bears the value's own name.
  [[nodiscard]] bool keeps_name(const State& state, const std::string& value) const;
  [[noreturn]] void complain(int node) const;

  static std::size_t at(int node) { return static_cast<std::size_t>(node); }

  onnx::GraphProto& graph_;
  const std::vector<std::string>& names_;
  FreshNames& fresh_;
  std::vector<State> states_;
  std::unordered_map<std::string, int> makers_;
  std::unordered_set<std::string> outputs_;
  /// The latest copy of a value, where its name is not the value's own.
  std::unordered_map<std::string, std::string> latest_;
  std::vector<std::pair<std::string, std::string>> renamed_;
  Nodes result_;
};

}  // namespace remora::onnx_frontend
