// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <iosfwd>

#include "engine/base/options.hpp"
#include "engine/solve.hpp"
#include "model/instance.hpp"

namespace remora::cli {

/// One line on a terminal that is written anew a few times a second while a solve runs, and wiped away at the end:
///
///     [=======>            ]  38 %    22.9 s  phase 2  overhead 3.031 %  gap 1.943 %
///
/// The bar is the part of the time or work limit that is used, whichever is more; without a limit there is none.
class ProgressBar {
 public:
  ProgressBar(const Instance& instance, const SolveOptions& options, std::ostream& out)
      : instance_(instance), options_(options), out_(out) {}
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  ~ProgressBar();

  void show(const Progress& progress);

 private:
  [[nodiscard]] double part_used(const Progress& progress) const;

  const Instance& instance_;
  const SolveOptions& options_;
  std::ostream& out_;
  double last_ = -1;
};

}  // namespace remora::cli
