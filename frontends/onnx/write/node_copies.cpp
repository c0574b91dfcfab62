// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/write/node_copies.hpp"

#include <algorithm>

#include "frontends/onnx/model/model_proto.hpp"
#include "model/error.hpp"
#include "onnx/onnx_pb.h"

namespace remora::onnx_frontend {

NodeCopies::NodeCopies(onnx::GraphProto& graph, const std::vector<NodeRole>& roles,
                       const std::vector<std::string>& names, FreshNames& fresh)
    : graph_(graph), names_(names), fresh_(fresh), states_(at(graph.node_size())) {
  for (std::size_t k = 0; k < states_.size(); ++k) states_[k].role = roles[k];
  for (const auto& output : graph.output()) outputs_.insert(output.name());
  connect();
}

void NodeCopies::connect() {
  for (int k = 0; k < graph_.node_size(); ++k) {
    for (const std::string& output : graph_.node(k).output()) {
      if (!output.empty()) makers_.emplace(output, k);
    }
  }
  for (int k = 0; k < graph_.node_size(); ++k) {
    State& state = states_[at(k)];
    visit_reads(*graph_.mutable_node(k), [&](const std::string& name) {
      const auto maker = makers_.find(name);
      if (maker != makers_.end()) state.makers.push_back(maker->second);
    });
    if (state.role == NodeRole::view) {
      const auto viewed = makers_.find(graph_.node(k).input(0));
      if (viewed != makers_.end()) {
        const State& maker = states_[at(viewed->second)];
        if (maker.role == NodeRole::op) state.root = viewed->second;
        if (maker.role == NodeRole::view) state.root = maker.root;
      }
    }
    std::sort(state.makers.begin(), state.makers.end());
    state.makers.erase(std::unique(state.makers.begin(), state.makers.end()), state.makers.end());
    state.waiting = static_cast<int>(state.makers.size());
    for (const int maker : state.makers) states_[at(maker)].readers.push_back(k);
  }
}

NodeCopies::Nodes NodeCopies::run(std::span<const int> computes) {
  for (const int node : computes) ++states_[at(node)].total;
  // Values without an op wait for their first reader.
  std::vector<int> found;
  for (int k = 0; k < graph_.node_size(); ++k) {
    const State& state = states_[at(k)];
    if (state.role != NodeRole::op && state.waiting == 0 && !state.available) make_available(k, found);
  }
  for (const int node : computes) compute(node);
  for (int k = 0; k < graph_.node_size(); ++k) {
    if (states_[at(k)].role != NodeRole::other) continue;
    if (!states_[at(k)].available)
      throw InputError(node_place(graph_.node(k)), "has a body that reads its own results");
    append_if_stale(k);
  }
  for (const auto& output : graph_.output()) {
    const auto maker = makers_.find(output.name());
    if (maker != makers_.end()) append_if_stale(maker->second);
  }
  return std::move(result_);
}

void NodeCopies::make_available(int node, std::vector<int>& found) {
  std::vector<int> open{node};
  states_[at(node)].available = true;
  while (!open.empty()) {
    const int k = open.back();
    open.pop_back();
    if (states_[at(k)].role == NodeRole::other) found.push_back(k);
    for (const int reader : states_[at(k)].readers) {
      State& state = states_[at(reader)];
      if (--state.waiting > 0 || state.role == NodeRole::op) continue;
      state.available = true;
      open.push_back(reader);
    }
  }
}

void NodeCopies::compute(int node) {
  State& state = states_[at(node)];
  if (state.waiting > 0) complain(node);
  bring_inputs(node);
  append(node);
  if (state.done > 1) return;
  std::vector<int> found;
  make_available(node, found);
  std::sort(found.begin(), found.end());
  for (const int other : found) append_if_stale(other);
}

void NodeCopies::bring_inputs(int node) {
  // A stack of its own: chains of constants and of views may be as long as the model.
  std::vector<int> open{node};
  while (!open.empty()) {
    const int k = open.back();
    const std::vector<int>& makers = states_[at(k)].makers;
    const auto missing = std::find_if(makers.begin(), makers.end(), [&](int maker) { return !is_current(maker); });
    if (missing != makers.end()) {
      open.push_back(*missing);
      continue;
    }
    if (k != node) append(k);
    open.pop_back();
  }
}

void NodeCopies::append_if_stale(int node) {
  if (is_current(node)) return;
  bring_inputs(node);
  append(node);
}

bool NodeCopies::is_current(int node) const {
  const State& state = states_[at(node)];
  if (state.role == NodeRole::op) {
    ensure(state.done > 0, "rewrite: a node is copied before what it reads");
    return true;
  }
  return state.version == (state.role == NodeRole::view ? root_version(state) : 0);
}

bool NodeCopies::keeps_name(const State& state, const std::string& value) const {
  if (state.role == NodeRole::other) return true;
  if (!outputs_.contains(value)) return state.done == 0;
  if (state.role == NodeRole::op) return state.done + 1 == state.total;
  return state.root < 0 || root_version(state) == states_[at(state.root)].total;
}

void NodeCopies::append(int node) {
  State& state = states_[at(node)];
  onnx::NodeProto& copy = *result_.Add();
  // Constants may be large, and stand there once.
  if (state.role == NodeRole::other) {
    copy.Swap(graph_.mutable_node(node));
  } else {
    copy = graph_.node(node);
  }
  visit_reads(copy, [&](std::string& name) {
    const auto latest = latest_.find(name);
    if (latest != latest_.end()) name = latest->second;
  });
  const int number = state.done + 1;
  for (std::string& output : *copy.mutable_output()) {
    if (output.empty()) continue;
    if (keeps_name(state, output)) {
      latest_.erase(output);
      continue;
    }
    std::string fresh = fresh_.make(output, number);
    renamed_.emplace_back(output, fresh);
    latest_.insert_or_assign(output, fresh);
    output = std::move(fresh);
  }
  if (number > 1) copy.set_name(fresh_.make(copy.name().empty() ? names_[at(node)] : copy.name(), number));
  ++state.done;
  state.version = state.role == NodeRole::view ? root_version(state) : 0;
}

void NodeCopies::complain(int node) const {
  const auto missing = [&](int k) {
    const auto& makers = states_[at(k)].makers;
    return std::find_if(makers.begin(), makers.end(), [&](int maker) { return !states_[at(maker)].available; });
  };
  int behind = node;
  do {
    behind = *missing(behind);
  } while (states_[at(behind)].role != NodeRole::op);
  throw InputError(node_place(graph_.node(node)), "reads a shape or another setting taken from a result of " +
                                                      node_place(graph_.node(behind)) +
                                                      ", which the schedule computes later");
}

}  // namespace remora::onnx_frontend
