// SPDX-License-Identifier: Apache-2.0
//
// The suite's graphs as remora-graph files in a folder, made when they are first asked for.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "frontends/bench/suite.hpp"
#include "model/graph.hpp"

namespace remora::bench {

struct StoredInstance {
  /// Null where the graph is not to be had; `missing` says why.
  std::shared_ptr<const Graph> graph{};
  std::string missing{};
  /// The remora-graph file, without `meta`.
  std::string path{};
  std::string sha256{};
};

/// The programs that make and read graphs, each by a path that can be run.
struct Programs {
  std::string remora{};
  std::string remora_zoo{};
};

class InstanceStore {
 public:
  /// `folder`: where the files go, made if need be. `cancel` may be null.
  InstanceStore(Programs programs, std::string folder, const std::atomic<bool>* cancel);

  [[nodiscard]] StoredInstance get(const SuiteInstance& instance) const;

 private:
  [[nodiscard]] std::string path(const std::string& name) const;
  void run(const std::vector<std::string>& words) const;
  [[nodiscard]] std::string source_of(const SuiteInstance& instance) const;

  Programs programs_;
  std::string folder_;
  const std::atomic<bool>* cancel_;
};

/// The pairs of an op and another that reads one of its outputs, each once.
std::int64_t edge_count(const Graph& graph);

}  // namespace remora::bench
