// SPDX-License-Identifier: Apache-2.0
#include "engine/baselines/checkmate/columns.hpp"

namespace remora::checkmate {
namespace {

Stage stages_of(const Instance& instance) {
  for (int t = 0; t < instance.tensor_count(); ++t) {
    if (instance.producer(TensorId(t)).valid() && instance.keep(TensorId(t))) return instance.op_count() + 1;
  }
  return instance.op_count();
}

/// Of one FREE, and the two rows that define it: itself, R, S and what is computed later, and its place in a row of U.
constexpr std::int64_t free_coefficients(std::int64_t later_users) {
  return 2 * (3 + later_users) + 1;
}

}  // namespace

Columns::Columns(const Instance& instance) : instance_(instance), stages_(stages_of(instance)) {
  first_recompute_.assign(static_cast<std::size_t>(instance.op_count()), Term::kNone);
  first_retained_.assign(static_cast<std::size_t>(instance.tensor_count()), Term::kNone);
  for (int i = 0; i < instance.op_count(); ++i) {
    if (instance.max_computes(OpId(i)) < 2) continue;
    first_recompute_[static_cast<std::size_t>(i)] = count_;
    count_ += stages_ - 1 - i;
  }
  for (int t = 0; t < instance.tensor_count(); ++t) {
    if (!may_be_retained(TensorId(t))) continue;
    first_retained_[static_cast<std::size_t>(t)] = count_;
    count_ += stages_ - 1 - instance.producer(TensorId(t));
  }
}

bool Columns::may_be_retained(TensorId tensor) const {
  return instance_.producer(tensor).valid() && (instance_.keep(tensor) || !instance_.users(tensor).empty());
}

Term Columns::recomputed(Stage stage, OpId op) const {
  if (stage <= op) return {.constant = stage == op ? 1 : 0};
  const std::int64_t first = first_recompute_[static_cast<std::size_t>(op)];
  if (first == Term::kNone || stage >= stages_) return {};
  return {.column = static_cast<int>(first) + stage - op - 1};
}

Term Columns::retained(Stage stage, TensorId tensor) const {
  if (stage >= stages_) return {.constant = instance_.keep(tensor) ? 1 : 0};
  const OpId producer = instance_.producer(tensor);
  const std::int64_t first = first_retained_[static_cast<std::size_t>(tensor)];
  if (first == Term::kNone || stage <= producer) return {};
  return {.column = static_cast<int>(first) + stage - producer - 1};
}

ProgramSize program_size(const Instance& instance) {
  const Columns columns(instance);
  const auto stages_from = [&](OpId op) { return std::int64_t{columns.stage_count()} - op; };
  ProgramSize size{.columns = columns.count()};
  for (int i = 0; i < instance.op_count(); ++i) {
    const OpId op(i);
    const auto inputs = static_cast<std::int64_t>(instance.inputs(op).size());
    const auto outputs = static_cast<std::int64_t>(instance.outputs(op).size());
    size.columns += stages_from(op);                                        // U
    size.coefficients += stages_from(op) * (5 + 3 * inputs + 5 * outputs);  // U, what R needs, what S needs, limit
  }
  for (int t = 0; t < instance.tensor_count(); ++t) {
    const OpId producer = instance.producer(TensorId(t));
    if (!producer.valid()) continue;
    auto later = static_cast<std::int64_t>(instance.users(TensorId(t)).size());
    size.columns += stages_from(producer);
    size.coefficients += stages_from(producer) * free_coefficients(later);
    for (const OpId user : instance.users(TensorId(t))) {
      size.columns += stages_from(user);
      size.coefficients += stages_from(user) * free_coefficients(--later);
    }
  }
  return size;
}

}  // namespace remora::checkmate
