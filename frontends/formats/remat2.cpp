// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "frontends/formats/interchange.hpp"
#include "model/error.hpp"
#include "model/graph.hpp"
#include "model/quote.hpp"
#include "model/types.hpp"

namespace remora::interchange {

// The nodes of a `p remat2` text as they are written (interchange.hpp has the grammar), before anything is made of them.

enum class Remat2Kind { normal, effectful, pointer };

struct Remat2Node {
  std::int64_t id = 0;
  /// Where it is written, from 1.
  int line = 0;
  /// Positions in the list of nodes, as written, repeats included.
  std::vector<std::size_t> dependencies{};
  Remat2Kind kind = Remat2Kind::normal;
  Duration duration{};
  Bytes size{};
  Bytes workspace{};
  bool target = false;
  bool loss = false;
};

struct Remat2Text {
  std::optional<std::int64_t> memory_limit{};
  /// In the order of the text; one or more.
  std::vector<Remat2Node> nodes{};
};

/// Throws InputError with the line of the first fault. O(text) expected time.
Remat2Text parse_remat2(std::string_view text);

namespace {

constexpr std::string_view kWhiteSpace = " \t\r\n\f\v";

/// The words of a text, one after the other.
class Words {
 public:
  explicit Words(std::string_view text) : rest_(text) { advance(); }

  [[nodiscard]] bool at_end() const { return word_.empty(); }
  [[nodiscard]] int line() const { return line_; }
  [[nodiscard]] bool at_number() const { return !at_end() && word_.front() >= '0' && word_.front() <= '9'; }

  /// Goes past the word if it is next.
  bool take(std::string_view word) {
    if (word_ != word) return false;
    advance();
    return true;
  }

  void expect(std::string_view word) {
    if (!take(word)) fail_expecting("\"" + std::string(word) + "\"");
  }

  std::int64_t number(const std::string& meaning) {
    if (!at_number()) fail_expecting(meaning + ", a number from 0");
    std::int64_t value = 0;
    const char* end = word_.data() + word_.size();
    const auto [stop, error] = std::from_chars(word_.data(), end, value);
    if (error == std::errc::result_out_of_range) fail(meaning + " " + quote(word_) + " exceeds 64 bits");
    if (stop != end) fail_expecting(meaning + ", a number from 0");
    advance();
    return value;
  }

  [[noreturn]] void fail_expecting(const std::string& expected) const {
    fail(at_end() ? "the text ends where " + expected + " should stand"
                  : "expected " + expected + ", found " + quote(word_));
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw InputError("line " + std::to_string(line_), what); }

  void advance() {
    const std::size_t first = std::min(rest_.find_first_not_of(kWhiteSpace), rest_.size());
    line_ += static_cast<int>(std::count(rest_.begin(), rest_.begin() + static_cast<std::ptrdiff_t>(first), '\n'));
    rest_.remove_prefix(first);
    word_ = rest_.substr(0, rest_.find_first_of(kWhiteSpace));
    rest_.remove_prefix(word_.size());
  }

  std::string_view rest_;
  /// The next word; empty at the end.
  std::string_view word_;
  int line_ = 1;
};

class Parser {
 public:
  explicit Parser(std::string_view text) : words_(text) {}

  Remat2Text run() {
    words_.expect("p");
    words_.expect("remat2");
    Remat2Text text;
    if (words_.take("memlimit")) text.memory_limit = words_.number("the memory limit");
    words_.expect("node");
    read_node();
    while (words_.take("node")) read_node();
    if (!words_.at_end()) words_.fail_expecting("a further word of this node or the next \"node\"");
    for (std::size_t i = 0; i < nodes_.size(); ++i) resolve(i);
    text.nodes = std::move(nodes_);
    return text;
  }

 private:
  void read_node() {
    Remat2Node node{.line = words_.line()};
    node.id = words_.number("the node's id");
    const auto [entry, inserted] = position_.emplace(node.id, nodes_.size());
    if (!inserted) {
      throw InputError(place(node), "a second node " + std::to_string(node.id) + ", the first is in " +
                                        place(nodes_[entry->second]));
    }
    std::vector<std::int64_t>& ids = dependency_ids_.emplace_back();
    if (words_.take("deps")) {
      while (words_.at_number()) ids.push_back(words_.number("a dependency"));
    }
    read_weight(node);
    node.target = words_.take("target");
    node.loss = words_.take("loss");
    nodes_.push_back(std::move(node));
  }

  void read_weight(Remat2Node& node) {
    if (words_.take("cpu")) {
      node.duration = Duration(words_.number("cpu"));
      words_.expect("mem");
      node.size = Bytes(words_.number("mem"));
      if (words_.take("overhead")) node.workspace = Bytes(words_.number("overhead"));
    } else if (words_.take("effectful")) {
      node.kind = Remat2Kind::effectful;
    } else if (words_.take("pointer")) {
      node.kind = Remat2Kind::pointer;
    } else {
      node.duration = Duration(1);
      node.size = Bytes(1);
    }
  }

  /// A node may depend on one that is written later.
  void resolve(std::size_t i) {
    Remat2Node& node = nodes_[i];
    node.dependencies.reserve(dependency_ids_[i].size());
    for (const std::int64_t id : dependency_ids_[i]) {
      const auto found = position_.find(id);
      if (found == position_.end()) {
        throw InputError(place(node), "node " + std::to_string(node.id) + " depends on node " + std::to_string(id) +
                                          ", which does not exist");
      }
      node.dependencies.push_back(found->second);
    }
  }

  static std::string place(const Remat2Node& node) { return "line " + std::to_string(node.line); }

  Words words_;
  std::vector<Remat2Node> nodes_;
  /// The ids of every node's dependencies, as written.
  std::vector<std::vector<std::int64_t>> dependency_ids_;
  std::unordered_map<std::int64_t, std::size_t> position_;
};

}  // namespace

Remat2Text parse_remat2(std::string_view text) {
  return Parser(text).run();
}

namespace {

constexpr std::size_t kIdsShown = 10;

using Positions = std::vector<std::size_t>;

void sort_without_repeats(Positions& positions) {
  std::sort(positions.begin(), positions.end());
  positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
}

/// Names one cycle among the nodes, of which there is one.
[[noreturn]] void fail_with_cycle(const std::vector<Remat2Node>& nodes) {
  Graph listed;
  Table<TensorId, OpId> producer;
  producer.reserve(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    Op op{.outputs = {TensorId(i)}};
    for (const std::size_t from : nodes[i].dependencies) op.inputs.emplace_back(from);
    producer.push_back(listed.add_op(std::move(op)));
  }
  const std::vector<OpId> cycle = find_cycle(listed, producer);
  const auto node = [&](std::size_t k) -> const Remat2Node& { return nodes[static_cast<std::size_t>(cycle[k])]; };
  std::string ids;
  for (std::size_t k = 0; k < cycle.size() && k < kIdsShown; ++k) ids += std::to_string(node(k).id) + " -> ";
  if (cycle.size() > kIdsShown) ids += "... (" + std::to_string(cycle.size()) + " nodes) -> ";
  throw InputError("line " + std::to_string(node(0).line),
                   "the nodes form a cycle: " + ids + std::to_string(node(0).id));
}

/// The positions of the nodes in an order in which they can run (Kahn 1962), the first listed first.
Positions run_order(const std::vector<Remat2Node>& nodes) {
  std::vector<Positions> readers(nodes.size());
  Positions missing(nodes.size());
  std::priority_queue<std::size_t, Positions, std::greater<>> ready;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    missing[i] = nodes[i].dependencies.size();
    for (const std::size_t from : nodes[i].dependencies) readers[from].push_back(i);
    if (missing[i] == 0) ready.push(i);
  }
  Positions order;
  order.reserve(nodes.size());
  while (!ready.empty()) {
    order.push_back(ready.top());
    ready.pop();
    for (const std::size_t reader : readers[order.back()]) {
      if (--missing[reader] == 0) ready.push(reader);
    }
  }
  if (order.size() < nodes.size()) fail_with_cycle(nodes);
  return order;
}

class Lowering {
 public:
  explicit Lowering(const Remat2Text& text)
      : text_(text), storage_(text.nodes.size()), op_(text.nodes.size()), kept_(text.nodes.size(), false) {}

  Graph run() {
    graph_.meta = R"({"source":"TWRemat p remat2")";
    if (text_.memory_limit) graph_.meta += ",\"memlimit\":" + std::to_string(*text_.memory_limit);
    graph_.meta += "}";
    for (const std::size_t i : run_order(text_.nodes)) add(i);
    for (std::size_t i = 0; i < kept_.size(); ++i) graph_.tensors[op_[i]].keep = kept_[i];
    validate(graph_);
    return std::move(graph_);
  }

 private:
  void add(std::size_t i) {
    const Remat2Node& node = text_.nodes[i];
    const std::string name = std::to_string(node.id);
    op_[i] = graph_.ops.size();
    Op op{.name = name, .duration = node.duration, .workspace = node.workspace};
    op.outputs = {graph_.add_tensor("t" + name, node.size)};
    for (const std::size_t read : reads_of(i)) op.inputs.emplace_back(op_[read]);
    std::sort(op.inputs.begin(), op.inputs.end());
    op.recompute = node.kind != Remat2Kind::effectful && !node.loss;
    if (node.loss) op.phase = Phase::loss;
    graph_.add_op(std::move(op));
    if (node.target) keep(i);
  }

  /// The nodes that node i reads, once each: what it names, and what the pointers among them point at. Notes what node
  /// i itself points at, if it is a pointer.
  Positions reads_of(std::size_t i) {
    Positions reads = text_.nodes[i].dependencies;
    Positions& points_at = storage_[i];
    for (const std::size_t from : text_.nodes[i].dependencies) {
      reads.insert(reads.end(), storage_[from].begin(), storage_[from].end());
    }
    sort_without_repeats(reads);
    if (text_.nodes[i].kind == Remat2Kind::pointer) {
      for (const std::size_t read : reads) {
        if (text_.nodes[read].kind != Remat2Kind::pointer) points_at.push_back(read);
      }
    }
    return reads;
  }

  void keep(std::size_t i) {
    kept_[i] = true;
    for (const std::size_t stored : storage_[i]) kept_[stored] = true;
  }

  const Remat2Text& text_;
  Graph graph_;
  /// The nodes at which every pointer points, through pointers; empty for other nodes.
  std::vector<Positions> storage_;
  /// The op of every node that was added, which is also the number of its tensor.
  Positions op_;
  std::vector<bool> kept_;
};

}  // namespace

bool looks_like_remat2(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  constexpr std::string_view kKind = "remat2";
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  if (!text.starts_with('p')) return false;
  text.remove_prefix(1);
  const std::size_t kind = text.find_first_not_of(kBlanks);
  if (kind == 0 || kind == std::string_view::npos || !text.substr(kind).starts_with(kKind)) return false;
  const std::string_view rest = text.substr(kind + kKind.size());
  return rest.empty() || kBlanks.find(rest.front()) != std::string_view::npos;
}

Graph read_remat2(std::string_view text) {
  const Remat2Text parsed = parse_remat2(text);
  return Lowering(parsed).run();
}

}  // namespace remora::interchange
