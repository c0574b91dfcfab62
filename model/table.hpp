// SPDX-License-Identifier: Apache-2.0
//
// Tables indexed by ids, and ranges of ids.
//
//     Table<TensorId, Bytes> sizes(instance.tensor_count());
//     for (const TensorId t : sizes.ids()) sizes[t] = instance.size(t);
//
// A table takes no other kind of id: an op's id where a tensor's is wanted does not compile. Things that are numbered
// without a type of their own have tables indexed by int.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace remora {

/// A key, an id or a number that is not negative, as the index of a vector.
template <class Key>
constexpr std::size_t at(Key key) {
  if constexpr (std::integral<Key>) {
    return static_cast<std::size_t>(key);
  } else {
    return key.index();
  }
}

/// The ids first .. end - 1, from 0 where no first one is given.
template <class Key>
class Ids {
 public:
  class Iterator {
   public:
    using value_type = Key;
    using difference_type = std::ptrdiff_t;
    using iterator_category = std::input_iterator_tag;
    using pointer = const Key*;
    using reference = Key;

    Iterator() = default;
    constexpr explicit Iterator(std::int32_t at) : at_(at) {}
    constexpr Key operator*() const { return Key(at_); }
    constexpr Iterator& operator++() {
      ++at_;
      return *this;
    }
    constexpr Iterator operator++(int) { return Iterator(at_++); }
    friend constexpr bool operator==(Iterator, Iterator) = default;

   private:
    std::int32_t at_ = 0;
  };

  template <std::integral Count>
  constexpr explicit Ids(Count count) : end_(static_cast<std::int32_t>(count)) {}
  constexpr Ids(std::int32_t first, std::int32_t end) : first_(first), end_(end) {}

  [[nodiscard]] constexpr Iterator begin() const { return Iterator(first_); }
  [[nodiscard]] constexpr Iterator end() const { return Iterator(end_); }
  [[nodiscard]] constexpr std::size_t size() const { return static_cast<std::size_t>(end_ - first_); }

 private:
  std::int32_t first_ = 0;
  std::int32_t end_ = 0;
};

/// A vector of numbered things, indexed by numbers and by ids of their own kind: an op's id where a tensor's is wanted does not
/// compile.
template <class Key, class Value>
class Numbered : public std::vector<Value> {
 public:
  using std::vector<Value>::vector;
  // NOLINTNEXTLINE(google-explicit-constructor): it is that vector.
  Numbered(std::vector<Value> values) : std::vector<Value>(std::move(values)) {}

  using std::vector<Value>::operator[];
  [[nodiscard]] Value& operator[](Key key) { return (*this)[key.index()]; }
  [[nodiscard]] const Value& operator[](Key key) const { return (*this)[key.index()]; }
  template <class Other>
  requires(std::is_class_v<Other> && !std::same_as<Other, Key>) const Value& operator[](Other other) const = delete;
};

/// One value for each key: a vector that is indexed by ids of one kind.
template <class Key, class Value>
class Table {
 public:
  using Values = std::vector<Value>;
  using value_type = Value;
  using reference = typename Values::reference;
  using const_reference = typename Values::const_reference;

  Table() = default;
  template <std::integral Count>
  explicit Table(Count count, const Value& value = Value()) : values_(static_cast<std::size_t>(count), value) {}
  explicit Table(Values values) : values_(std::move(values)) {}

  [[nodiscard]] reference operator[](Key key) { return values_[at(key)]; }
  [[nodiscard]] const_reference operator[](Key key) const { return values_[at(key)]; }

  [[nodiscard]] std::size_t size() const { return values_.size(); }
  [[nodiscard]] bool empty() const { return values_.empty(); }
  [[nodiscard]] Ids<Key> ids() const { return Ids<Key>(values_.size()); }

  [[nodiscard]] auto begin() { return values_.begin(); }
  [[nodiscard]] auto end() { return values_.end(); }
  [[nodiscard]] auto begin() const { return values_.begin(); }
  [[nodiscard]] auto end() const { return values_.end(); }
  [[nodiscard]] const_reference front() const { return values_.front(); }
  [[nodiscard]] reference back() { return values_.back(); }
  [[nodiscard]] const_reference back() const { return values_.back(); }

  template <std::integral Count>
  void assign(Count count, const Value& value) {
    values_.assign(static_cast<std::size_t>(count), value);
  }
  template <std::integral Count>
  void resize(Count count, const Value& value = Value()) {
    values_.resize(static_cast<std::size_t>(count), value);
  }
  template <std::integral Count>
  void reserve(Count count) {
    values_.reserve(static_cast<std::size_t>(count));
  }
  void clear() { values_.clear(); }
  void push_back(Value value) { values_.push_back(std::move(value)); }
  template <class... Arguments>
  reference emplace_back(Arguments&&... arguments) {
    return values_.emplace_back(std::forward<Arguments>(arguments)...);
  }
  void swap(Table& other) noexcept { values_.swap(other.values_); }

  friend bool operator==(const Table&, const Table&) = default;

 private:
  Values values_;
};

/// Rows of varying length in one block of memory (compressed sparse rows), appended in order or all at once. They never change.
template <class Key, class Value>
class Adjacency {
 public:
  Adjacency() = default;
  /// `visit(put)` calls put(row, value) for each value, in any order of rows. It is called twice, to count and then to fill, and
  /// must do the same both times. A row has its values in the order in which they were put.
  template <std::integral Count, class Visit>
  Adjacency(Count rows, const Visit& visit) : first_(static_cast<std::size_t>(rows) + 2, 0) {
    visit([&](Key row, const Value&) { ++first_[at(row) + 2]; });
    for (std::size_t row = 2; row < first_.size(); ++row) first_[row] += first_[row - 1];
    values_.resize(static_cast<std::size_t>(first_.back()));
    // As values go in, where a row begins becomes where it ends, which is where the next one began.
    visit([&](Key row, const Value& value) { values_[static_cast<std::size_t>(first_[at(row) + 1]++)] = value; });
    first_.pop_back();
  }

  void reserve(std::size_t rows, std::size_t values) {
    first_.reserve(rows + 1);
    values_.reserve(values);
  }

  /// Appends to the row that is being built.
  void push(Value value) { values_.push_back(value); }
  /// Ends the row that is being built; the next push starts the next one.
  void end_row() { first_.push_back(static_cast<std::int32_t>(values_.size())); }

  [[nodiscard]] std::span<const Value> operator[](Key row) const {
    const auto begin = static_cast<std::size_t>(first_[at(row)]);
    const auto end = static_cast<std::size_t>(first_[at(row) + 1]);
    return std::span<const Value>(values_).subspan(begin, end - begin);
  }

 private:
  std::vector<std::int32_t> first_{0};
  std::vector<Value> values_;
};

}  // namespace remora
