// SPDX-License-Identifier: Apache-2.0
//
// Checkmate's mixed integer linear program (Jain et al. 2020, section 4; also Zhao et al. 2023, appendix B), in the
// frontier-advancing form: op k is first computed in stage k, and every stage's computes follow the input order.
//
//     minimise  sum of duration(i) * R(k,i), first computes left out
//     R(k,i) <= R(k,p) + S(k,t)                 inputs t, with producer p, are there                   (eq. 1b)
//     S(k,t) <= R(k-1,p) + S(k-1,t)             what is retained was there                             (eq. 1c)
//     U(k,first) = retained + own outputs       memory right after op i's outputs are allocated in
//     U(k,i) = U(k,i') - freed + own outputs    stage k; i' is the op before i that can run there
//     U(k,i) + workspace(i) * R(k,i) <= budget                                                         (section 4.4)
//     FREE(k,t,i) = R(k,i) * (1 - S(k+1,t)) * product over users j > i of t of (1 - R(k,j))
//
// FREE, t's release right after op i, its producer or a user, is made linear by the number of hazards, of the factors
// that are 0 (section 4; the numbers of its equations could not be looked up):
//
//     1 - FREE <= hazards <= kappa * (1 - FREE)
//
// with kappa the most hazards there can be: one for each factor that is not known beforehand.
//
// Where we differ: an op may have several outputs, each retained and released by itself; S(n+1,t) = 1 for tensors that
// must be kept; workspace; and sum over k of R(k,i) <= C_i, for ops may run only so often in the problem that we
// state. Columns whose value is known are left out. Nothing is strengthened beyond that.
//
// Amounts of memory are counted in whole parts: their greatest common divisor or, where that is less than a millionth
// (2^-20) of the largest amount, such a millionth, to which they are rounded down. That is a relaxation: bounds hold,
// and a solution that exceeds the budget by what was rounded off is refused by the evaluator. In solvers' units the
// largest amount is 1000 and the budget is loosened by half a part, so that tolerances neither lose a schedule that
// just fits nor admit another. (With amounts from 1 to 1e-9, exact but for double precision, CBC called wrong values
// optimal.)
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/base/deadline.hpp"
#include "model/instance.hpp"

namespace remora::checkmate {

/// The decisions of Checkmate's program (Jain et al. 2020, section 4.2) and where they are columns:
///
///     R(k,i)  op i is computed in stage k; always for i = k, never for i > k or where the op may run only once
///     S(k,t)  tensor t is retained from stage k - 1 into stage k, beyond its producer's first compute only
///
///           op  0 1 2 3               stage n, after the last first compute, is there only if tensors are kept:
///     stage 0   1 . . .               S(n+1,t) is then 1 for them and 0 for all others
///           1   r 1 . .
///           2   r r 1 .               r is a column; `.` is 0
///           3   r r r 1
///
/// S is by tensor and R by op, as in rk-Checkmate (Zhao et al. 2023, appendix B: an op may have several outputs). FREE
/// and U follow from R and S; they are numbered where the rows are made (program.hpp).
///
/// A decision: a column, or where `column` is none a constant, 0 or 1.
struct Term {
  static constexpr int kNone = -1;

  int column = kNone;
  int constant = 0;

  [[nodiscard]] bool is_column() const { return column != kNone; }
  [[nodiscard]] bool is(int value) const { return !is_column() && constant == value; }
};

class Columns {
 public:
  /// The instance must outlive the columns. O(ops + tensors).
  explicit Columns(const Instance& instance);

  [[nodiscard]] int stage_count() const { return stages_; }
  /// R(k,i) and S(k,t), for k up to stage_count(), where S says what must be resident at the end.
  [[nodiscard]] Term recomputed(Stage stage, OpId op) const;
  [[nodiscard]] Term retained(Stage stage, TensorId tensor) const;
  /// Columns of R and S.
  [[nodiscard]] std::int64_t count() const { return count_; }

 private:
  [[nodiscard]] bool may_be_retained(TensorId tensor) const;

  const Instance& instance_;
  int stages_ = 0;
  /// By op and tensor, the column of the first stage in which it is one.
  Table<OpId, std::int64_t> first_recompute_;
  Table<TensorId, std::int64_t> first_retained_;
  std::int64_t count_ = 0;
};

/// At least as many columns and coefficients as the program has; O(ops + edges).
struct ProgramSize {
  std::int64_t columns = 0;
  std::int64_t coefficients = 0;
};
ProgramSize program_size(const Instance& instance);

/// Rows of a linear program, one after another: least <= sum of factor * column <= most.
struct Rows {
  std::vector<int> begins{0};
  std::vector<int> columns{};
  std::vector<double> factors{};
  std::vector<double> least{};
  std::vector<double> most{};
};

struct Program {
  /// By column. R, S and FREE are 0 or 1, U is at least 0 and continuous. Durations in the graph's unit.
  std::vector<std::int64_t> costs{};
  std::vector<double> most{};
  std::vector<int> integers{};
  Rows rows{};
};

/// Nothing if the deadline came first. The budget must not be below base memory. O(coefficients).
std::optional<Program> make_program(const Instance& instance, const Columns& columns, const Deadline& deadline);

}  // namespace remora::checkmate
