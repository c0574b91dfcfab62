// SPDX-License-Identifier: Apache-2.0
#include "engine/groups/option_exchange.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

namespace remora {
namespace {

constexpr int kBisections = 40;
/// Choices that save less at a time when the options are renewed.
constexpr std::size_t kMostRenewed = 3;

}  // namespace

void OptionExchange::begin() {
  bisect_price();
  if (!holds()) relieve();
  if (holds()) fill();
}

double OptionExchange::cost(int choice, Option option, double price) const {
  return static_cast<double>(state_.duration(choice, option).count()) +
         price * static_cast<double>(state_.staying(choice, option).count());
}

void OptionExchange::choose_by_price(double price) {
  std::vector<Option> chosen = options();
  for (int choice = 0; choice < state_.choice_count(); ++choice) {
    Option& best = chosen[static_cast<std::size_t>(choice)];
    for (Option option = 0; option < state_.option_count(choice); ++option) {
      if (state_.offers(choice, option) && cost(choice, option, price) < cost(choice, best, price)) best = option;
    }
  }
  state_.set_all(chosen);
}

void OptionExchange::bisect_price() {
  if (state_.choice_count() == 0) return;
  choose_by_price(0);
  if (holds()) return;
  double longest = 1;
  for (int choice = 0; choice < state_.choice_count(); ++choice) {
    longest = std::max(longest, static_cast<double>(state_.duration(choice, state_.option(choice)).count()));
  }
  double low = 0;
  // At this price a byte outweighs everything.
  double high = 1000 * longest;
  choose_by_price(high);
  if (!holds()) return;
  std::vector<Option> best = options();
  for (int i = 0; i < kBisections && !stopped_(); ++i) {
    // Prices span many orders of magnitude.
    const double middle = low == 0 ? high / 1024 : (high / low > 4 ? std::sqrt(low * high) : (low + high) / 2);
    choose_by_price(middle);
    if (holds()) {
      high = middle;
      best = options();
    } else {
      low = middle;
    }
  }
  state_.set_all(best);
}

void OptionExchange::relieve() {
  while (!holds() && !stopped_() && relieve_once()) {
  }
}

bool OptionExchange::relieve_once() {
  const OptionScore now = state_.score();
  std::optional<std::pair<int, Option>> best;
  double best_value = 0;
  for (int choice = 0; choice < state_.choice_count() && !stopped_(); ++choice) {
    for (Option option = 0; option < state_.option_count(choice); ++option) {
      const auto score = state_.probe(choice, option);
      if (!score || score->overflow >= now.overflow) continue;
      const auto relief = static_cast<double>((now.overflow - score->overflow).count());
      const auto time = static_cast<double>(std::max<std::int64_t>(0, (score->duration - now.duration).count()));
      if (relief / (1 + time) <= best_value) continue;
      best_value = relief / (1 + time);
      best = {choice, option};
    }
  }
  if (best) state_.set(best->first, best->second);
  return best.has_value();
}

void OptionExchange::fill() {
  std::vector<int> order;
  order.reserve(static_cast<std::size_t>(state_.choice_count()));
  for (int choice = 0; choice < state_.choice_count(); ++choice) order.push_back(choice);
  for (bool changed = true; changed && !stopped_();) {
    changed = false;
    random_.shuffle(order);
    for (const int choice : order) {
      if (stopped_()) return;
      changed = fill_choice(choice) || changed;
    }
  }
}

/// The shortest option there is room for.
bool OptionExchange::fill_choice(int choice) {
  std::optional<Option> best;
  Duration shortest = state_.score().duration;
  for (Option option = 0; option < state_.option_count(choice); ++option) {
    if (!state_.offers(choice, option) ||
        state_.duration(choice, option) >= state_.duration(choice, state_.option(choice))) {
      continue;
    }
    const auto score = state_.probe(choice, option);
    if (!score || score->overflow > Bytes(0) || score->duration >= shortest) continue;
    shortest = score->duration;
    best = option;
  }
  if (best) state_.set(choice, *best);
  return best.has_value();
}

void OptionExchange::save_less(int choice) {
  std::vector<Option> less;
  for (Option option = 0; option < state_.option_count(choice); ++option) {
    const auto score = state_.probe(choice, option);
    if (score && score->overflow == Bytes(0) && score->duration > state_.score().duration) less.push_back(option);
  }
  if (!less.empty()) state_.set(choice, less[random_.below(less.size())]);
}

void OptionExchange::renew(int attempts) {
  if (state_.choice_count() == 0) return;
  for (int fruitless = 0; fruitless < attempts && !stopped_();) {
    const std::vector<Option> before = options();
    const Duration duration = state_.score().duration;
    const std::size_t count = 1 + random_.below(kMostRenewed);
    for (std::size_t i = 0; i < count; ++i) {
      save_less(static_cast<int>(random_.below(static_cast<std::size_t>(state_.choice_count()))));
    }
    fill();
    fruitless = state_.score().duration < duration ? 0 : fruitless + 1;
    if (state_.score().duration > duration) state_.set_all(before);
  }
}

std::vector<Option> OptionExchange::options() const {
  std::vector<Option> result;
  result.reserve(static_cast<std::size_t>(state_.choice_count()));
  for (int choice = 0; choice < state_.choice_count(); ++choice) result.push_back(state_.option(choice));
  return result;
}

}  // namespace remora
