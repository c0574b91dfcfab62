// SPDX-License-Identifier: Apache-2.0
//
// A relaxation of the problem over several devices in input order: a linear program in whole numbers (engine/bound/periods/
// program.hpp) over columns that are 0 or 1 (columns.hpp), the period relaxation with devices and copies.
//
//   devices     sum over d of X(v,d) >= 1
//   stays       K(t,d,i) <= P(t,d,i-1)        P(t,d,i) <= K(t,d,i) + what comes to d in the period: copies, R(v,d,i)
//   reads       X(w,d) <= P(t,d,i)            w reads t, and its first run ends period i
//               R(w,d,j) <= what of t there is on d when a period that meets j begins, or comes to d in one; where w may run
//               again once, the sum of these over any stretch of periods
//   copies      C(t,e,d,i) <= P(t,e,i-1) + what comes to e in the period;  and t was somewhere, or v runs again
//   limits      sum over d and i of R(v,d,i) <= C_v - 1; the limit on what is not minimised
//   memory      of d at first run k: what k reads and writes if it runs there, and every tensor that is there (P) or stays (K)
//               of d while w runs again in stage k, for some of them: what w reads and writes, and of the others what stays;
//               or what is there at first run k and was made before w (P, less what is copied in: that may come later)
//
// Every schedule gives a solution that costs no more: memory is counted at these runs alone, and within a period whatever
// has come serves whoever reads it. Where there is no limit on a device's memory what is there stays.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/bound/periods/program.hpp"
#include "engine/devices/columns.hpp"

namespace remora::devices {

class Program {
 public:
  /// First runs where `allowed` says so alone. The instance outlives the program.
  Program(const Instance& instance, const Allowed& allowed, const Detail& detail);

  [[nodiscard]] const remora::Program& program() const { return program_; }
  [[nodiscard]] remora::Program& program() { return program_; }
  [[nodiscard]] const Columns& columns() const { return columns_; }

 private:
  class Sum;

  void add_first_runs();
  void add_stays(TensorId t);
  void add_copies(TensorId t);
  void add_reruns(OpId v);
  void add_reads(OpId v, DeviceId d, TensorId t);
  void add_arrivals(Sum& sum, TensorId t, DeviceId d, std::size_t period, int sign) const;
  void add_memory(DeviceId d, int stage);
  void add_memory(DeviceId d, int stage, OpId rerun);
  [[nodiscard]] Bytes own_bytes(OpId v, DeviceId d) const;
  void add_limit();
  void add(const Sum& sum, std::int64_t least, bool follows = false);

  const Instance& instance_;
  const DeviceGraph& graph_;
  remora::Program program_;
  Columns columns_;
};

}  // namespace remora::devices
