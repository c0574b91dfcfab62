// SPDX-License-Identifier: Apache-2.0
#include "engine/search/local/mode_exchange.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "model/evaluate.hpp"
#include "model/table.hpp"

namespace remora {
ModeState::ModeState(const Instance& instance, std::vector<Compute> sequence)
    : instance_(instance), sequence_(std::move(sequence)) {
  std::vector<int> latest(at(instance.op_count()), -1);
  for (int step = 0; step < static_cast<int>(sequence_.size()); ++step) {
    const OpId op = sequence_[at(step)].op;
    const OpId leader = instance.leader(op);
    if (leader.valid()) {
      // A leader may follow another itself; one without a choice leaves its followers none.
      latest[at(op)] = latest[at(leader)];
      if (latest[at(op)] >= 0) followers_[at(latest[at(op)])].push_back(step);
    } else if (instance.mode_count(op) > 1) {
      latest[at(op)] = static_cast<int>(choices_.size());
      choices_.push_back(step);
      followers_.emplace_back();
    }
  }
  score_ = evaluate_now();
}

ModeNumber ModeState::mode(int choice) const {
  return sequence_[at(choices_[at(choice)])].mode;
}

int ModeState::mode_count(int choice) const {
  return instance_.mode_count(sequence_[at(choices_[at(choice)])].op);
}

void ModeState::assign(int choice, ModeNumber mode) {
  sequence_[at(choices_[at(choice)])].mode = mode;
  for (const int step : followers_[at(choice)]) sequence_[at(step)].mode = mode;
}

ModeScore ModeState::evaluate_now() {
  const Evaluation evaluation = evaluate(instance_, sequence_);
  looks_ += static_cast<std::int64_t>(evaluation.intervals.size() + sequence_.size());
  ModeScore score{Bytes(0), evaluation.duration};
  for (const Bytes here : evaluation.memory) {
    if (here > instance_.budget()) score.overflow += here - instance_.budget();
  }
  return score;
}

bool ModeState::offers(int choice, ModeNumber mode) const {
  const auto offered = [&](int step) {
    const OpId op = sequence_[at(step)].op;
    return instance_.offers(op, mode) && instance_.computes(op, mode) <= instance_.most_computes(op);
  };
  const auto& steps = followers_[at(choice)];
  return offered(choices_[at(choice)]) && std::all_of(steps.begin(), steps.end(), offered);
}

Duration ModeState::duration(int choice, ModeNumber mode) const {
  Duration sum = instance_.duration(sequence_[at(choices_[at(choice)])].op, mode);
  for (const int step : followers_[at(choice)]) sum += instance_.duration(sequence_[at(step)].op, mode);
  return sum;
}

Bytes ModeState::staying(int choice, ModeNumber mode) const {
  const OpId leader = sequence_[at(choices_[at(choice)])].op;
  Bytes sum;
  for (const TensorId t : instance_.outputs(leader)) sum += instance_.size(t, mode);
  for (const int step : followers_[at(choice)]) {
    const OpId follower = sequence_[at(step)].op;
    for (const TensorId t : instance_.inputs(follower)) {
      if (instance_.producer(t) != leader && instance_.reads(follower, mode, t)) sum += instance_.size(t);
    }
  }
  return sum;
}

std::optional<ModeScore> ModeState::probe(int choice, ModeNumber mode) {
  const ModeNumber before = this->mode(choice);
  if (mode == before || !offers(choice, mode)) return std::nullopt;
  assign(choice, mode);
  std::optional<ModeScore> score;
  if (modes_hold(instance_, sequence_)) score = evaluate_now();
  assign(choice, before);
  return score;
}

void ModeState::set(int choice, ModeNumber mode) {
  assign(choice, mode);
  score_ = evaluate_now();
}

void ModeState::set_all(const std::vector<ModeNumber>& modes) {
  for (int choice = 0; choice < choice_count(); ++choice) assign(choice, modes[at(choice)]);
  score_ = evaluate_now();
}

namespace {

constexpr int kBisections = 40;
/// Choices that save less at a time when the modes are renewed.
constexpr std::size_t kMaxRenewed = 3;

}  // namespace

void ModeExchange::begin() {
  bisect_price();
  if (!holds()) relieve();
  if (holds()) fill();
}

double ModeExchange::cost(int choice, ModeNumber mode, double price) const {
  return static_cast<double>(state_.duration(choice, mode).count()) +
         price * static_cast<double>(state_.staying(choice, mode).count());
}

void ModeExchange::choose_by_price(double price) {
  std::vector<ModeNumber> chosen = modes();
  for (int choice = 0; choice < state_.choice_count(); ++choice) {
    ModeNumber& best = chosen[at(choice)];
    for (ModeNumber mode = 0; mode < state_.mode_count(choice); ++mode) {
      if (state_.offers(choice, mode) && cost(choice, mode, price) < cost(choice, best, price)) best = mode;
    }
  }
  state_.set_all(chosen);
}

void ModeExchange::bisect_price() {
  if (state_.choice_count() == 0) return;
  choose_by_price(0);
  if (holds()) return;
  double longest = 1;
  for (int choice = 0; choice < state_.choice_count(); ++choice) {
    longest = std::max(longest, static_cast<double>(state_.duration(choice, state_.mode(choice)).count()));
  }
  double low = 0;
  // At this price a byte outweighs everything.
  double high = 1000 * longest;
  choose_by_price(high);
  if (!holds()) return;
  std::vector<ModeNumber> best = modes();
  for (int i = 0; i < kBisections && !stopped_(); ++i) {
    // Prices span many orders of magnitude.
    const double middle = low == 0 ? high / 1024 : (high / low > 4 ? std::sqrt(low * high) : (low + high) / 2);
    choose_by_price(middle);
    if (holds()) {
      high = middle;
      best = modes();
    } else {
      low = middle;
    }
  }
  state_.set_all(best);
}

void ModeExchange::relieve() {
  while (!holds() && !stopped_() && relieve_once()) {
  }
}

bool ModeExchange::relieve_once() {
  const ModeScore now = state_.score();
  std::optional<std::pair<int, ModeNumber>> best;
  double best_value = 0;
  for (int choice = 0; choice < state_.choice_count() && !stopped_(); ++choice) {
    for (ModeNumber mode = 0; mode < state_.mode_count(choice); ++mode) {
      const auto score = state_.probe(choice, mode);
      if (!score || score->overflow >= now.overflow) continue;
      const auto relief = static_cast<double>((now.overflow - score->overflow).count());
      const auto time = static_cast<double>(std::max<std::int64_t>(0, (score->duration - now.duration).count()));
      if (relief / (1 + time) <= best_value) continue;
      best_value = relief / (1 + time);
      best = {choice, mode};
    }
  }
  if (best) state_.set(best->first, best->second);
  return best.has_value();
}

void ModeExchange::fill() {
  std::vector<int> order;
  order.reserve(at(state_.choice_count()));
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

/// The shortest mode there is room for.
bool ModeExchange::fill_choice(int choice) {
  std::optional<ModeNumber> best;
  Duration shortest = state_.score().duration;
  for (ModeNumber mode = 0; mode < state_.mode_count(choice); ++mode) {
    if (!state_.offers(choice, mode) || state_.duration(choice, mode) >= state_.duration(choice, state_.mode(choice))) {
      continue;
    }
    const auto score = state_.probe(choice, mode);
    if (!score || score->overflow > Bytes(0) || score->duration >= shortest) continue;
    shortest = score->duration;
    best = mode;
  }
  if (best) state_.set(choice, *best);
  return best.has_value();
}

void ModeExchange::save_less(int choice) {
  std::vector<ModeNumber> less;
  for (ModeNumber mode = 0; mode < state_.mode_count(choice); ++mode) {
    const auto score = state_.probe(choice, mode);
    if (score && score->overflow == Bytes(0) && score->duration > state_.score().duration) less.push_back(mode);
  }
  if (!less.empty()) state_.set(choice, less[random_.below(less.size())]);
}

void ModeExchange::renew(int attempts) {
  if (state_.choice_count() == 0) return;
  for (int fruitless = 0; fruitless < attempts && !stopped_();) {
    const std::vector<ModeNumber> before = modes();
    const Duration duration = state_.score().duration;
    const std::size_t count = 1 + random_.below(kMaxRenewed);
    for (std::size_t i = 0; i < count; ++i) {
      save_less(static_cast<int>(random_.below(at(state_.choice_count()))));
    }
    fill();
    fruitless = state_.score().duration < duration ? 0 : fruitless + 1;
    if (state_.score().duration > duration) state_.set_all(before);
  }
}

std::vector<ModeNumber> ModeExchange::modes() const {
  std::vector<ModeNumber> result;
  result.reserve(at(state_.choice_count()));
  for (int choice = 0; choice < state_.choice_count(); ++choice) result.push_back(state_.mode(choice));
  return result;
}

}  // namespace remora
