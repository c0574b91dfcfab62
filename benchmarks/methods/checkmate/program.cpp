// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/methods/checkmate/program.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "model/sequence.hpp"
#include "model/table.hpp"

namespace remora::checkmate {
namespace {

/// Coefficients of one FREE, of the two rows that define it, and of its place in a row of U.
constexpr std::int64_t free_coefficients(std::int64_t later_users) {
  return 2 * (3 + later_users) + 1;
}

}  // namespace

Columns::Columns(const Instance& instance) : instance_(instance), stages_(stages_of(instance)) {
  first_recompute_.assign(instance.op_count(), Term::kNone);
  first_retained_.assign(instance.tensor_count(), Term::kNone);
  for (int i = 0; i < instance.op_count(); ++i) {
    if (instance.max_computes(OpId(i)) < 2) continue;
    first_recompute_[OpId(i)] = count_;
    count_ += stages_ - 1 - i;
  }
  for (int t = 0; t < instance.tensor_count(); ++t) {
    if (!may_be_retained(TensorId(t))) continue;
    first_retained_[TensorId(t)] = count_;
    count_ += stages_ - 1 - instance.producer(TensorId(t));
  }
}

bool Columns::may_be_retained(TensorId tensor) const {
  return instance_.producer(tensor).valid() && (instance_.keep(tensor) || !instance_.users(tensor).empty());
}

Term Columns::recomputed(Stage stage, OpId op) const {
  if (stage <= Stage{op}) return {.constant = stage == Stage{op} ? 1 : 0};
  const std::int64_t first = first_recompute_[op];
  if (first == Term::kNone || stage >= stages_) return {};
  return {.column = static_cast<int>(first) + stage - op - 1};
}

Term Columns::retained(Stage stage, TensorId tensor) const {
  if (stage >= stages_) return {.constant = instance_.keep(tensor) ? 1 : 0};
  const OpId producer = instance_.producer(tensor);
  const std::int64_t first = first_retained_[tensor];
  if (first == Term::kNone || stage <= Stage{producer}) return {};
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

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// How finely amounts of memory are counted: at most so many parts make the largest one.
constexpr std::int64_t kParts = 1 << 20;
/// The largest amount after scaling for solvers: then one part is far above their tolerances (1e-7 to 1e-6).
constexpr double kLargest = 1000;

/// One row in the making. Constants go to the other side.
class Row {
 public:
  explicit Row(Rows& rows) : rows_(rows) {}

  void add(double factor, const Term& term) {
    constants_ += factor * term.constant;
    if (term.is_column()) add(factor, term.column);
  }
  void add(double factor, int column) {
    rows_.columns.push_back(column);
    rows_.factors.push_back(factor);
  }
  void end(double least, double most) {
    rows_.begins.push_back(static_cast<int>(rows_.columns.size()));
    rows_.least.push_back(least - constants_);
    rows_.most.push_back(most - constants_);
  }

 private:
  Rows& rows_;
  double constants_ = 0;
};

/// Bytes as solvers see them: whole parts of a size, rounded down, which is a relaxation.
class Scale {
 public:
  explicit Scale(const Instance& instance) {
    std::int64_t largest = 1;
    std::int64_t divisor = 0;
    const auto add = [&](Bytes bytes) {
      largest = std::max(largest, bytes.count());
      divisor = std::gcd(divisor, bytes.count());
    };
    for (int t = 0; t < instance.tensor_count(); ++t) {
      if (instance.producer(TensorId(t)).valid()) add(instance.size(TensorId(t)));
    }
    for (int i = 0; i < instance.op_count(); ++i) add(instance.workspace(OpId(i)));
    part_ = std::max({std::int64_t{1}, divisor, (largest - 1) / kParts + 1});
    factor_ = kLargest / static_cast<double>(std::max<std::int64_t>(1, largest / part_));
    room_ = in_units(instance.budget() - instance.base_memory()) + factor_ / 2;
  }

  [[nodiscard]] double in_units(Bytes bytes) const {
    const std::int64_t parts = bytes.count() / part_;
    return factor_ * static_cast<double>(parts);
  }
  /// The budget beyond base memory, and half a part.
  [[nodiscard]] double room() const { return room_; }

 private:
  /// In bytes.
  std::int64_t part_ = 1;
  /// Units a part.
  double factor_ = 1;
  double room_ = 0;
};

class Builder {
 public:
  Builder(const Instance& instance, const Columns& columns) : instance_(instance), columns_(columns), scale_(instance) {
    program_.costs.assign(at(columns.count()), 0);
    program_.most.assign(at(columns.count()), 1.0);
    program_.integers.resize(at(columns.count()));
    std::iota(program_.integers.begin(), program_.integers.end(), 0);
  }

  void add_stage(Stage k) {
    for (int t = 0; t < instance_.tensor_count(); ++t) {
      if (instance_.producer(TensorId(t)).valid()) add_retained(k, TensorId(t));
    }
    for (int i = 0; i <= std::min<int>(k, instance_.op_count() - 1); ++i) add_inputs(k, OpId(i));
    add_memory(k);
  }

  /// Tensors to keep are resident when the last stage ends.
  void add_end() {
    for (int t = 0; t < instance_.tensor_count(); ++t) {
      if (instance_.producer(TensorId(t)).valid() && instance_.keep(TensorId(t))) {
        add_retained(Stage{columns_.stage_count()}, TensorId(t));
      }
    }
  }

  /// Costs and limits of an op's recomputes.
  void add_op(OpId op) {
    Row row(program_.rows);
    for (Stage k = Stage{op} + 1; k < columns_.stage_count(); ++k) {
      const Term again = columns_.recomputed(k, op);
      if (again.is_column()) program_.costs[at(again.column)] = instance_.duration(op).count();
      row.add(1, again);
    }
    row.end(-kInfinity, instance_.max_computes(op) - 1);
  }

  Program take() { return std::move(program_); }

 private:
  int add_column(double most) {
    program_.costs.push_back(0);
    program_.most.push_back(most);
    return static_cast<int>(program_.costs.size()) - 1;
  }

  /// S(k,t) <= R(k-1,p) + S(k-1,t)
  void add_retained(Stage k, TensorId t) {
    const Term held = columns_.retained(k, t);
    const Term computed = columns_.recomputed(k - 1, instance_.producer(t));
    if (held.is(0) || computed.is(1)) return;
    Row row(program_.rows);
    row.add(1, held);
    row.add(-1, computed);
    row.add(-1, columns_.retained(k - 1, t));
    row.end(-kInfinity, 0);
  }

  /// R(k,i) <= R(k,p) + S(k,t)
  void add_inputs(Stage k, OpId op) {
    const Term computed = columns_.recomputed(k, op);
    if (computed.is(0)) return;
    for (const TensorId t : instance_.inputs(op)) {
      Row row(program_.rows);
      row.add(1, computed);
      row.add(-1, columns_.recomputed(k, instance_.producer(t)));
      row.add(-1, columns_.retained(k, t));
      row.end(-kInfinity, 0);
    }
  }

  /// U(k,i) for all ops that can run in the stage.
  void add_memory(Stage k) {
    int before = Term::kNone;
    OpId op_before;
    for (int i = 0; i <= std::min<int>(k, instance_.op_count() - 1); ++i) {
      const OpId op(i);
      const Term computed = columns_.recomputed(k, op);
      if (computed.is(0)) continue;
      // The columns of FREE and their rows come before the row that they are part of.
      const std::vector<std::pair<TensorId, Term>> freed =
          op_before.valid() ? add_freed(k, op_before) : std::vector<std::pair<TensorId, Term>>{};
      const int used = add_column(scale_.room());
      Row row(program_.rows);
      row.add(-1, used);
      for (const TensorId t : instance_.outputs(op)) row.add(scale_.in_units(instance_.size(t)), computed);
      for (const auto& [t, free] : freed) row.add(-scale_.in_units(instance_.size(t)), free);
      if (before == Term::kNone) {
        add_retained_memory(k, row);
      } else {
        row.add(1, before);
      }
      row.end(0, 0);
      add_workspace(op, computed, used);
      before = used;
      op_before = op;
    }
  }

  void add_retained_memory(Stage k, Row& row) {
    for (int t = 0; t < instance_.tensor_count(); ++t) {
      const TensorId tensor(t);
      if (instance_.size(tensor) == Bytes(0) || !instance_.producer(tensor).valid()) continue;
      row.add(scale_.in_units(instance_.size(tensor)), columns_.retained(k, tensor));
    }
  }

  void add_workspace(OpId op, const Term& computed, int used) {
    if (instance_.workspace(op) == Bytes(0)) return;
    Row row(program_.rows);
    row.add(1, used);
    row.add(scale_.in_units(instance_.workspace(op)), computed);
    row.end(-kInfinity, scale_.room());
  }

  /// Adds the columns for what op i may release when computed in stage k.
  std::vector<std::pair<TensorId, Term>> add_freed(Stage k, OpId i) {
    std::vector<std::pair<TensorId, Term>> freed;
    const auto add = [&](TensorId t) {
      if (instance_.size(t) == Bytes(0)) return;
      const Term free = add_free(k, t, i);
      if (!free.is(0)) freed.emplace_back(t, free);
    };
    for (const TensorId t : instance_.inputs(i)) add(t);
    for (const TensorId t : instance_.outputs(i)) add(t);
    return freed;
  }

  Term add_free(Stage k, TensorId t, OpId i) {
    hazards_.clear();
    const Term computed = columns_.recomputed(k, i);
    const Term held = columns_.retained(k + 1, t);
    if (held.is(1)) return {};
    if (held.is_column()) hazards_.push_back(held);
    const auto users = instance_.users(t);
    for (auto user = std::upper_bound(users.begin(), users.end(), i); user != users.end() && Stage{*user} <= k;
         ++user) {
      const Term later = columns_.recomputed(k, *user);
      if (later.is(1)) return {};
      if (later.is_column()) hazards_.push_back(later);
    }
    if (hazards_.empty() && computed.is(1)) return {.constant = 1};
    return add_free_column(computed);
  }

  /// With the hazards of hazards_, and that of not being computed.
  Term add_free_column(const Term& computed) {
    const Term free{.column = add_column(1.0)};
    program_.integers.push_back(free.column);
    const auto kappa = static_cast<double>(hazards_.size() + (computed.is_column() ? 1 : 0));
    // All hazards are these and 1 - R(k,i).
    const auto add_row = [&](double factor, double least, double most) {
      Row row(program_.rows);
      for (const Term& hazard : hazards_) row.add(1, hazard);
      row.add(-1, computed);
      row.add(factor, free);
      row.end(least, most);
    };
    if (kappa == 1.0) {
      add_row(1, 0, 0);
    } else {
      add_row(1, 0, kInfinity);
      add_row(kappa, -kInfinity, kappa - 1);
    }
    return free;
  }

  const Instance& instance_;
  const Columns& columns_;
  Scale scale_;
  Program program_;
  std::vector<Term> hazards_;
};

}  // namespace

std::optional<Program> make_program(const Instance& instance, const Columns& columns, const Deadline& deadline) {
  Builder builder(instance, columns);
  for (Stage k{0}; k < columns.stage_count(); ++k) {
    if (deadline.reached()) return std::nullopt;
    builder.add_stage(k);
  }
  builder.add_end();
  for (int i = 0; i < instance.op_count(); ++i) builder.add_op(OpId(i));
  return builder.take();
}

}  // namespace remora::checkmate
