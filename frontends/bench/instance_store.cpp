// SPDX-License-Identifier: Apache-2.0
#include "frontends/bench/instance_store.hpp"

#include <filesystem>
#include <set>
#include <sstream>
#include <utility>

#include "frontends/bench/process.hpp"
#include "frontends/formats/file.hpp"
#include "frontends/formats/graph_json.hpp"
#include "frontends/text/sha256.hpp"
#include "model/error.hpp"

namespace remora::bench {
namespace {

namespace fs = std::filesystem;

/// For making or reading one graph.
constexpr double kPatience = 600;

}  // namespace

InstanceStore::InstanceStore(Programs programs, std::string folder, const std::atomic<bool>* cancel)
    : programs_(std::move(programs)), folder_(std::move(folder)), cancel_(cancel) {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) throw InputError(folder_, error.message());
}

std::string InstanceStore::path(const std::string& name) const {
  return (fs::path(folder_) / name).string();
}

void InstanceStore::run(const std::vector<std::string>& words) const {
  const ProcessOutcome outcome = run_process(words, {.patience = kPatience, .cancel = cancel_});
  if (outcome.code != 0) throw InputError(words.at(1), outcome.last_error);
}

/// A file that `remora convert` reads: the one that the suite names, or one that is made.
std::string InstanceStore::source_of(const SuiteInstance& instance) const {
  if (instance.make.empty()) {
    if (!fs::exists(instance.file)) throw InputError(instance.file, "is not there");
    return instance.file;
  }
  std::vector<std::string> words = instance.make;
  if (words.front() != "remora" && words.front() != "remora_zoo") {
    throw InputError(words.front(), "makes no graphs: only remora and remora_zoo do");
  }
  words.front() = words.front() == "remora" ? programs_.remora : programs_.remora_zoo;
  words.insert(words.end(), {"-o", path(instance.name + ".made")});
  run(words);
  return words.back();
}

StoredInstance InstanceStore::get(const SuiteInstance& instance) const {
  StoredInstance stored;
  stored.path = path(instance.name + ".json");
  try {
    // Made anew each time: a file of an earlier program, or of another suite, may be another graph.
    std::vector<std::string> words{programs_.remora, "convert", source_of(instance), "-o", stored.path, "--quiet"};
    words.insert(words.end(), instance.reading.begin(), instance.reading.end());
    run(words);
    Graph graph = json::read_graph(json::Text(json::read_file(stored.path)));
    // Where it came from names files and folders of this machine: the same graph would have another hash elsewhere.
    graph.meta.clear();
    std::ostringstream content;
    json::write_graph(content, graph);
    json::write_file(stored.path, [&](std::ostream& out) { out << content.str(); });
    stored.graph = std::make_shared<const Graph>(std::move(graph));
    stored.sha256 = text::sha256_hex(content.str());
  } catch (const InputError& error) {
    stored.missing = error.what();
  }
  return stored;
}

std::int64_t edge_count(const Graph& graph) {
  std::vector<OpId> producers(graph.tensors.size());
  std::set<std::pair<OpId, OpId>> edges;
  for (std::size_t v = 0; v < graph.ops.size(); ++v) {
    for (const TensorId t : graph.ops[v].outputs) producers[static_cast<std::size_t>(t)] = OpId(v);
  }
  for (std::size_t v = 0; v < graph.ops.size(); ++v) {
    for (const TensorId t : graph.ops[v].inputs) {
      const OpId from = producers[static_cast<std::size_t>(t)];
      if (from.valid()) edges.emplace(from, OpId(v));
    }
  }
  return static_cast<std::int64_t>(edges.size());
}

}  // namespace remora::bench
