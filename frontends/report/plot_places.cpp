// SPDX-License-Identifier: Apache-2.0
//
// Where things of a plot lie: along its axes, and words beside marks.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <locale>
#include <sstream>

#include "frontends/report/plot.hpp"

namespace remora::report {
namespace {

/// The height of words.
constexpr double kWordHeight = 12;

/// The least of 1, 2, 5 times a power of ten that is at least `step`.
double round_step(double step) {
  const double power = std::pow(10.0, std::floor(std::log10(step)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= step * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

}  // namespace

double width_of(const std::string& words) {
  // Letters of several bytes are counted once. 12 px of a sans-serif font.
  constexpr double kLetter = 6.4;
  const auto letters = std::count_if(words.begin(), words.end(),
                                     [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; });
  return kLetter * static_cast<double>(letters);
}

Box Labels::place(const std::string& words, double x, double y) {
  constexpr double kAside = 8;
  const double width = width_of(words);
  const auto at = [&](double left, double bottom) { return Box{left, bottom - kWordHeight - 2, left + width, bottom}; };
  std::vector<Box> around;
  for (const double away : {0.0, 14.0, 28.0, 42.0}) {
    for (const double left : {x + kAside, x - kAside - width, x - width / 2}) {
      around.push_back(at(left, y - kAside - away));
      around.push_back(at(left, y + kWordHeight + kAside + away));
    }
  }
  const auto worth = [&](const Box& box) {
    const auto met = std::count_if(taken_.begin(), taken_.end(), [&](const Box& other) { return box.meets(other); });
    const bool inside = box.left >= within_.left && box.right <= within_.right &&
                        box.top >= within_.top - kWordHeight && box.bottom <= within_.bottom;
    return met + (inside ? 0 : 2);
  };
  const auto best =
      std::min_element(around.begin(), around.end(), [&](const Box& a, const Box& b) { return worth(a) < worth(b); });
  taken_.push_back(*best);
  return *best;
}

AxisScale::AxisScale(const Axis& axis, const std::vector<double>& values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  least_ = axis.least.value_or(values.empty() ? 0 : std::min(*least, 0.0));
  most_ = axis.most.value_or(values.empty() ? 1 : *most);
  if (most_ <= least_) most_ = least_ + 1;
  const double step = round_step((most_ - least_) / axis.ticks);
  // Up to the tick above the greatest value, so that no mark touches the border.
  if (most_ > 0 && !axis.most) most_ = step * std::ceil(most_ / step - 1e-9);
  // On an axis with a short stretch of large values, the multiples exceed 32 bits.
  const auto first = static_cast<std::int64_t>(std::ceil(least_ / step - 1e-9));
  const auto last = static_cast<std::int64_t>(std::floor(most_ / step + 1e-9));
  for (std::int64_t i = first; i <= last; ++i) ticks_.push_back(static_cast<double>(i) * step);
}

double AxisScale::place(double value) const {
  return std::clamp((value - least_) / (most_ - least_), 0.0, 1.0);
}

std::string tick_text(double value) {
  std::ostringstream text;
  text.imbue(std::locale::classic());
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
