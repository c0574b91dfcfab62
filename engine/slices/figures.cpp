// SPDX-License-Identifier: Apache-2.0
#include "engine/slices/figures.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include "engine/bound/first_bound.hpp"
#include "model/evaluate.hpp"
#include "model/instance.hpp"

namespace remora {
namespace {

/// The part of the bytes in question by which one graph must be nearer to the budget than another.
constexpr std::int64_t kWorthOne = 100;

bool clearly_less(Bytes a, Bytes b) {
  return a < b && (b - a).count() >= b.count() / kWorthOne;
}

/// An instance of a graph that outlives it.
Instance looked_at(const Graph& graph) {
  return {std::shared_ptr<const Graph>(std::shared_ptr<const Graph>(), &graph), {}};
}

}  // namespace

SlicingFigures figures_of(const Graph& graph) {
  const Instance instance = looked_at(graph);
  return {least_budget(instance), baseline_peak(instance), instance.baseline_duration()};
}

SlicedNeeds needs_of(std::size_t ops, const SlicedGraph& sliced) {
  const Instance instance = looked_at(sliced.graph);
  const Evaluation evaluation = evaluate(instance, input_order(instance));
  SlicedNeeds result{.figures = {least_budget(instance), evaluation.peak, evaluation.duration},
                     .needs = {Table<OpId, Bytes>(ops), Table<OpId, Bytes>(ops)}};
  for (const OpId v : instance.ops()) {
    const OpId source = sliced.ops[v].op;
    Bytes& alone = result.needs.alone[source];
    alone = std::max(alone, instance.footprint(v));
    Bytes& in_order = result.needs.in_order[source];
    in_order = std::max(in_order, evaluation.memory[v.index()]);
  }
  return result;
}

Bytes unavoidable_memory(const Graph& graph) {
  const Instance instance = looked_at(graph);
  const std::vector<Certificate> events = footprint_certificates(instance);
  return events.empty() ? instance.base_memory() : std::max(instance.base_memory(), events.back().required);
}

Distance distance(const SlicingFigures& figures, Bytes budget) {
  return {std::max(Bytes(), figures.lower_bound - budget), std::max(Bytes(), figures.peak - budget)};
}

bool is_nearer(const SlicingFigures& a, const SlicingFigures& b, Bytes budget) {
  const Distance from_a = distance(a, budget);
  const Distance from_b = distance(b, budget);
  return clearly_less(from_a.bound, from_b.bound) ||
         (!clearly_less(from_b.bound, from_a.bound) && clearly_less(from_a.peak, from_b.peak));
}

bool is_better(const SlicingFigures& a, const SlicingFigures& b, Bytes budget) {
  if (is_nearer(a, b, budget)) return true;
  return !is_nearer(b, a, budget) && a.duration < b.duration;
}

}  // namespace remora
