// SPDX-License-Identifier: Apache-2.0
#include "model/table.hpp"

#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace remora {
namespace {

std::vector<std::vector<int>> rows_of(const Adjacency<int, int>& table, int rows) {
  std::vector<std::vector<int>> all;
  for (int row = 0; row < rows; ++row) all.emplace_back(table[row].begin(), table[row].end());
  return all;
}

TEST(Adjacency, TakesRowsOneByOneOrAllAtOnce) {
  const std::vector<std::pair<int, int>> pairs = {{3, 7}, {0, 1}, {3, 5}, {0, 2}, {3, 9}};
  const Adjacency<int, int> at_once(5, [&](const auto& put) {
    for (const auto& [row, value] : pairs) put(row, value);
  });
  Adjacency<int, int> one_by_one;
  for (int row = 0; row < 5; ++row) {
    for (const auto& [of, value] : pairs) {
      if (of == row) one_by_one.push(value);
    }
    one_by_one.end_row();
  }
  const std::vector<std::vector<int>> expected = {{1, 2}, {}, {}, {7, 5, 9}, {}};
  EXPECT_EQ(rows_of(at_once, 5), expected);
  EXPECT_EQ(rows_of(one_by_one, 5), expected);
  EXPECT_EQ(rows_of(Adjacency<int, int>(2, [](const auto&) {}), 2), (std::vector<std::vector<int>>{{}, {}}));
}

}  // namespace
}  // namespace remora
