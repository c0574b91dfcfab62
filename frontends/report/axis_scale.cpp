// SPDX-License-Identifier: Apache-2.0
#include "frontends/report/axis_scale.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <sstream>

namespace remora::report {
namespace {

constexpr int kTicks = 5;
/// With fewer decades than this on a logarithmic axis, 2 and 5 are ticks too.
constexpr double kFewDecades = 2.5;

/// The least of 1, 2, 5 times a power of ten that is at least `step`.
double round_step(double step) {
  const double power = std::pow(10.0, std::floor(std::log10(step)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= step * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

}  // namespace

AxisScale::AxisScale(const Axis& axis, const std::vector<double>& values) : logarithmic_(axis.logarithmic) {
  find_ends(axis, values);
  if (logarithmic_) {
    add_logarithmic_ticks();
  } else {
    add_linear_ticks();
  }
}

void AxisScale::find_ends(const Axis& axis, const std::vector<double>& values) {
  bool any = false;
  for (const double value : values) {
    if (!shows(value)) continue;
    least_ = any ? std::min(least_, value) : value;
    most_ = any ? std::max(most_, value) : value;
    any = true;
  }
  if (!any) {
    least_ = logarithmic_ ? 1 : 0;
    most_ = logarithmic_ ? 10 : 1;
  }
  least_ = axis.least.value_or(logarithmic_ ? least_ : std::min(least_, 0.0));
  most_ = axis.most.value_or(most_);
  if (logarithmic_) {
    least_ = axis.least ? least_ : least_ / 1.2;
    most_ = axis.most ? most_ : most_ * 1.2;
  }
  if (most_ <= least_) most_ = logarithmic_ ? least_ * 10 : least_ + 1;
}

void AxisScale::add_linear_ticks() {
  const double step = round_step((most_ - least_) / kTicks);
  // Up to the tick above the greatest value, so that no mark touches the border.
  if (most_ > 0) most_ = step * std::ceil(most_ / step - 1e-9);
  // Of an axis that shows a short stretch of large values, the multiples exceed 32 bits.
  const auto first = static_cast<std::int64_t>(std::ceil(least_ / step - 1e-9));
  const auto last = static_cast<std::int64_t>(std::floor(most_ / step + 1e-9));
  for (std::int64_t i = first; i <= last; ++i) ticks_.push_back(static_cast<double>(i) * step);
}

void AxisScale::add_logarithmic_ticks() {
  const double decades = std::log10(most_ / least_);
  const int first = static_cast<int>(std::floor(std::log10(least_)));
  const int last = static_cast<int>(std::ceil(std::log10(most_)));
  for (int i = first; i <= last; ++i) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double value = factor * std::pow(10.0, i);
      const bool written = factor < 1.5 || decades < kFewDecades;
      if (written && value >= least_ * (1 - 1e-9) && value <= most_ * (1 + 1e-9)) ticks_.push_back(value);
    }
  }
}

double AxisScale::place(double value) const {
  const double part =
      logarithmic_ ? std::log(value / least_) / std::log(most_ / least_) : (value - least_) / (most_ - least_);
  return std::clamp(part, 0.0, 1.0);
}

std::string tick_text(double value) {
  std::ostringstream text;
  text.precision(6);
  text << std::abs(value) * (std::abs(value) < 1e-12 ? 0 : 1);
  std::string digits = text.str();
  // Thousands apart, where the number is written out.
  if (digits.find_first_of(".e") == std::string::npos) {
    for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  }
  return value < 0 && digits != "0" ? "-" + digits : digits;
}

}  // namespace remora::report
