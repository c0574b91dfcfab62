// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "frontends/report/plot.hpp"

namespace remora::report {

/// Where values lie along an axis, and which of them are written beside it.
class AxisScale {
 public:
  /// The scale of an axis that shows all the values that it can show.
  AxisScale(const Axis& axis, const std::vector<double>& values);

  /// Whether the axis has a place for the value: on a logarithmic one, whether it is above 0.
  [[nodiscard]] bool shows(double value) const { return !logarithmic_ || value > 0; }
  /// 0 at the beginning of the axis, 1 at its end; beyond that, clipped.
  [[nodiscard]] double place(double value) const;
  [[nodiscard]] const std::vector<double>& ticks() const { return ticks_; }

 private:
  void find_ends(const Axis& axis, const std::vector<double>& values);
  void add_linear_ticks();
  void add_logarithmic_ticks();

  bool logarithmic_;
  double least_ = 0;
  double most_ = 1;
  std::vector<double> ticks_{};
};

/// A tick as people write it: "0.5", "20", "10,000".
std::string tick_text(double value);

}  // namespace remora::report
