// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "frontends/bench/best_known.hpp"
#include "frontends/bench/comparison.hpp"
#include "frontends/bench/result.hpp"
#include "frontends/bench/suite.hpp"

namespace remora::bench {

struct PageInput {
  const Suite& suite;
  const Comparison& comparison;
  const std::vector<Result>& results;
  /// Left out, and why.
  const std::map<std::string, std::string>& missing;
  const BestKnownTable& best_known;
  /// What was typed.
  std::string command{};
  std::size_t planned = 0;
  /// Title and file of each plot, beside the page.
  std::vector<std::pair<std::string, std::string>> plots{};
};

/// The suite's page: what was run where, the table, the plots, and what went wrong.
std::string markdown_page(const PageInput& input);

}  // namespace remora::bench
