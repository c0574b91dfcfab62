// SPDX-License-Identifier: Apache-2.0
//
// The best schedule known of every instance and budget, with the decisions that make it: a claim that anyone can check.
//
// One JSON object: {"format": "remora-best-known", "version": 1, "entries": [...]}, an entry a line with `instance`,
// how its graph is had (`file`, `make` and `reading` as in a suite, paths from the file's folder), its `graph_sha256`,
// `budget`, `max_computes`, `duration`, `lower_bound`, `overhead` (per cent), `who`, `when`, and `recomputes`: pairs
// [stage, op] of the staged form.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <tuple>

#include "frontends/bench/result.hpp"
#include "frontends/bench/suite.hpp"
#include "model/recompute_plan.hpp"

namespace remora::bench {

struct BestKnown {
  SuiteInstance instance{};
  std::string graph_sha256{};
  std::string budget{};
  std::int64_t budget_bytes = 0;
  int max_computes = 0;
  std::int64_t baseline_duration = 0;
  std::int64_t duration = 0;
  /// The best bound of all who found schedules, which need not be who found the best.
  std::int64_t lower_bound = 0;
  std::string who{};
  std::string when{};
  RecomputePlan plan{};
};

class BestKnownTable {
 public:
  BestKnownTable() = default;
  /// What `text` holds. Throws InputError with the JSON path.
  explicit BestKnownTable(std::string_view text, const std::string& folder);

  /// Null if nothing is known of the instance with a graph of this content.
  [[nodiscard]] const BestKnown* find(const std::string& instance, const std::string& graph_sha256,
                                      const std::string& budget, int max_computes) const;
  [[nodiscard]] const auto& entries() const { return entries_; }

  /// Takes over what is better: a shorter schedule, a higher bound. A graph of the same name but other content replaces
  /// what was known. Only verified schedules in input order may come here. Whether anything was better.
  bool learn(const BestKnown& news);

  [[nodiscard]] std::string text(const std::string& folder) const;

 private:
  using Key = std::tuple<std::string, std::string, int>;
  std::map<Key, BestKnown> entries_{};
};

}  // namespace remora::bench
