// SPDX-License-Identifier: Apache-2.0
//
// Progress of a solve over several devices: reported as one search, though problems with more and more runs per op may
// follow one another.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/base/deadline.hpp"
#include "engine/base/work.hpp"
#include "engine/devices/ask.hpp"
#include "engine/devices/problem.hpp"

namespace remora::devices {

class Reporter {
 public:
  /// Both outlive it. The clock runs from here.
  Reporter(const DeviceGraph& graph, const Callbacks& callbacks) : graph_(graph), callbacks_(callbacks) {}

  /// True if anybody listens.
  [[nodiscard]] bool listens() const;
  /// The search of a problem begins, with that bound. `blank`: its answer, but for steps, bound and report.
  void begin(const DeviceSchedule& blank, std::int64_t bound);
  /// It is over, after so much work.
  void end(Work work);

  // Progress of the present search, with its work so far.

  /// News where it costs less than all before.
  void schedule(Source source, std::int64_t cost, Work work, const std::function<std::vector<DeviceStep>()>& steps);
  void bound(Source source, std::int64_t least, Work work);
  /// To be called often; without the work where only others go on. Returns false if the caller stops the search.
  bool report_round(Work work);
  bool report_round() { return report_round(work_); }
  [[nodiscard]] bool is_stopped() const { return is_stopped_; }

 private:
  [[nodiscard]] Progress progress(Event event) const;
  void report(Event event, Source source);

  const DeviceGraph& graph_;
  const Callbacks& callbacks_;
  Deadline clock_{kNoTimeLimit, nullptr};
  DeviceSchedule blank_{};
  /// Values of earlier problems, and of this one as far as known.
  Work work_before_{};
  Work work_{};
  std::int64_t best_ = kNoWay;
  std::int64_t bound_ = 0;
  Source source_ = Source::start;
  double last_round_ = 0;
  bool is_stopped_ = false;
};

/// Adds steps to an answer: what they take by verify(), and the status that they have by its bound.
void put_steps(const DeviceGraph& graph, std::vector<DeviceStep> steps, DeviceSchedule& schedule);

}  // namespace remora::devices
