// SPDX-License-Identifier: Apache-2.0
#include "engine/free/order_view.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "model/reorder.hpp"

namespace remora {
namespace {

Instance staged_instance(const Instance& free, std::span<const OpId> order) {
  InstanceOptions options = free.options();
  options.order = OrderMode::input;
  return {std::make_shared<const Graph>(reordered(free.graph(), order)), options};
}

}  // namespace

OrderView::OrderView(const Instance& free, std::vector<OpId> order)
    : order_(std::move(order)), places_(places_in(order_)), staged_(staged_instance(free, order_)) {}

std::vector<OpId> OrderView::sequence_of(std::span<const Recompute> plan) const {
  std::vector<OpId> sequence = remora::sequence_of(staged_, plan);
  for (OpId& op : sequence) op = order_[op];
  return sequence;
}

RecomputePlan OrderView::plan_of(std::span<const OpId> sequence) const {
  RecomputePlan plan;
  Stage stage = 0;
  for (const OpId op : sequence) {
    const OpId place = places_[op];
    if (place == stage) {
      ++stage;
    } else {
      plan.push_back({stage, place});
    }
  }
  std::sort(plan.begin(), plan.end());
  plan.erase(std::unique(plan.begin(), plan.end()), plan.end());
  return plan;
}

}  // namespace remora
