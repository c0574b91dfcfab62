// SPDX-License-Identifier: Apache-2.0
//
// JSON text in, one checked value out: what both readers share below the formats themselves.
//
// `parse` is stricter than the library underneath. It refuses an object that has the same key twice (the library would
// silently take the last) and values nested deeper than kDeepest (whoever walks them by recursion is then safe).
//
// A Node is a value together with the way to it, so that whoever finds a fault can say where it stands:
//
//     const Node root(document);
//     const Node ops = root.at("ops");          // $.ops
//     const Node third = ops.element(3);        // $.ops[3]
//     const Node size = third.at("duration");   // $.ops[3].duration
//     size.integer();                           // throws InputError "$.ops[3].duration: must be an integer, not "12""
//
// The way is a chain of pointers through the parents and is only spelled out for a message: reading costs no strings. A
// parent must therefore outlive its children and stay where it is; the compiler refuses a temporary parent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "model/error.hpp"
#include "model/quote.hpp"

namespace remora::json {

/// Objects keep the order of their keys, so that unknown ones leave as they came.
using Document = nlohmann::ordered_json;

inline constexpr std::size_t kDeepest = 256;

/// The value that `text` (UTF-8, a byte order mark allowed) consists of. Throws InputError: with line and column for
/// text that is not JSON, with the JSON path for a repeated key, a number beyond a double, or too deep a nesting.
Document parse(std::string_view text);

/// The same without a look at keys and depth; a discarded value for text that is not JSON.
Document parse_or_discard(std::string_view text);

/// The text of a value, in one line or with `indent` spaces a level; what is not UTF-8 is replaced. Call these in place
/// of the library's own, which every target that calls them compiles again.
std::string dump(const Document& value, int indent = -1);

/// One step of a JSON path: ".size", or "[\"odd key\"]" for a key that is no plain word; "[3]".
std::string path_step(std::string_view key);
std::string path_step(std::size_t index);

class Node {
 public:
  /// The root, `$`. The document must outlive the node.
  explicit Node(const Document& document) : value_(&document) {}
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  [[nodiscard]] const Document& value() const { return *value_; }
  [[nodiscard]] std::string path() const;
  [[noreturn]] void fail(const std::string& what) const;

  /// Throws unless this is an object (array).
  void expect_object() const;
  void expect_array() const;

  /// The value under `key` of this object; throws if it is missing.
  [[nodiscard]] Node at(std::string_view key) const&;
  [[nodiscard]] Node at(std::string_view key) const&& = delete;
  [[nodiscard]] bool has(std::string_view key) const { return lookup(key) != nullptr; }

  /// The number of entries of this array or object, and entry i of this array.
  [[nodiscard]] std::size_t size() const { return value_->size(); }
  [[nodiscard]] Node element(std::size_t i) const&;
  [[nodiscard]] Node element(std::size_t i) const&& = delete;

  /// The value itself, of the type asked for; else throws.
  [[nodiscard]] std::int64_t integer(std::int64_t least = 0,
                                     std::int64_t most = std::numeric_limits<std::int64_t>::max()) const;
  [[nodiscard]] std::uint64_t unsigned_integer() const;
  [[nodiscard]] double number() const;
  [[nodiscard]] bool boolean() const;
  [[nodiscard]] const std::string& string() const;

  /// The keys of this object that are not among `known`, as the text of a JSON object; empty if there are none.
  [[nodiscard]] std::string unknown_keys(std::span<const std::string_view> known) const;

  /// The members of this object, all of them numbers, in the order of the text.
  [[nodiscard]] std::vector<std::pair<std::string, double>> numbers() const;

 private:
  Node(const Document& value, const Node& parent, std::string_view key, std::size_t index)
      : value_(&value), parent_(&parent), key_(key), index_(index) {}
  [[nodiscard]] const Document* lookup(std::string_view key) const;

  const Document* value_;
  const Node* parent_ = nullptr;
  std::string_view key_{};
  std::size_t index_ = 0;
};

/// The integer under `key`, or 0 where it is missing.
template <class Amount>
Amount amount(const Node& node, std::string_view key) {
  return node.has(key) ? Amount(node.at(key).integer()) : Amount();
}

/// The strings in the array under `key`; none where it is missing.
std::vector<std::string> strings(const Node& node, std::string_view key);

/// The numbers behind names. The names must stay where they are meanwhile: in the document, or in a graph.
template <class Identifier>
class NameTable {
 public:
  /// `absent`: what is said of a name that is not there: "there is no op".
  NameTable(std::string absent, std::size_t count) : absent_(std::move(absent)) { ids_.reserve(count); }

  /// The number of the name, which is another's if that was first.
  Identifier add(std::string_view name, Identifier id) { return ids_.emplace(name, id).first->second; }

  [[nodiscard]] Identifier resolve(const Node& name) const { return resolve(name.string(), name); }
  /// `place`: where the name stands, if that is a key.
  [[nodiscard]] Identifier resolve(std::string_view name, const Node& place) const {
    const auto found = ids_.find(name);
    if (found == ids_.end()) throw InputError(place.path(), absent_ + " " + quote(name), InputError::Place::name);
    return found->second;
  }

  [[nodiscard]] std::vector<Identifier> resolve_all(const Node& names) const {
    names.expect_array();
    std::vector<Identifier> ids;
    ids.reserve(names.size());
    for (std::size_t i = 0; i < names.size(); ++i) ids.push_back(resolve(names.element(i)));
    return ids;
  }

 private:
  std::string absent_;
  std::unordered_map<std::string_view, Identifier> ids_{};
};

/// True if a text is JSON, an object that calls itself `format`. Large texts of other formats are not parsed for it.
bool calls_itself(std::string_view text, std::string_view format);

/// Throws unless `root` is an object that calls itself `format`, of a version from 1 to `latest`; says which.
std::int64_t expect_format(const Node& root, std::string_view format, std::int64_t latest = 1);

}  // namespace remora::json
