// SPDX-License-Identifier: Apache-2.0
#include "engine/free/order_view.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "engine/search/workers/crew.hpp"
#include "model/graph.hpp"

namespace remora {
namespace {

Instance staged_instance(const Instance& free, std::span<const OpId> order) {
  Problem problem = free.problem();
  problem.order = OrderMode::input;
  return {std::make_shared<const Graph>(reordered(free.graph(), order)), problem};
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

ViewSearch::ViewSearch(Search& whole, OrderView view, const SolveOptions& options,
                       std::vector<std::function<void(Search&)>> starts)
    : whole_(whole), view_(std::move(view)), search_(view_.staged(), options, {input_order_crew, std::move(starts)}) {
  search_.listen({.tell =
                      [this](const Progress& progress) {
                        if (progress.event == Event::start || progress.event == Event::schedule) offer_best();
                        if (progress.event == Event::round) whole_.beat(search_.work() - before_);
                      },
                  .enough = [this](const Progress&) { return whole_.over(); }});
}

void ViewSearch::offer_best() {
  const std::vector<OpId> sequence = view_.sequence_of(search_.incumbent().plan());
  whole_.offer(make_solution(whole_.instance(), std::span<const OpId>(sequence)), search_.source());
}

void ViewSearch::learn(std::span<const OpId> sequence) {
  search_.offer(make_solution(view_.staged(), within_limits(view_.staged(), view_.plan_of(sequence))), Source::start);
}

void ViewSearch::sit(double seconds, Work work) {
  before_ = search_.work();
  search_.sit({Deadline(seconds, whole_.deadline().cancel()), plus(before_, work)});
  whole_.charge(search_.work() - before_);
  offer_best();
}

}  // namespace remora
