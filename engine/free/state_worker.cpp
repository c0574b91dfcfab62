// SPDX-License-Identifier: Apache-2.0
#include "engine/free/state_worker.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "model/error.hpp"
#include "model/evaluate.hpp"

namespace remora {
namespace {

constexpr int kMaxOps = 12;
constexpr int kMaxTensors = 64;
/// So that four bits have one to spare, which is_dominated() needs.
constexpr int kMaxStateComputes = 7;
constexpr std::uint64_t kSpareBits = 0x8888'8888'8888'8888U;
/// With more it gives up: 100 MB.
constexpr std::size_t kMaxStates = 1'500'000;
/// A compute that is tried, and a state that comes of it.
constexpr Effort kEffortOfTry = 4;
constexpr Effort kEffortOfNewState = 40;
constexpr int kStatesBetweenQuestions = 64;

std::uint64_t bit(TensorId tensor) {
  return std::uint64_t{1} << tensor.index();
}

template <class Visit>
void for_each_tensor(std::uint64_t tensors, Visit visit) {
  for (; tensors != 0; tensors &= tensors - 1) visit(TensorId(std::countr_zero(tensors)));
}

}  // namespace

bool StateWorker::fits(const Instance& instance) {
  const auto has_more = [&](OpId op) {
    return instance.max_computes(op) > kMaxStateComputes || instance.graph()[op].modes;
  };
  return instance.op_count() <= kMaxOps && instance.tensor_count() <= kMaxTensors &&
         std::ranges::none_of(instance.ops(), has_more);
}

StateWorker::StateWorker(const Instance& instance)
    : instance_(instance), steps_(instance.op_count()), by_ops_(std::size_t{1} << instance.op_count()) {
  for (const OpId op : instance.ops()) {
    Step& step = steps_[op];
    step.most = instance.max_computes(op);
    step.duration = instance.duration(op);
    step.workspace = instance.has_inner(op) ? instance.inner(op, 0).front().workspace : instance.workspace(op);
    for (const TensorId t : instance.inputs(op)) step.inputs |= bit(t);
    for (const TensorId t : instance.outputs(op)) {
      step.outputs |= bit(t);
      if (instance.keep(t)) kept_ |= bit(t);
      if (instance.keep(t) || !instance.users(t).empty()) step.useful |= bit(t);
    }
    for (const OpId other : instance.graph()[op].after) step.after |= Counts{15} << (4 * other.index());
  }
  push({}, Duration(0));
}

RoundResult StateWorker::run(const RoundInput& input) {
  RoundResult result;
  const Effort begun = effort_;
  const bool holds = input.incumbent.peak <= instance_.budget();
  const Duration below = holds ? input.incumbent.extra : Duration::max();
  int looked_at = 0;
  while (!open_.empty() && open_.top().extra < below && effort_ - begun < input.effort) {
    if (++looked_at % kStatesBetweenQuestions == 0 && input.interrupted()) break;
    const Open now = open_.top();
    open_.pop();
    if (is_goal(states_[static_cast<std::size_t>(now.state)])) {
      result.solution = make_solution(instance_, std::span<const OpId>(sequence_to(now.state)));
      ensure(result.solution->peak <= instance_.budget() && result.solution->extra == now.extra,
             "states: a sequence is not what its states say");
      // It is optimal: the next round, which has it as its incumbent, is the last.
      open_.push(now);
      break;
    }
    if (!is_dominated(states_[static_cast<std::size_t>(now.state)], now.state)) expand(now.state, now.extra, below);
    if (states_.size() > kMaxStates) is_over_ = true;
    if (is_over_) break;
  }
  result.work = work_of(effort_ - begun);
  if (is_over_) return result;
  result.infeasible = open_.empty() && !holds;
  result.lower_bound = open_.empty() ? input.incumbent.extra : std::min(below, open_.top().extra);
  if (open_.empty() && !holds) result.lower_bound = Duration(0);
  return result;
}

bool StateWorker::is_goal(const State& state) const {
  return (kept_ & ~state.resident) == 0 &&
         std::ranges::all_of(steps_.ids(), [&](OpId op) { return count(state.counts, op) > 0; });
}

Bytes StateWorker::size_of(Tensors tensors) const {
  Bytes size;
  for_each_tensor(tensors, [&](TensorId t) { size += instance_.size(t); });
  return size;
}

bool StateWorker::settle(State& state) const {
  for (const OpId op : steps_.ids()) {
    const int made = count(state.counts, op);
    if (made == 0) continue;
    bool lacks = false;
    for_each_tensor(steps_[op].outputs, [&](TensorId t) {
      bool is_needed = instance_.keep(t);
      bool may_be_read = is_needed;
      for (const OpId reader : instance_.users(t)) {
        is_needed = is_needed || count(state.counts, reader) == 0;
        may_be_read = may_be_read || count(state.counts, reader) < steps_[reader].most;
      }
      if (!may_be_read) state.resident &= ~bit(t);
      lacks = lacks || (is_needed && (state.resident & bit(t)) == 0);
    });
    if (lacks && made == steps_[op].most) return false;
  }
  return true;
}

void StateWorker::expand(std::int32_t from, Duration extra, Duration below) {
  const State state = states_[static_cast<std::size_t>(from)];
  for (const OpId op : steps_.ids()) {
    effort_ += kEffortOfTry;
    const Step& step = steps_[op];
    const int made = count(state.counts, op);
    if (made == step.most || (step.inputs & ~state.resident) != 0) continue;
    if (made > 0 && (step.useful & ~state.resident) == 0) continue;
    const auto waits = [&](OpId other) {
      return (step.after >> (4 * other.index()) & 15U) != 0 && count(state.counts, other) == 0;
    };
    if (made == 0 && std::ranges::any_of(steps_.ids(), waits)) continue;
    const Duration after = made > 0 ? extra + step.duration : extra;
    if (after < below) compute(from, op, after);
  }
}

/// With each choice of inputs that outputs may take over.
void StateWorker::compute(std::int32_t from, OpId op, Duration extra) {
  const Step& step = steps_[op];
  const State& before = states_[static_cast<std::size_t>(from)];
  const Tensors others = before.resident & ~step.inputs & ~step.outputs;
  std::vector<TensorId> tensors;
  for_each_tensor(others, [&](TensorId t) { tensors.push_back(t); });
  const Bytes own = instance_.base_memory() + step.workspace + size_of(step.inputs | step.outputs);
  State made{before.resident, before.counts + (Counts{1} << (4 * op.index())), from, op};
  std::span<const FreedInput> freed;
  if (instance_.has_inner(op)) freed = instance_.inner(op, 0).front().freed;
  for (std::uint32_t choice = 0; choice < 1U << freed.size(); ++choice) {
    Bytes taken = own;
    made.resident = step.inputs | step.outputs;
    for (std::size_t i = 0; i < freed.size(); ++i) {
      if ((choice >> i & 1U) == 0) continue;
      made.resident &= ~bit(freed[i].tensor);
      taken -= std::min(freed[i].most, instance_.size(freed[i].tensor));
    }
    if (taken <= instance_.budget()) {
      keep_most(0, tensors, instance_.budget() - taken, Bytes::max(), made, extra);
    }
  }
}

void StateWorker::keep_most(Tensors kept, std::span<const TensorId> tensors, Bytes room, Bytes least_left_out,
                            const State& made, Duration extra) {
  ++effort_;
  if (tensors.empty()) {
    // With what is left out it would be a larger one.
    if (least_left_out <= room) return;
    State state = made;
    state.resident |= kept;
    return push(state, extra);
  }
  const TensorId first = tensors.front();
  const Bytes size = instance_.size(first);
  if (size <= room) keep_most(kept | bit(first), tensors.subspan(1), room - size, least_left_out, made, extra);
  if (size > Bytes(0)) keep_most(kept, tensors.subspan(1), room, std::min(least_left_out, size), made, extra);
}

void StateWorker::push(State state, Duration extra) {
  effort_ += kEffortOfNewState;
  if (!settle(state)) return;
  const auto number = static_cast<std::int32_t>(states_.size());
  if (is_dominated(state, number)) return;
  alike(state).push_back(number);
  states_.push_back(state);
  const auto missing = std::ranges::count_if(steps_.ids(), [&](OpId op) { return count(state.counts, op) == 0; });
  open_.push({extra, static_cast<int>(missing), number});
}

std::vector<std::int32_t>& StateWorker::alike(const State& state) {
  std::size_t ops = 0;
  for (const OpId op : steps_.ids()) ops |= count(state.counts, op) > 0 ? std::size_t{1} << op.index() : 0;
  return by_ops_[ops];
}

bool StateWorker::is_dominated(const State& state, std::int32_t number) {
  const std::vector<std::int32_t>& others = alike(state);
  effort_ += static_cast<Effort>(others.size());
  return std::ranges::any_of(others, [&](std::int32_t other) {
    const State& better = states_[static_cast<std::size_t>(other)];
    const bool has_all = other != number && (state.resident & ~better.resident) == 0;
    // In each four bits, none borrows.
    return has_all && (((state.counts | kSpareBits) - better.counts) & kSpareBits) == kSpareBits;
  });
}

Sequence StateWorker::sequence_to(std::int32_t state) const {
  Sequence sequence;
  for (; states_[static_cast<std::size_t>(state)].before >= 0; state = states_[static_cast<std::size_t>(state)].before)
    sequence.push_back(states_[static_cast<std::size_t>(state)].op);
  std::ranges::reverse(sequence);
  return sequence;
}

}  // namespace remora
