// SPDX-License-Identifier: Apache-2.0
//
// The decisions of Checkmate's program (Jain et al. 2020, section 4.2) and where they are columns:
//
//     R(k,i)  op i is computed in stage k; always for i = k, never for i > k or where the op may run only once
//     S(k,t)  tensor t is retained from stage k - 1 into stage k, beyond its producer's first compute only
//
//           op  0 1 2 3               stage n, after the last first compute, is there only if tensors are kept:
//     stage 0   1 . . .               S(n+1,t) is then 1 for them and 0 for all others
//           1   r 1 . .
//           2   r r 1 .               r is a column; `.` is 0
//           3   r r r 1
//
// S is by tensor and R by op, as in rk-Checkmate (Zhao et al. 2023, appendix B: an op may have several outputs). FREE
// and U follow from R and S; they are numbered where the rows are made (program.hpp).
#pragma once

#include <cstdint>
#include <vector>

#include "model/instance.hpp"

namespace remora::checkmate {

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

  [[nodiscard]] Stage stage_count() const { return stages_; }
  /// R(k,i) and S(k,t), for k up to stage_count(), where S says what must be resident at the end.
  [[nodiscard]] Term recomputed(Stage stage, OpId op) const;
  [[nodiscard]] Term retained(Stage stage, TensorId tensor) const;
  /// Columns of R and S.
  [[nodiscard]] std::int64_t count() const { return count_; }

 private:
  [[nodiscard]] bool may_be_retained(TensorId tensor) const;

  const Instance& instance_;
  Stage stages_ = 0;
  /// By op and tensor, the column of the first stage in which it is one.
  std::vector<std::int64_t> first_recompute_;
  std::vector<std::int64_t> first_retained_;
  std::int64_t count_ = 0;
};

/// At least as many columns and coefficients as the program has; O(ops + edges).
struct ProgramSize {
  std::int64_t columns = 0;
  std::int64_t coefficients = 0;
};
ProgramSize program_size(const Instance& instance);

}  // namespace remora::checkmate
