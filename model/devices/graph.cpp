// SPDX-License-Identifier: Apache-2.0
#include "model/devices/graph.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "model/error.hpp"
#include "model/quote.hpp"

namespace remora {
namespace {

constexpr std::int64_t kLargestCost = std::numeric_limits<std::int64_t>::max();

std::string element_of(const std::string& list, std::size_t i) {
  return list + "[" + std::to_string(i) + "]";
}

/// Beyond 64 bits if the true value is.
Wide duration_over(const Link& link, Bytes size) {
  const Wide product = Wide{size.count()} * link.per.count();
  return Wide{link.latency.count()} + (product + link.bytes.count() - 1) / link.bytes.count();
}

class DeviceChecker {
 public:
  explicit DeviceChecker(const DeviceGraph& graph) : graph_(graph), produced_(produced_tensors(graph.graph)) {}

  void run() {
    if (graph_.devices.empty()) throw InputError("devices", "must have at least one device");
    check_devices();
    check_links();
    for (const TensorId t : graph_.places.ids()) check_tensor(t);
    for (const OpId v : graph_.runs.ids()) check_op(v);
    check_sums();
  }

 private:
  void expect_device(DeviceId device, const std::string& path) const {
    if (device.valid() && device.index() < graph_.devices.size()) return;
    throw InputError(path, "no device has the number " + std::to_string(device));
  }

  static void expect_amount(std::int64_t amount, const std::string& path) {
    if (amount < 0) throw InputError(path, "must not be negative, but is " + std::to_string(amount));
  }

  [[nodiscard]] const std::string& name(DeviceId device) const { return graph_.devices[device].name; }

  void check_devices() const {
    std::set<std::string_view> names;
    for (const DeviceId d : graph_.devices.ids()) {
      const Device& device = graph_.devices[d];
      const std::string path = element_of("devices", d.index());
      if (device.name.empty()) throw InputError(path + ".name", "a name must not be empty");
      if (!names.insert(device.name).second) {
        throw InputError(path + ".name", "the name " + quote(device.name) + " is taken by another device");
      }
      expect_amount(device.fixed_memory.count(), path + ".fixed_memory");
      check_lanes(device, path + ".lanes");
    }
  }

  static void check_lanes(const Device& device, const std::string& path) {
    std::set<std::string_view> names;
    for (std::size_t i = 0; i < device.lanes.size(); ++i) {
      const std::string here = element_of(path, i);
      if (device.lanes[i].empty()) throw InputError(here, "a name must not be empty");
      if (!names.insert(device.lanes[i]).second) {
        throw InputError(here, "the name " + quote(device.lanes[i]) + " is taken by another lane");
      }
    }
  }

  void check_links() const {
    std::set<std::pair<std::int32_t, std::int32_t>> pairs;
    for (std::size_t i = 0; i < graph_.links.size(); ++i) {
      const Link& link = graph_.links[i];
      const std::string path = element_of("links", i);
      expect_device(link.from, path + ".from");
      expect_device(link.to, path + ".to");
      if (link.from == link.to)
        throw InputError(path + ".to", "the link leads from " + quote(name(link.to)) + " to itself");
      if (!pairs.emplace(link.from, link.to).second) {
        throw InputError(path, "a second link from " + quote(name(link.from)) + " to " + quote(name(link.to)));
      }
      expect_amount(link.latency.count(), path + ".latency");
      if (link.bytes < Bytes(1))
        throw InputError(path + ".bytes", "must be at least 1, but is " + std::to_string(link.bytes.count()));
      expect_amount(link.per.count(), path + ".per");
      expect_amount(link.energy.count(), path + ".energy");
    }
  }

  [[nodiscard]] bool is_linked(DeviceId from, DeviceId to) const {
    return std::any_of(graph_.links.begin(), graph_.links.end(),
                       [&](const Link& link) { return link.from == from && link.to == to; });
  }

  void check_tensor(TensorId t) const {
    const TensorPlaces& places = graph_.places[t];
    const std::string path = element_of("tensors", t.index());
    for (std::size_t i = 0; i < places.copies.size(); ++i) {
      const MeasuredCopy& copy = places.copies[i];
      const std::string here = element_of(path + ".copy", i);
      expect_device(copy.from, here + ".from");
      expect_device(copy.to, here + ".to");
      if (!is_linked(copy.from, copy.to)) {
        throw InputError(here, "there is no link from " + quote(name(copy.from)) + " to " + quote(name(copy.to)));
      }
      for (std::size_t j = 0; j < i; ++j) {
        if (places.copies[j].from == copy.from && places.copies[j].to == copy.to) {
          throw InputError(here, "figures for the same two devices stand in " + element_of(path + ".copy", j));
        }
      }
      expect_amount(copy.cost.duration.count(), here + ".duration");
      expect_amount(copy.cost.energy.count(), here + ".energy");
    }
    check_home(t, path + ".home");
  }

  void check_home(TensorId t, const std::string& path) const {
    const auto& home = graph_.places[t].home;
    for (std::size_t i = 0; i < home.size(); ++i) {
      const std::string here = produced_[t] ? path : element_of(path, i);
      expect_device(home[i], here);
      if (std::find(home.begin(), home.begin() + static_cast<std::ptrdiff_t>(i), home[i]) !=
          home.begin() + static_cast<std::ptrdiff_t>(i)) {
        throw InputError(here, "the device " + quote(name(home[i])) + " stands twice");
      }
    }
    if (!produced_[t]) {
      if (home.empty()) throw InputError(path, "an input of the graph must be resident somewhere");
    } else if (!home.empty() && !graph_.graph[t].keep) {
      throw InputError(path, "only inputs of the graph and tensors with \"keep\" have a home");
    } else if (home.size() > 1) {
      throw InputError(path, "a tensor that an op produces has one home");
    }
  }

  void check_op(OpId v) const {
    const auto& runs = graph_.runs[v];
    const std::string path = element_of("ops", v.index());
    if (runs.empty()) throw InputError(path + ".on", "the op " + quote(graph_.graph[v].name) + " can run nowhere");
    for (std::size_t i = 0; i < runs.size(); ++i) {
      expect_device(runs[i].device, path + ".on");
      if (i > 0 && runs[i].device <= runs[i - 1].device) throw InputError(path + ".on", "devices must ascend");
      const std::string here = path + ".on." + name(runs[i].device);
      const std::size_t lanes = std::max<std::size_t>(1, graph_.devices[runs[i].device].lanes.size());
      if (!runs[i].lane.valid() || runs[i].lane.index() >= lanes) {
        throw InputError(here + ".lane", "no lane there has the number " + std::to_string(runs[i].lane));
      }
      expect_amount(runs[i].duration.count(), here + ".duration");
      expect_amount(runs[i].workspace.count(), here + ".workspace");
      expect_amount(runs[i].energy.count(), here + ".energy");
    }
  }

  static void accumulate(Wide& sum, Wide amount, const std::string& path, const char* what) {
    sum += amount;
    if (sum > kLargestCost) throw InputError(path, std::string(what) + " exceed 64 bits together");
  }

  void check_sums() const {
    Wide bytes = 0;
    for (const Tensor& tensor : graph_.graph.tensors) bytes += tensor.size.count();
    for (const DeviceId d : graph_.devices.ids()) {
      Wide sum = bytes;
      accumulate(sum, graph_.devices[d].fixed_memory.count(), element_of("devices", d.index()) + ".fixed_memory",
                 "the fixed memory and all sizes");
      for (const OpId v : graph_.runs.ids()) {
        const RunCost* const cost = run_cost(graph_, v, d);
        Wide with_run = sum;
        if (cost != nullptr) {
          accumulate(with_run, cost->workspace.count(), element_of("ops", v.index()),
                     "fixed memory, all sizes and the workspace");
        }
      }
    }
    Wide durations = 0;
    Wide energies = 0;
    for (const OpId v : graph_.runs.ids()) {
      Duration longest;
      Energy most;
      for (const RunCost& cost : graph_.runs[v]) {
        longest = std::max(longest, cost.duration);
        most = std::max(most, cost.energy);
      }
      accumulate(durations, Wide{longest.count()} * kComputesWithin64Bits, element_of("ops", v.index()),
                 "the durations, taken 64 times,");
      accumulate(energies, Wide{most.count()} * kComputesWithin64Bits, element_of("ops", v.index()),
                 "the energies, taken 64 times,");
    }
    for (const TensorId t : graph_.places.ids()) check_copies(t, durations, energies);
  }

  void check_copies(TensorId t, Wide& durations, Wide& energies) const {
    const std::string path = element_of("tensors", t.index());
    for (const Link& link : graph_.links) {
      // Before the cost is known to be one: it may be beyond 64 bits.
      Wide duration = duration_over(link, graph_.graph[t].size);
      Wide energy = link.energy.count();
      for (const MeasuredCopy& copy : graph_.places[t].copies) {
        if (copy.from != link.from || copy.to != link.to) continue;
        duration = copy.cost.duration.count();
        energy = copy.cost.energy.count();
      }
      if (duration > kLargestCost)
        throw InputError(path, "its copy from " + quote(name(link.from)) + " takes more than 64 bits");
      accumulate(durations, duration * kComputesWithin64Bits, path,
                 "the durations of runs and copies, taken 64 times,");
      accumulate(energies, energy * kComputesWithin64Bits, path, "the energies of runs and copies, taken 64 times,");
    }
  }

  const DeviceGraph& graph_;
  Table<TensorId, bool> produced_;
};

}  // namespace

DeviceGraph on_one_device(Graph graph) {
  DeviceGraph result;
  const DeviceId only(0);
  result.devices.push_back({.name = "device", .fixed_memory = std::exchange(graph.fixed_memory, Bytes())});
  for (const bool is_produced : produced_tensors(graph)) {
    result.places.push_back({.home = is_produced ? std::vector<DeviceId>{} : std::vector{only}});
  }
  for (Op& op : graph.ops) {
    result.runs.push_back({{only, std::exchange(op.duration, Duration()), std::exchange(op.workspace, Bytes())}});
  }
  result.graph = std::move(graph);
  return result;
}

std::optional<Graph> of_one_device(const DeviceGraph& graph) {
  if (graph.runs.empty()) return std::nullopt;
  const DeviceId only = graph.runs.front().front().device;
  const Table<TensorId, bool> produced = produced_tensors(graph.graph);
  for (const TensorId t : graph.places.ids()) {
    const auto& home = graph.places[t].home;
    const bool is_there = std::find(home.begin(), home.end(), only) != home.end();
    if (!is_there && (!produced[t] || !home.empty())) return std::nullopt;
  }
  Graph result = graph.graph;
  result.fixed_memory = graph.devices[only].fixed_memory;
  for (const OpId v : graph.runs.ids()) {
    const std::vector<RunCost>& runs = graph.runs[v];
    if (runs.size() > 1 || runs.front().device != only) return std::nullopt;
    result[v].duration = runs.front().duration;
    result[v].workspace = runs.front().workspace;
  }
  return result;
}

DeviceGraph reordered(const DeviceGraph& graph, const Order& order) {
  DeviceGraph result = graph;
  result.graph = reordered(graph.graph, order);
  for (const OpId v : result.runs.ids()) result.runs[v] = graph.runs[order[v.index()]];
  return result;
}

const RunCost* run_cost(const DeviceGraph& graph, OpId op, DeviceId device) {
  for (const RunCost& cost : graph.runs[op]) {
    if (cost.device == device) return &cost;
  }
  return nullptr;
}

std::optional<CopyCost> copy_cost(const DeviceGraph& graph, TensorId tensor, DeviceId from, DeviceId to) {
  for (const MeasuredCopy& copy : graph.places[tensor].copies) {
    if (copy.from == from && copy.to == to) return copy.cost;
  }
  for (const Link& link : graph.links) {
    if (link.from != from || link.to != to) continue;
    return CopyCost{Duration(static_cast<std::int64_t>(duration_over(link, graph.graph[tensor].size))), link.energy};
  }
  return std::nullopt;
}

bool has_lanes(const DeviceGraph& graph) {
  return std::any_of(graph.devices.begin(), graph.devices.end(),
                     [](const Device& device) { return !device.lanes.empty(); });
}

StreamNumbers::StreamNumbers(const DeviceGraph& graph) {
  for (const Device& device : graph.devices) {
    first_.push_back(lanes_);
    lanes_ += std::max<std::size_t>(1, device.lanes.size());
  }
}

Bytes all_memory(const DeviceGraph& graph) {
  Bytes sum;
  for (const Tensor& tensor : graph.graph.tensors) sum += tensor.size;
  for (const Device& device : graph.devices) sum += device.fixed_memory;
  return sum;
}

Table<TensorId, bool> produced_tensors(const Graph& graph) {
  Table<TensorId, bool> produced(graph.tensors.size(), false);
  for (const Op& op : graph.ops) {
    for (const TensorId t : op.outputs) produced[t] = true;
  }
  return produced;
}

void validate(const DeviceGraph& graph) {
  validate(graph.graph);
  expect_one_mode(graph.graph, "a graph over several devices");
  if (graph.places.size() != graph.graph.tensors.size() || graph.runs.size() != graph.graph.ops.size()) {
    throw InputError("graph", "not every tensor has its places, or not every op its runs");
  }
  DeviceChecker(graph).run();
}

}  // namespace remora
