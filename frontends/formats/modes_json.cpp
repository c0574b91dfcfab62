// SPDX-License-Identifier: Apache-2.0
#include "frontends/formats/modes_json.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "frontends/formats/keys.hpp"

namespace remora::json {
namespace {

/// Reads what the op says of mode 0, and each of its modes of itself.
class ModesReader {
 public:
  ModesReader(const Op& op, const NameTable<TensorId>& tensors, const Graph& graph) : tensors_(tensors) {
    for (const TensorId t : op.outputs) sizes_.push_back(graph[t].size);
  }

  template <class Any>
  void read_common(const Node& node, Any& mode) const {
    if (node.has("unread")) mode.unread = tensors_.resolve_all(node.at("unread"));
    if (node.has("computes")) mode.computes = positive(node.at("computes"));
    if (node.has("inner")) mode.inner = read_inner(node.at("inner"));
  }

  [[nodiscard]] Mode read_mode(const Node& node) const {
    node.expect_object();
    Mode mode{.duration = Duration(node.at("duration").integer()),
              .workspace = amount<Bytes>(node, "workspace"),
              .output_sizes = sizes_};
    if (node.has("output_sizes")) {
      const Node sizes = node.at("output_sizes");
      sizes.expect_array();
      mode.output_sizes.clear();
      for (std::size_t i = 0; i < sizes.size(); ++i) mode.output_sizes.emplace_back(sizes.element(i).integer());
    }
    read_common(node, mode);
    return mode;
  }

  static int positive(const Node& node) { return static_cast<int>(node.integer(1, std::numeric_limits<int>::max())); }

 private:
  [[nodiscard]] std::vector<InnerPeak> read_inner(const Node& node) const {
    node.expect_array();
    std::vector<InnerPeak> peaks;
    for (std::size_t i = 0; i < node.size(); ++i) {
      const Node entry = node.element(i);
      entry.expect_object();
      InnerPeak& peak = peaks.emplace_back();
      peak.workspace = Bytes(entry.at("workspace").integer(std::numeric_limits<std::int64_t>::min()));
      if (!entry.has("freed")) continue;
      const Node freed = entry.at("freed");
      freed.expect_array();
      for (std::size_t j = 0; j < freed.size(); ++j) peak.freed.push_back(read_freed(freed.element(j)));
    }
    return peaks;
  }

  [[nodiscard]] FreedInput read_freed(const Node& node) const {
    if (!node.value().is_array()) return {tensors_.resolve(node)};
    if (node.size() != 2) node.fail("must be a tensor or [tensor, bytes]");
    return {tensors_.resolve(node.element(0)), Bytes(node.element(1).integer())};
  }

  const NameTable<TensorId>& tensors_;
  std::vector<Bytes> sizes_{};
};

class ModesWriter {
  // Before its users: its type is deduced.
  [[nodiscard]] auto name() const {
    return [this](TensorId tensor) -> const std::string& { return graph_[tensor].name; };
  }

 public:
  ModesWriter(std::string& out, const Op& op, const Graph& graph) : out_(out), op_(op), graph_(graph) {}

  template <class Any>
  void write_common(ObjectText& object, const Any& mode) const {
    if (!mode.unread.empty()) object.names("unread", mode.unread, name());
    if (mode.computes != 1) object.integer("computes", mode.computes);
    if (mode.inner.empty()) return;
    object.key("inner");
    for (const InnerPeak& peak : mode.inner) {
      out_ += &peak == mode.inner.data() ? "[" : ", ";
      ObjectText entry(out_);
      entry.integer("workspace", peak.workspace.count());
      if (!peak.freed.empty()) write_freed(entry, peak.freed);
      entry.close();
    }
    out_ += ']';
  }

  void write_mode(const std::optional<Mode>& mode) const {
    if (!mode) {
      out_ += "null";
      return;
    }
    ObjectText object(out_);
    object.integer("duration", mode->duration.count());
    if (mode->workspace != Bytes()) object.integer("workspace", mode->workspace.count());
    const bool is_own =
        std::ranges::equal(mode->output_sizes, op_.outputs, {}, {}, [&](TensorId t) { return graph_[t].size; });
    if (!is_own) {
      object.key("output_sizes");
      for (std::size_t i = 0; i < mode->output_sizes.size(); ++i) {
        out_ += (i == 0 ? "[" : ", ") + std::to_string(mode->output_sizes[i].count());
      }
      out_ += ']';
    }
    write_common(object, *mode);
    object.close();
  }

 private:
  void write_freed(ObjectText& object, const std::vector<FreedInput>& freed) const {
    object.key("freed");
    for (std::size_t i = 0; i < freed.size(); ++i) {
      const bool is_limited = freed[i].most != Bytes::max();
      out_ += i == 0 ? "[" : ", ";
      if (is_limited) out_ += '[';
      append_string(out_, graph_[freed[i].tensor].name);
      if (is_limited) out_ += ", " + std::to_string(freed[i].most.count()) + "]";
    }
    out_ += ']';
  }

  std::string& out_;
  const Op& op_;
  const Graph& graph_;
};

}  // namespace

std::optional<OpModes> read_modes(const Node& node, const Op& op, const NameTable<TensorId>& tensors,
                                  const NameTable<OpId>& ops, const Graph& graph) {
  if (std::ranges::none_of(kModeKeys, [&](std::string_view key) { return node.has(key); })) return std::nullopt;
  const ModesReader reader(op, tensors, graph);
  OpModes own;
  reader.read_common(node, own);
  if (node.has("follows")) own.follows = ops.resolve(node.at("follows"));
  if (node.has("most_computes")) own.most_computes = ModesReader::positive(node.at("most_computes"));
  if (!node.has("modes")) return own;
  const Node modes = node.at("modes");
  modes.expect_array();
  for (std::size_t i = 0; i < modes.size(); ++i) {
    const Node mode = modes.element(i);
    own.further.emplace_back();
    if (!mode.value().is_null()) own.further.back() = reader.read_mode(mode);
  }
  return own;
}

void write_modes(ObjectText& object, std::string& out, const Op& op, const Graph& graph) {
  const OpModes& own = *op.modes;
  const ModesWriter writer(out, op, graph);
  object.key("modes");
  out += '[';
  for (std::size_t i = 0; i < own.further.size(); ++i) {
    if (i > 0) out += ", ";
    writer.write_mode(own.further[i]);
  }
  out += ']';
  if (own.follows.valid()) object.string("follows", graph[own.follows].name);
  writer.write_common(object, own);
  if (own.most_computes != kNoMostComputes) object.integer("most_computes", own.most_computes);
}

}  // namespace remora::json
