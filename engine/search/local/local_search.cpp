// SPDX-License-Identifier: Apache-2.0
#include "engine/search/local/local_search.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace remora {

ExchangeRate exchange_rate(const Instance& instance) {
  double area = 1;
  for (TensorId t{0}; t < instance.tensor_count(); t = TensorId(t + 1)) {
    const auto users = instance.users(t);
    if (!instance.producer(t).valid() || users.empty()) continue;
    area += static_cast<double>(instance.size(t).count()) * (users.back() - instance.producer(t));
  }
  const auto time = static_cast<double>(std::max<std::int64_t>(1, instance.baseline_duration().count()));
  return {area / std::max(1, instance.op_count()), area / time};
}

Cooling annealing_cooling(const Instance& instance, const ExchangeRate& rate) {
  // Temperatures are in areas of an op; the first effort is an op's.
  Cooling::Settings settings{.first_temperature = 0.02, .last_part = 1e-3, .first_effort = 30'000, .growth = 1.3};
  settings.first_temperature *= rate.area_of_op;
  settings.first_effort *= std::max(1, instance.op_count());
  return Cooling(settings);
}

double annealing_price(const ExchangeRate& rate, std::size_t cooling) {
  constexpr std::array kPrices{0.01, 0.003, 0.03, 0.1};
  return kPrices[cooling % kPrices.size()] * rate.area_of_time;
}

void offer(const RoundInput& input, const PlanEvaluator& state, RoundResult& result) {
  Solution solution = make_solution(input.instance, state.plan());
  if (better(input.instance, solution, input.incumbent)) result.solution = std::move(solution);
}

void offer_cheaper(const PlanEvaluator& state, Duration& best, RoundResult& result) {
  if (state.overflow() > Bytes(0) || state.extra() >= best) return;
  result.solution = make_solution(state.instance(), state.plan());
  best = result.solution->extra;
}

}  // namespace remora
