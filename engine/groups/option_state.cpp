// SPDX-License-Identifier: Apache-2.0
#include "engine/groups/option_state.hpp"

#include <algorithm>
#include <utility>

#include "engine/groups/indexing.hpp"
#include "model/evaluate.hpp"

namespace remora {

OptionState::OptionState(const Instance& instance, std::vector<Compute> sequence)
    : instance_(instance), sequence_(std::move(sequence)) {
  std::vector<int> latest(at(instance.op_count()), -1);
  for (int step = 0; step < static_cast<int>(sequence_.size()); ++step) {
    const OpId op = sequence_[at(step)].op;
    const OpId leader = instance.leader(op);
    if (leader.valid()) {
      // A leader may follow another itself; one without a choice leaves its followers none.
      latest[at(op)] = latest[at(leader)];
      if (latest[at(op)] >= 0) followers_[at(latest[at(op)])].push_back(step);
    } else if (instance.option_count(op) > 1) {
      latest[at(op)] = static_cast<int>(choices_.size());
      choices_.push_back(step);
      followers_.emplace_back();
    }
  }
  score_ = evaluate_now();
}

Option OptionState::option(int choice) const {
  return sequence_[at(choices_[at(choice)])].option;
}

int OptionState::option_count(int choice) const {
  return instance_.option_count(sequence_[at(choices_[at(choice)])].op);
}

void OptionState::assign(int choice, Option option) {
  sequence_[at(choices_[at(choice)])].option = option;
  for (const int step : followers_[at(choice)]) sequence_[at(step)].option = option;
}

OptionScore OptionState::evaluate_now() {
  const Evaluation evaluation = evaluate(instance_, sequence_);
  looks_ += static_cast<std::int64_t>(evaluation.intervals.size() + sequence_.size());
  OptionScore score{Bytes(0), evaluation.duration};
  for (const Bytes here : evaluation.memory) {
    if (here > instance_.budget()) score.overflow += here - instance_.budget();
  }
  return score;
}

bool OptionState::offers(int choice, Option option) const {
  const auto offered = [&](int step) {
    const OpId op = sequence_[at(step)].op;
    return instance_.offers(op, option) && instance_.computes(op, option) <= instance_.most_computes(op);
  };
  const auto& steps = followers_[at(choice)];
  return offered(choices_[at(choice)]) && std::all_of(steps.begin(), steps.end(), offered);
}

Duration OptionState::duration(int choice, Option option) const {
  Duration sum = instance_.duration(sequence_[at(choices_[at(choice)])].op, option);
  for (const int step : followers_[at(choice)]) sum += instance_.duration(sequence_[at(step)].op, option);
  return sum;
}

Bytes OptionState::staying(int choice, Option option) const {
  const OpId leader = sequence_[at(choices_[at(choice)])].op;
  Bytes sum;
  for (const TensorId t : instance_.outputs(leader)) sum += instance_.size(t, option);
  for (const int step : followers_[at(choice)]) {
    const OpId follower = sequence_[at(step)].op;
    for (const TensorId t : instance_.inputs(follower)) {
      if (instance_.producer(t) != leader && instance_.reads(follower, option, t)) sum += instance_.size(t);
    }
  }
  return sum;
}

std::optional<OptionScore> OptionState::probe(int choice, Option option) {
  const Option before = this->option(choice);
  if (option == before || !offers(choice, option)) return std::nullopt;
  assign(choice, option);
  std::optional<OptionScore> score;
  if (options_hold(instance_, sequence_)) score = evaluate_now();
  assign(choice, before);
  return score;
}

void OptionState::set(int choice, Option option) {
  assign(choice, option);
  score_ = evaluate_now();
}

void OptionState::set_all(const std::vector<Option>& options) {
  for (int choice = 0; choice < choice_count(); ++choice) assign(choice, options[at(choice)]);
  score_ = evaluate_now();
}

}  // namespace remora
