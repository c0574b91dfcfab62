// SPDX-License-Identifier: Apache-2.0
#include "frontends/formats/remat2_nodes.hpp"

#include <algorithm>
#include <charconv>
#include <string>
#include <unordered_map>
#include <utility>

#include "model/error.hpp"
#include "model/quote.hpp"

namespace remora::interchange {
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
                                          ", which there is not");
      }
      node.dependencies.push_back(found->second);
    }
  }

  static std::string place(const Remat2Node& node) { return "line " + std::to_string(node.line); }

  Words words_;
  std::vector<Remat2Node> nodes_;
  /// Of every node, as written.
  std::vector<std::vector<std::int64_t>> dependency_ids_;
  std::unordered_map<std::int64_t, std::size_t> position_;
};

}  // namespace

Remat2Text parse_remat2(std::string_view text) {
  return Parser(text).run();
}

}  // namespace remora::interchange
