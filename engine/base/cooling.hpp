// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

namespace remora {

/// A temperature that falls by a power law from the first value to a part of it while effort is spent, and then begins
/// again; each cooling takes longer than the one before.
class Cooling {
 public:
  struct Settings {
    double first_temperature = 1;
    /// The part of the first temperature at which a cooling ends.
    double last_part = 0.01;
    /// Effort of the first cooling, and how much more each further one takes.
    double first_effort = 1;
    double growth = 1.5;
  };

  explicit Cooling(const Settings& settings) : settings_(settings), effort_(settings.first_effort) {}

  /// At this point of the effort spent.
  [[nodiscard]] double temperature(std::int64_t spent) const {
    return settings_.first_temperature * std::pow(settings_.last_part, part(spent));
  }
  [[nodiscard]] bool cold(std::int64_t spent) const { return part(spent) >= 1; }
  void begin_again(std::int64_t spent) {
    begin_ = spent;
    effort_ *= settings_.growth;
  }

 private:
  [[nodiscard]] double part(std::int64_t spent) const { return static_cast<double>(spent - begin_) / effort_; }

  Settings settings_;
  double effort_;
  std::int64_t begin_ = 0;
};

}  // namespace remora
