// SPDX-License-Identifier: Apache-2.0
//
// What devices add is read first and taken out of the document; the rest is a graph as read_graph knows it, at the same
// paths.
#include <algorithm>
#include <array>
#include <cstdint>
#include <ostream>
#include <string_view>
#include <utility>

#include "frontends/formats/collective.hpp"
#include "frontends/formats/device_json.hpp"
#include "frontends/formats/document.hpp"
#include "frontends/formats/json.hpp"
#include "frontends/formats/json_text.hpp"
#include "frontends/text/text.hpp"
#include "model/error.hpp"
#include "model/quote.hpp"

namespace remora::json {
namespace {

constexpr std::array<std::string_view, 3> kDeviceKeys = {"name", "fixed_memory", "lanes"};
constexpr std::array<std::string_view, 6> kLinkKeys = {"from", "to", "latency", "bytes", "per", "energy"};

/// Entry i of an array in a document whose shape is known.
Document& entry(Document& list, std::size_t i) {
  return list.get_ref<Document::array_t&>()[i];
}

class DeviceReader {
 public:
  explicit DeviceReader(Document& document) : document_(document), root_(document) {}

  DeviceGraph read() {
    version_ = expect_format(root_, "remora-graph", 3);
    read_devices();
    if (version_ >= 3) collectives_ = CollectiveTimes(root_);
    read_links();
    const Node tensors = root_.at("tensors");
    tensors.expect_array();
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const Node tensor = tensors.element(i);
      tensor.expect_object();
      read_places(tensor);
    }
    const Node ops = root_.at("ops");
    ops.expect_array();
    for (std::size_t i = 0; i < ops.size(); ++i) {
      const Node op = ops.element(i);
      op.expect_object();
      read_runs(op);
    }
    strip();
    result_.graph = read_graph(Text(document_.dump()));
    take_own_runs();
    give_homes();
    validate(result_);
    return std::move(result_);
  }

 private:
  template <class Amount>
  static Amount amount(const Node& node, std::string_view key) {
    if (!node.has(key)) return Amount();
    const Node value = node.at(key);
    return Amount(value.integer());
  }

  void read_devices() {
    const Node devices = root_.at("devices");
    devices.expect_array();
    for (std::size_t i = 0; i < devices.size(); ++i) {
      const Node device = devices.element(i);
      device.expect_object();
      const Node name = device.at("name");
      const bool has_lanes = version_ >= 3 && device.has("lanes");
      result_.devices.push_back({.name = name.string(),
                                 .fixed_memory = amount<Bytes>(device, "fixed_memory"),
                                 .lanes = has_lanes ? read_lanes(device) : std::vector<std::string>(),
                                 .extra = device.unknown_keys(kDeviceKeys)});
    }
    if (root_.has("fixed_memory")) {
      const Node fixed = root_.at("fixed_memory");
      fixed.fail("must be absent where there are devices: each has its own");
    }
  }

  static std::vector<std::string> read_lanes(const Node& device) {
    const Node lanes = device.at("lanes");
    lanes.expect_array();
    std::vector<std::string> names;
    for (std::size_t i = 0; i < lanes.size(); ++i) names.push_back(lanes.element(i).string());
    if (names.empty()) lanes.fail("names no lane");
    return names;
  }

  /// Of an op, or of its entry in `on`.
  [[nodiscard]] LaneId lane(const Node& node, DeviceId where) const {
    if (version_ < 3 || !node.has("lane")) return LaneId(0);
    const Node named = node.at("lane");
    const std::string& name = named.string();
    const auto& lanes = result_.devices[where].lanes;
    const auto found = std::find(lanes.begin(), lanes.end(), name);
    if (found == lanes.end()) named.fail(quote(result_.devices[where].name) + " has no lane " + quote(name));
    return LaneId(static_cast<std::size_t>(found - lanes.begin()));
  }

  [[nodiscard]] DeviceId device_named(const Node& node, std::string_view name) const {
    for (const DeviceId d : result_.devices.ids()) {
      if (result_.devices[d].name == name) return d;
    }
    node.fail("there is no device " + quote(std::string(name)));
  }
  [[nodiscard]] DeviceId device(const Node& node) const { return device_named(node, node.string()); }

  void read_links() {
    if (!root_.has("links")) return;
    const Node links = root_.at("links");
    links.expect_array();
    for (std::size_t i = 0; i < links.size(); ++i) {
      const Node link = links.element(i);
      link.expect_object();
      const Node from = link.at("from");
      const Node to = link.at("to");
      const Node bytes = link.at("bytes");
      const Node per = link.at("per");
      result_.links.push_back({.from = device(from),
                               .to = device(to),
                               .latency = amount<Duration>(link, "latency"),
                               .bytes = Bytes(bytes.integer(1)),
                               .per = Duration(per.integer()),
                               .energy = amount<Energy>(link, "energy"),
                               .extra = link.unknown_keys(kLinkKeys)});
    }
  }

  void read_places(const Node& tensor) {
    TensorPlaces places;
    if (tensor.has("copy")) {
      const Node copies = tensor.at("copy");
      copies.expect_array();
      for (std::size_t i = 0; i < copies.size(); ++i) {
        const Node copy = copies.element(i);
        copy.expect_object();
        const Node from = copy.at("from");
        const Node to = copy.at("to");
        const Node duration = copy.at("duration");
        places.copies.push_back(
            {device(from), device(to), {Duration(duration.integer()), amount<Energy>(copy, "energy")}});
      }
    }
    if (tensor.has("home")) {
      const Node home = tensor.at("home");
      if (home.value().is_array()) {
        for (std::size_t i = 0; i < home.size(); ++i) {
          const Node one = home.element(i);
          places.home.push_back(device(one));
        }
        if (places.home.empty()) home.fail("names no device");
      } else {
        places.home.push_back(device(home));
      }
    }
    home_is_array_.push_back(tensor.has("home") && tensor.at("home").value().is_array());
    result_.places.push_back(std::move(places));
  }

  void read_runs(const Node& op) {
    std::vector<RunCost> runs;
    if (op.has("on")) {
      for (const std::string_view own : {"duration", "workspace", "energy", "lane"}) {
        if (!op.has(own) || (own == "lane" && version_ < 3)) continue;
        const Node value = op.at(own);
        value.fail("must be absent where \"on\" says it");
      }
      const Node on = op.at("on");
      on.expect_object();
      for (const auto& [name, value] : on.value().get_ref<const Document::object_t&>()) {
        const Node cost = on.at(name);
        const DeviceId where = device_named(cost, name);
        cost.expect_object();
        const Node duration = cost.at("duration");
        runs.push_back({where, Duration(duration.integer()), amount<Bytes>(cost, "workspace"),
                        amount<Energy>(cost, "energy"), lane(cost, where)});
      }
      if (runs.empty()) on.fail("the op can run nowhere");
      std::sort(runs.begin(), runs.end(), [](const RunCost& a, const RunCost& b) { return a.device < b.device; });
    } else {
      runs.push_back({DeviceId(0), Duration(), Bytes(), amount<Energy>(op, "energy"), lane(op, DeviceId(0))});
    }
    has_on_.push_back(op.has("on"));
    result_.runs.push_back(std::move(runs));
  }

  /// Leaves what read_graph knows.
  void strip() {
    document_["version"] = 2;
    document_.erase("devices");
    document_.erase("links");
    Document& tensors = document_["tensors"];
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      entry(tensors, i).erase("copy");
      entry(tensors, i).erase("home");
    }
    Document& ops = document_["ops"];
    for (std::size_t i = 0; i < ops.size(); ++i) {
      Document& op = entry(ops, i);
      if (op.contains("on")) op["duration"] = 0;
      op.erase("on");
      op.erase("energy");
      if (version_ < 3) continue;
      op.erase("lane");
      if (!op.contains("collective")) continue;
      const Node ops_node = root_.at("ops");
      const Node node = ops_node.element(i);
      fill_in(op, node);
    }
  }

  /// What a collective does not say of itself.
  void fill_in(Document& op, const Node& node) const {
    const Node asked = node.at("collective");
    const Collective collective(asked);
    if (!op.contains("duration")) op["duration"] = collectives_.duration_of(collective, asked).count();
    if (!op.contains("recompute") && !collective.may_run_again()) op["recompute"] = "never";
  }

  /// An op without `on` runs on the first device at its own cost.
  void take_own_runs() {
    for (const OpId v : result_.runs.ids()) {
      if (has_on_[v.index()]) continue;
      Op& op = result_.graph[v];
      result_.runs[v].front().duration = std::exchange(op.duration, Duration());
      result_.runs[v].front().workspace = std::exchange(op.workspace, Bytes());
    }
  }

  void give_homes() {
    const Table<TensorId, bool> produced = produced_tensors(result_.graph);
    for (const TensorId t : result_.places.ids()) {
      auto& home = result_.places[t].home;
      if (!home.empty() && home_is_array_[t.index()] == produced[t]) {
        const std::string expected = produced[t] ? "must be a device: an op produces the tensor"
                                                 : "must be an array of devices: the tensor is an input of the graph";
        throw InputError("$.tensors" + path_step(t.index()) + ".home", expected);
      }
      if (home.empty() && !produced[t]) home.push_back(DeviceId(0));
    }
  }

  Document& document_;
  const Node root_;
  std::int64_t version_ = 0;
  CollectiveTimes collectives_;
  DeviceGraph result_;
  std::vector<bool> has_on_;
  std::vector<bool> home_is_array_;
};

/// Puts into the graph's own entries what devices add.
class DeviceWriter {
 public:
  explicit DeviceWriter(const DeviceGraph& graph) : graph_(graph), produced_(produced_tensors(graph.graph)) {}

  Document document() const {
    Document plain = parse(text::written([&](std::ostream& out) { write_graph(out, graph_.graph); }));
    Document result;
    for (const auto& [key, value] : plain.get_ref<const Document::object_t&>()) {
      if (key == "fixed_memory") continue;
      if (key == "tensors") add_devices(result);
      result[key] = key == "version" ? Document(has_lanes(graph_) ? 3 : 2) : value;
    }
    for (const TensorId t : graph_.places.ids()) add_places(entry(result["tensors"], t.index()), t);
    for (const OpId v : graph_.runs.ids()) add_runs(entry(result["ops"], v.index()), v);
    return result;
  }

 private:
  [[nodiscard]] const std::string& name(DeviceId d) const { return graph_.devices[d].name; }

  static void add_extra(Document& object, const std::string& extra) {
    if (extra.empty()) return;
    const Document members = parse(extra);
    for (const auto& [key, value] : members.get_ref<const Document::object_t&>()) object[key] = value;
  }

  void add_devices(Document& result) const {
    Document devices = Document::array();
    for (const DeviceId d : graph_.devices.ids()) {
      Document device{{"name", name(d)}};
      if (graph_.devices[d].fixed_memory != Bytes()) device["fixed_memory"] = graph_.devices[d].fixed_memory.count();
      if (!graph_.devices[d].lanes.empty()) device["lanes"] = graph_.devices[d].lanes;
      add_extra(device, graph_.devices[d].extra);
      devices.push_back(std::move(device));
    }
    result["devices"] = std::move(devices);
    if (graph_.links.empty()) return;
    Document links = Document::array();
    for (const Link& link : graph_.links) {
      Document object{{"from", name(link.from)}, {"to", name(link.to)}};
      if (link.latency != Duration()) object["latency"] = link.latency.count();
      object["bytes"] = link.bytes.count();
      object["per"] = link.per.count();
      if (link.energy != Energy()) object["energy"] = link.energy.count();
      add_extra(object, link.extra);
      links.push_back(std::move(object));
    }
    result["links"] = std::move(links);
  }

  /// A collective that may run again although its kind does not by itself.
  static void say_recompute(Document& op) {
    const Node node(op);
    const Node asked = node.at("collective");
    if (!Collective(asked).may_run_again()) op["recompute"] = "allowed";
  }

  void add_places(Document& tensor, TensorId t) const {
    const TensorPlaces& places = graph_.places[t];
    for (const MeasuredCopy& copy : places.copies) {
      Document object{{"from", name(copy.from)}, {"to", name(copy.to)}, {"duration", copy.cost.duration.count()}};
      if (copy.cost.energy != Energy()) object["energy"] = copy.cost.energy.count();
      tensor["copy"].push_back(std::move(object));
    }
    if (produced_[t]) {
      if (!places.home.empty()) tensor["home"] = name(places.home.front());
    } else if (places.home != std::vector<DeviceId>{DeviceId(0)}) {
      for (const DeviceId d : places.home) tensor["home"].push_back(name(d));
    }
  }

  void add_runs(Document& op, OpId v) const {
    if (has_lanes(graph_) && op.contains("collective") && graph_.graph[v].recompute) say_recompute(op);
    const auto& runs = graph_.runs[v];
    if (runs.size() == 1 && runs.front().device == DeviceId(0)) {
      op["duration"] = runs.front().duration.count();
      if (runs.front().workspace != Bytes()) op["workspace"] = runs.front().workspace.count();
      if (runs.front().energy != Energy()) op["energy"] = runs.front().energy.count();
      add_lane(op, runs.front());
      return;
    }
    op.erase("duration");
    Document on = Document::object();
    for (const RunCost& run : runs) {
      Document cost{{"duration", run.duration.count()}};
      if (run.workspace != Bytes()) cost["workspace"] = run.workspace.count();
      if (run.energy != Energy()) cost["energy"] = run.energy.count();
      add_lane(cost, run);
      on[name(run.device)] = std::move(cost);
    }
    op["on"] = std::move(on);
  }

  void add_lane(Document& cost, const RunCost& run) const {
    if (run.lane != LaneId(0)) cost["lane"] = graph_.devices[run.device].lanes[run.lane.index()];
  }

  const DeviceGraph& graph_;
  Table<TensorId, bool> produced_;
};

}  // namespace

bool names_devices(Text text) {
  const std::string_view content = text.view();
  // Most graphs are told by this alone; large ones are not parsed twice.
  if (content.find("\"devices\"") == std::string_view::npos) return false;
  const Document document = Document::parse(content, nullptr, false);
  return document.is_object() && document.contains("devices") && document.contains("version") &&
         (document["version"] == 2 || document["version"] == 3);
}

DeviceGraph read_device_graph(Text text) {
  Document document = parse(text.view());
  return DeviceReader(document).read();
}

void write_device_graph(std::ostream& out, const DeviceGraph& graph) {
  validate(graph);
  const Document document = DeviceWriter(graph).document();
  std::string written;
  ObjectText object(written, ",\n  ");
  for (const auto& [key, value] : document.get_ref<const Document::object_t&>()) {
    object.key(key);
    const bool lines = key == "devices" || key == "links" || key == "tensors" || key == "ops";
    if (lines) {
      append_lines(written, 2, value.size(), [&, &list = value](std::size_t i) { written += list[i].dump(); });
    } else {
      written += value.dump();
    }
  }
  object.close();
  out << written << '\n';
}

}  // namespace remora::json
