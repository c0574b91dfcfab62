// SPDX-License-Identifier: Apache-2.0
//
// What `remora order` tells of its search.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "model/graph.hpp"
#include "model/types.hpp"

namespace remora::cli {

struct OrderFigures {
  std::string graph{};
  int ops = 0;
  Bytes fixed_memory{};
  /// Of the input order, of the order found, and of any order at least.
  Bytes input_peak{};
  Bytes peak{};
  Bytes lower_bound{};
  double seconds = 0;
  std::int64_t work = 0;
  std::int64_t seed = 0;
  int threads = 0;

  [[nodiscard]] bool is_optimal() const { return peak <= lower_bound; }
  /// Of the input order's peak above fixed memory, as budgets are: 0.8 for 80 %.
  [[nodiscard]] double part(Bytes amount) const;
};

/// A line for the input order and for every better one as soon as it is found:
///
///      seconds          peak   of the input order's
///         0.02      3.21 GiB                 81.2 %
class OrderTable {
 public:
  OrderTable(const Graph& graph, Bytes input_peak, std::ostream& out)
      : fixed_memory_(graph.fixed_memory), input_peak_(input_peak), out_(out) {}

  void add(double seconds, Bytes peak);

 private:
  Bytes fixed_memory_;
  Bytes input_peak_;
  std::ostream& out_;
  bool header_printed_ = false;
};

/// For people.
void print_order_text(std::ostream& out, const OrderFigures& figures);
/// One JSON object; docs/order.md lists its keys.
void print_order_json(std::ostream& out, const OrderFigures& figures);

}  // namespace remora::cli
