// SPDX-License-Identifier: Apache-2.0
//
// One reader and one writer for all versions. A graph without `devices` is read and written as one whose ops run on the
// only device, which has no name; its costs then stand in the ops themselves.
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "frontends/formats/axes_json.hpp"
#include "frontends/formats/collective.hpp"
#include "frontends/formats/document.hpp"
#include "frontends/formats/json.hpp"
#include "frontends/formats/json_text.hpp"
#include "frontends/formats/keys.hpp"
#include "frontends/formats/modes_json.hpp"
#include "model/error.hpp"
#include "model/quote.hpp"

namespace remora::json {

namespace {

constexpr std::array<std::string_view, 3> kDeviceKeys = {"name", "fixed_memory", "lanes"};
constexpr std::array<std::string_view, 6> kLinkKeys = {"from", "to", "latency", "bytes", "per", "energy"};

/// A fault comes with its path in the document.
template <class AnyGraph>
void validate_read(const AnyGraph& graph) {
  try {
    validate(graph);
  } catch (const InputError& error) {
    throw InputError("$." + error.place(), error.fault());
  }
}

/// Maps the names of one list in the file to ids. Rejects empty and repeated ones, which `validate` would also do, but
/// only after blaming the references to them.
template <class Identifier>
NameTable<Identifier> read_names(const Node& list, const std::string& kind) {
  list.expect_array();
  NameTable<Identifier> names("there is no " + kind, list.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Node entry = list.element(i);
    entry.expect_object();
    const Node name = entry.at("name");
    if (name.string().empty()) name.fail("a name must not be empty");
    const Identifier first = names.add(name.string(), Identifier(i));
    if (first == Identifier(i)) continue;
    name.fail("the name " + quote(name.string()) + " is taken by " +
              list.element(static_cast<std::size_t>(first)).path());
  }
  return names;
}

/// `validate` says what else a pair must be.
std::vector<InPlace> read_in_place(const Node& node, const NameTable<TensorId>& tensors) {
  node.expect_array();
  std::vector<InPlace> pairs;
  for (std::size_t i = 0; i < node.size(); ++i) {
    const Node pair = node.element(i);
    pair.expect_array();
    if (pair.size() != 2) pair.fail("must be [output, input]");
    const Node output = pair.element(0);
    const Node input = pair.element(1);
    pairs.push_back({tensors.resolve(output), tensors.resolve(input)});
  }
  return pairs;
}

bool read_recompute(const Node& node) {
  const std::string& word = node.string();
  if (word != "allowed" && word != "never") node.fail("must be \"allowed\" or \"never\", not " + quote(word));
  return word == "allowed";
}

/// Visits the entries of an array of objects.
template <class Visit>
void for_each_entry(const Node& list, const Visit& visit) {
  list.expect_array();
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Node entry = list.element(i);
    entry.expect_object();
    visit(entry);
  }
}

class GraphReader {
 public:
  explicit GraphReader(const Node& root)
      : root_(root),
        has_devices_(root.value().is_object() && root.has("devices")),
        version_(expect_format(root, "remora-graph", kLatestGraph)) {
    // Version 3 is that of lanes, which only several devices have.
    if (version_ == 3 && !has_devices_) expect_format(root, "remora-graph", 2);
    has_devices_ = has_devices_ && version_ > 1;
  }

  [[nodiscard]] bool has_devices() const { return has_devices_; }

  /// A graph without devices has its costs in its ops, and neither places nor runs.
  DeviceGraph read() {
    refuse_devices(root_, kDeviceGraphKeys);
    read_devices();
    read_root();
    const Node tensors = root_.at("tensors");
    tensors_ = read_names<TensorId>(tensors, "tensor");
    result_.graph.tensors.reserve(tensors.size());
    for_each_entry(tensors, [&](const Node& tensor) { read_tensor(tensor); });
    const Node ops = root_.at("ops");
    ops_ = read_names<OpId>(ops, "op");
    result_.graph.ops.reserve(ops.size());
    for_each_entry(ops, [&](const Node& op) { read_op(op); });
    validate_read(result_.graph);
    if (has_devices_) {
      give_homes();
      validate_read(result_);
    }
    return std::move(result_);
  }

 private:
  /// In a graph that names no devices.
  void refuse_devices(const Node& node, std::span<const std::string_view> keys) const {
    if (version_ == 1 || has_devices_) return;
    for (const std::string_view key : keys) {
      if (!node.has(key)) continue;
      const Node found = node.at(key);
      found.fail("must be absent in a graph without \"devices\"");
    }
  }

  void read_root() {
    Graph& graph = result_.graph;
    graph.name = root_.at("name").string();
    if (root_.has("fixed_memory")) {
      const Node fixed = root_.at("fixed_memory");
      if (has_devices_) fixed.fail("must be absent where there are devices: each has its own");
      graph.fixed_memory = Bytes(fixed.integer());
    }
    if (root_.has("meta")) {
      const Node meta = root_.at("meta");
      meta.expect_object();
      graph.meta = meta.value().dump();
    }
    if (version_ > 1 && root_.has("recompute_allocates")) {
      const Node allocation = root_.at("recompute_allocates");
      graph.recompute_allocates = read_word(allocation, kAllocationWords);
    }
    graph.extra = root_.unknown_keys(graph_keys(version_));
  }

  void read_devices() {
    if (!has_devices_) return;
    const Node devices = root_.at("devices");
    for_each_entry(devices, [&](const Node& device) {
      const bool has_lanes = version_ >= 3 && device.has("lanes");
      result_.devices.push_back({.name = device.at("name").string(),
                                 .fixed_memory = amount<Bytes>(device, "fixed_memory"),
                                 .lanes = has_lanes ? read_lanes(device) : std::vector<std::string>(),
                                 .extra = device.unknown_keys(kDeviceKeys)});
    });
    if (version_ >= 3) collectives_ = CollectiveTimes(root_);
    if (!root_.has("links")) return;
    const Node links = root_.at("links");
    for_each_entry(links, [&](const Node& link) {
      result_.links.push_back({.from = device(link.at("from")),
                               .to = device(link.at("to")),
                               .latency = amount<Duration>(link, "latency"),
                               .bytes = Bytes(link.at("bytes").integer(1)),
                               .per = Duration(link.at("per").integer()),
                               .energy = amount<Energy>(link, "energy"),
                               .extra = link.unknown_keys(kLinkKeys)});
    });
  }

  static std::vector<std::string> read_lanes(const Node& device) {
    std::vector<std::string> names = strings(device, "lanes");
    if (names.empty()) device.at("lanes").fail("names no lane");
    return names;
  }

  /// The lane of an op, or of its entry in `on`.
  [[nodiscard]] LaneId lane(const Node& node, DeviceId where) const {
    if (version_ < 3 || !node.has("lane")) return LaneId(0);
    const Node named = node.at("lane");
    const auto& lanes = result_.devices[where].lanes;
    const auto found = std::find(lanes.begin(), lanes.end(), named.string());
    if (found == lanes.end()) {
      named.fail(quote(result_.devices[where].name) + " has no lane " + quote(named.string()));
    }
    return LaneId(static_cast<std::size_t>(found - lanes.begin()));
  }

  [[nodiscard]] DeviceId device(const Node& node, std::string_view name) const {
    for (const DeviceId d : result_.devices.ids()) {
      if (result_.devices[d].name == name) return d;
    }
    node.fail("there is no device " + quote(name));
  }
  [[nodiscard]] DeviceId device(const Node& node) const { return device(node, node.string()); }

  void read_tensor(const Node& node) {
    refuse_devices(node, kDeviceTensorKeys);
    Tensor tensor{.name = node.at("name").string(), .size = Bytes(node.at("size").integer())};
    if (node.has("keep")) tensor.keep = node.at("keep").boolean();
    tensor.extra = node.unknown_keys(tensor_keys(version_));
    result_.graph.tensors.push_back(std::move(tensor));
    if (has_devices_) read_places(node);
  }

  void read_places(const Node& tensor) {
    TensorPlaces places;
    if (tensor.has("copy")) {
      const Node copies = tensor.at("copy");
      for_each_entry(copies, [&](const Node& copy) {
        const Node duration = copy.at("duration");
        places.copies.push_back({device(copy.at("from")),
                                 device(copy.at("to")),
                                 {Duration(duration.integer()), amount<Energy>(copy, "energy")}});
      });
    }
    home_is_array_.push_back(false);
    if (tensor.has("home")) {
      const Node home = tensor.at("home");
      home_is_array_.back() = home.value().is_array();
      if (!home_is_array_.back()) places.home.push_back(device(home));
      for (std::size_t i = 0; home_is_array_.back() && i < home.size(); ++i) {
        places.home.push_back(device(home.element(i)));
      }
      if (places.home.empty()) home.fail("names no device");
    }
    result_.places.push_back(std::move(places));
  }

  void read_op(const Node& node) {
    refuse_devices(node, kDeviceOpKeys);
    Op op{.name = node.at("name").string()};
    op.inputs = tensors_.resolve_all(node.at("inputs"));
    op.outputs = tensors_.resolve_all(node.at("outputs"));
    if (node.has("type")) op.type = node.at("type").string();
    if (has_devices_) {
      read_runs(node, op);
    } else {
      op.duration = Duration(node.at("duration").integer());
      op.workspace = amount<Bytes>(node, "workspace");
    }
    if (node.has("recompute")) op.recompute = read_recompute(node.at("recompute"));
    if (node.has("max_computes")) {
      op.max_computes = static_cast<int>(node.at("max_computes").integer(1, std::numeric_limits<int>::max()));
    }
    if (node.has("phase")) op.phase = read_word(node.at("phase"), kPhaseWords);
    if (node.has("backward_of")) op.backward_of = ops_.resolve(node.at("backward_of"));
    if (node.has("after")) op.after = ops_.resolve_all(node.at("after"));
    if (version_ > 1 && node.has("in_place")) {
      const Node pairs = node.at("in_place");
      op.in_place = read_in_place(pairs, tensors_);
    }
    if (version_ >= 4 && node.has("axes")) op.axes = read_axes(node.at("axes"), tensors_, result_.graph);
    if (version_ >= 4) op.modes = read_modes(node, op, tensors_, ops_, result_.graph);
    op.extra = node.unknown_keys(op_keys(version_, has_devices_));
    result_.graph.ops.push_back(std::move(op));
  }

  /// For a collective, also decides whether it may be recomputed, if the op does not say so.
  void read_runs(const Node& node, Op& op) {
    const bool is_collective = version_ >= 3 && node.has("collective");
    std::vector<RunCost> runs;
    if (node.has("on")) {
      for (const std::string_view own : {"duration", "workspace", "energy", "lane"}) {
        if (!node.has(own) || (own == "lane" && version_ < 3)) continue;
        const Node value = node.at(own);
        value.fail("must be absent where \"on\" says it");
      }
      const Node on = node.at("on");
      on.expect_object();
      for (const auto& [name, value] : on.value().get_ref<const Document::object_t&>()) {
        const Node cost = on.at(name);
        cost.expect_object();
        runs.push_back(read_run(cost, device(cost, name), Duration(cost.at("duration").integer())));
      }
      if (runs.empty()) on.fail("the op can run nowhere");
      std::sort(runs.begin(), runs.end(), [](const RunCost& a, const RunCost& b) { return a.device < b.device; });
    }
    if (is_collective) {
      const Node asked = node.at("collective");
      const Collective collective(asked);
      op.recompute = collective.may_run_again();
      if (runs.empty() && !node.has("duration")) {
        runs.push_back(read_run(node, DeviceId(0), collectives_.duration_of(collective, asked)));
      }
    }
    if (runs.empty()) runs.push_back(read_run(node, DeviceId(0), Duration(node.at("duration").integer())));
    result_.runs.push_back(std::move(runs));
  }

  [[nodiscard]] RunCost read_run(const Node& cost, DeviceId where, Duration duration) const {
    return {where, duration, amount<Bytes>(cost, "workspace"), amount<Energy>(cost, "energy"), lane(cost, where)};
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

  const Node& root_;
  bool has_devices_;
  std::int64_t version_;
  NameTable<TensorId> tensors_{"", 0};
  NameTable<OpId> ops_{"", 0};
  CollectiveTimes collectives_{};
  DeviceGraph result_{};
  std::vector<bool> home_is_array_{};
};

}  // namespace

bool names_devices(Text text) {
  const std::string_view content = text.view();
  // Most graphs are told by this alone; large ones are not parsed twice.
  if (content.find("\"devices\"") == std::string_view::npos) return false;
  const Document document = parse_or_discard(content);
  return document.is_object() && document.contains("devices") && document.contains("version") &&
         document["version"].is_number_integer() && document["version"] >= 2 && document["version"] <= kLatestGraph;
}

Graph read_graph(Text text) {
  const Document document = parse(text.view());
  const Node root(document);
  GraphReader reader(root);
  if (reader.has_devices()) {
    const Node devices = root.at("devices");
    devices.fail(
        "the graph is for several devices, which are not supported here; docs/guide/devices.md lists what supports "
        "them");
  }
  return std::move(reader.read().graph);
}

DeviceGraph read_device_graph(Text text) {
  const Document document = parse(text.view());
  const Node root(document);
  GraphReader reader(root);
  if (!reader.has_devices()) static_cast<void>(root.at("devices"));
  return reader.read();
}

namespace {

/// The methods write one entry each; a failure inside gets its place in the file.
class GraphWriter {
 public:
  explicit GraphWriter(const Graph& graph) : graph_(graph), version_(version_of(graph)) {}
  explicit GraphWriter(const DeviceGraph& graph)
      : graph_(graph.graph),
        devices_(&graph),
        produced_(produced_tensors(graph.graph)),
        version_(has_axes(graph.graph) ? 4
                 : has_lanes(graph)    ? 3
                                       : 2) {}

  std::string text() {
    out_.reserve(expected_size());
    ObjectText object(out_, ",\n  ");
    object.string("format", "remora-graph");
    object.integer("version", version_);
    placed("$.name", [&] { object.string("name", graph_.name); });
    if (devices_ == nullptr) object.integer("fixed_memory", graph_.fixed_memory.count());
    if (graph_.recompute_allocates == Allocation::all) object.string("recompute_allocates", "all");
    if (devices_ != nullptr) write_devices(object);
    object.key("tensors");
    append_lines(out_, 2, graph_.tensors.size(), [&](std::size_t i) { write_tensor(TensorId(i)); });
    object.key("ops");
    append_lines(out_, 2, graph_.ops.size(), [&](std::size_t i) { write_op(OpId(i)); });
    if (!graph_.meta.empty()) placed("$.meta", [&] { write_meta(object); });
    placed("$", [&] { object.splice(graph_.extra, graph_keys(version_)); });
    object.close();
    out_ += '\n';
    return std::move(out_);
  }

 private:
  /// The least that can say it.
  static std::int64_t version_of(const Graph& graph) {
    if (has_axes(graph) || has_modes(graph)) return 4;
    const bool in_place =
        std::any_of(graph.ops.begin(), graph.ops.end(), [](const Op& op) { return !op.in_place.empty(); });
    return in_place || graph.recompute_allocates == Allocation::all ? 2 : 1;
  }

  static bool has_axes(const Graph& graph) {
    return std::any_of(graph.ops.begin(), graph.ops.end(), [](const Op& op) { return !op.axes.empty(); });
  }

  /// Not exactly. A text that grows is copied several times.
  [[nodiscard]] std::size_t expected_size() const {
    constexpr std::size_t kKeys = 100;
    constexpr std::size_t kQuotes = 4;
    std::size_t names = 0;
    for (const Tensor& tensor : graph_.tensors) names += tensor.name.size() + kQuotes;
    std::size_t size = names + kKeys * (1 + graph_.tensors.size() + graph_.ops.size());
    const std::size_t name = graph_.tensors.empty() ? 0 : names / graph_.tensors.size() + 1;
    for (const Op& op : graph_.ops) size += op.name.size() + name * (op.inputs.size() + op.outputs.size());
    return size;
  }

  [[nodiscard]] const std::string& device_name(DeviceId d) const { return devices_->devices[d].name; }

  template <class Amount>
  static void write_amount(ObjectText& object, std::string_view key, Amount amount) {
    if (amount != Amount()) object.integer(key, amount.count());
  }

  void write_devices(ObjectText& object) {
    object.key("devices");
    append_lines(out_, 2, devices_->devices.size(), [&](std::size_t i) {
      const Device& device = devices_->devices[DeviceId(i)];
      ObjectText entry(out_);
      entry.string("name", device.name);
      write_amount(entry, "fixed_memory", device.fixed_memory);
      if (!device.lanes.empty()) entry.strings("lanes", device.lanes);
      entry.splice(device.extra, kDeviceKeys);
      entry.close();
    });
    if (devices_->links.empty()) return;
    object.key("links");
    append_lines(out_, 2, devices_->links.size(), [&](std::size_t i) {
      const Link& link = devices_->links[i];
      ObjectText entry(out_);
      entry.string("from", device_name(link.from));
      entry.string("to", device_name(link.to));
      write_amount(entry, "latency", link.latency);
      entry.integer("bytes", link.bytes.count());
      entry.integer("per", link.per.count());
      write_amount(entry, "energy", link.energy);
      entry.splice(link.extra, kLinkKeys);
      entry.close();
    });
  }

  void write_in_place(ObjectText& object, const Op& op) {
    object.key("in_place");
    out_ += '[';
    for (std::size_t i = 0; i < op.in_place.size(); ++i) {
      out_ += i > 0 ? ", [" : "[";
      append_string(out_, graph_[op.in_place[i].output].name);
      out_ += ", ";
      append_string(out_, graph_[op.in_place[i].input].name);
      out_ += ']';
    }
    out_ += ']';
  }

  template <class Body>
  static void placed(const std::string& path, const Body& body) {
    try {
      body();
    } catch (const InputError& error) {
      throw InputError(path, error.what());
    }
  }

  void write_meta(ObjectText& object) {
    const Document meta = parse(graph_.meta);
    Node(meta).expect_object();
    object.key("meta");
    out_ += meta.dump();
  }

  void write_tensor(TensorId t) {
    const Tensor& tensor = graph_[t];
    placed("$.tensors" + path_step(t.index()), [&] {
      ObjectText object(out_);
      object.string("name", tensor.name);
      object.integer("size", tensor.size.count());
      if (tensor.keep) object.boolean("keep", true);
      if (devices_ != nullptr) write_places(object, t);
      object.splice(tensor.extra, tensor_keys(version_));
      object.close();
    });
  }

  void write_places(ObjectText& object, TensorId t) {
    const auto& [copies, home] = devices_->places[t];
    if (!copies.empty()) {
      object.key("copy");
      for (const MeasuredCopy& copy : copies) {
        out_ += &copy == copies.data() ? "[" : ", ";
        ObjectText entry(out_);
        entry.string("from", device_name(copy.from));
        entry.string("to", device_name(copy.to));
        entry.integer("duration", copy.cost.duration.count());
        write_amount(entry, "energy", copy.cost.energy);
        entry.close();
      }
      out_ += ']';
    }
    if (produced_[t]) {
      if (!home.empty()) object.string("home", device_name(home.front()));
    } else if (home != std::vector<DeviceId>{DeviceId(0)}) {
      object.names("home", home, [&](DeviceId d) -> const std::string& { return device_name(d); });
    }
  }

  void write_op(OpId v) {
    const Op& op = graph_[v];
    const auto tensor_name = [&](TensorId tensor) -> const std::string& { return graph_[tensor].name; };
    const auto op_name = [&](OpId other) -> const std::string& { return graph_[other].name; };
    placed("$.ops" + path_step(v.index()), [&] {
      ObjectText object(out_);
      object.string("name", op.name);
      if (!op.type.empty()) object.string("type", op.type);
      write_runs(object, v);
      object.names("inputs", op.inputs, tensor_name);
      object.names("outputs", op.outputs, tensor_name);
      if (!op.recompute) object.string("recompute", "never");
      if (op.recompute && runs_once_by_kind(op)) object.string("recompute", "allowed");
      if (op.max_computes) object.integer("max_computes", *op.max_computes);
      if (op.phase != Phase::none) object.string("phase", word_of(op.phase, kPhaseWords));
      if (op.backward_of.valid()) object.string("backward_of", op_name(op.backward_of));
      if (!op.after.empty()) object.names("after", op.after, op_name);
      if (!op.in_place.empty()) write_in_place(object, op);
      if (!op.axes.empty()) write_axes(object, out_, op, graph_);
      if (op.modes) write_modes(object, out_, op, graph_);
      object.splice(op.extra, op_keys(version_, devices_ != nullptr));
      object.close();
    });
  }

  /// True if the op is a collective of a kind that must not run again.
  [[nodiscard]] bool runs_once_by_kind(const Op& op) const {
    if (version_ < 3 || op.extra.empty()) return false;
    const Document extra = parse(op.extra);
    const Node node(extra);
    if (!node.has("collective")) return false;
    const Node asked = node.at("collective");
    return !Collective(asked).may_run_again();
  }

  void write_runs(ObjectText& object, OpId v) {
    if (devices_ == nullptr) return write_run(object, {{}, graph_[v].duration, graph_[v].workspace});
    const auto& runs = devices_->runs[v];
    if (runs.size() == 1 && runs.front().device == DeviceId(0)) return write_run(object, runs.front());
    object.key("on");
    ObjectText on(out_);
    for (const RunCost& run : runs) {
      on.key(device_name(run.device));
      ObjectText cost(out_);
      write_run(cost, run);
      cost.close();
    }
    on.close();
  }

  void write_run(ObjectText& object, const RunCost& run) const {
    object.integer("duration", run.duration.count());
    write_amount(object, "workspace", run.workspace);
    write_amount(object, "energy", run.energy);
    if (run.lane != LaneId(0)) object.string("lane", devices_->devices[run.device].lanes[run.lane.index()]);
  }

  const Graph& graph_;
  /// Null where the graph names no devices.
  const DeviceGraph* devices_ = nullptr;
  Table<TensorId, bool> produced_{};
  std::int64_t version_;
  std::string out_{};
};

}  // namespace

void write_graph(std::ostream& out, const Graph& graph) {
  validate(graph);
  out << GraphWriter(graph).text();
}

void write_graph(std::ostream& out, const DeviceGraph& graph) {
  validate(graph);
  out << GraphWriter(graph).text();
}

}  // namespace remora::json
