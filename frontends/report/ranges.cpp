// SPDX-License-Identifier: Apache-2.0
#include "frontends/report/ranges.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <numeric>
#include <utility>

namespace remora::report {
namespace {

/// How many of the entered places are below a given one.
class PrefixCounts {
 public:
  explicit PrefixCounts(std::size_t places) : counts_(places + 1) {}

  void enter(std::size_t place) {
    for (std::size_t i = place + 1; i < counts_.size(); i += lowest_bit(i)) ++counts_[i];
  }

  [[nodiscard]] int below(std::size_t place) const {
    int count = 0;
    for (std::size_t i = place; i > 0; i -= lowest_bit(i)) count += counts_[i];
    return count;
  }

 private:
  static std::size_t lowest_bit(std::size_t i) { return i & (~i + 1); }

  /// counts_[i]: of the places [i - lowest_bit(i), i).
  std::vector<int> counts_;
};

/// The numbers of `row`, those of the largest first.
template <class Row, class Amount>
std::vector<std::size_t> largest_first(const Row& row, const Amount& amount) {
  std::vector<std::size_t> numbers(row.size());
  std::iota(numbers.begin(), numbers.end(), std::size_t{0});
  std::sort(numbers.begin(), numbers.end(),
            [&](std::size_t a, std::size_t b) { return amount(row[a]) > amount(row[b]); });
  return numbers;
}

}  // namespace

std::vector<int> count_above(const std::vector<Bytes>& row, const std::vector<CountQuery>& queries) {
  const std::vector<std::size_t> places = largest_first(row, [](Bytes amount) { return amount; });
  PrefixCounts entered(row.size());
  std::vector<int> answers(queries.size());
  std::size_t next = 0;
  for (const std::size_t q : largest_first(queries, [](const CountQuery& query) { return query.most; })) {
    const CountQuery& query = queries[q];
    for (; next < places.size() && row[places[next]] > query.most; ++next) entered.enter(places[next]);
    if (query.last < query.first) continue;
    answers[q] =
        entered.below(static_cast<std::size_t>(query.last) + 1) - entered.below(static_cast<std::size_t>(query.first));
  }
  return answers;
}

RangeMaximum::RangeMaximum(std::vector<Bytes> amounts) : amounts_(std::move(amounts)) {
  const std::size_t count = amounts_.size();
  largest_.emplace_back(count);
  std::iota(largest_[0].begin(), largest_[0].end(), 0);
  for (std::size_t half = 1; 2 * half <= count; half *= 2) {
    const std::vector<int>& shorter = largest_.back();
    std::vector<int> longer(count - 2 * half + 1);
    for (std::size_t i = 0; i < longer.size(); ++i) longer[i] = larger(shorter[i], shorter[i + half]);
    largest_.push_back(std::move(longer));
  }
}

int RangeMaximum::at(int first, int last) const {
  const auto length = static_cast<unsigned>(last - first + 1);
  const auto level = static_cast<std::size_t>(std::bit_width(length) - 1);
  const std::vector<int>& row = largest_[level];
  const auto begin = static_cast<std::size_t>(first);
  return larger(row[begin], row[begin + length - (std::size_t{1} << level)]);
}

}  // namespace remora::report
