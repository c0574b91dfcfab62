// SPDX-License-Identifier: Apache-2.0
//
// Amounts as people write and read them.
#pragma once

#include <string>
#include <vector>

#include "model/graph.hpp"
#include "model/types.hpp"

namespace remora::cli {

/// remora::parse_budget (model/budget.hpp) for the command line: throws UsageError that names `option`.
Bytes parse_budget(const std::string& text, Bytes fixed, Bytes peak, const std::string& option = "--budget");

/// Budgets from a list: amounts as above and ranges FROM:TO:STEP of one kind, both ends included where the step meets
/// them, between commas ("100%:40%:5%", "12GiB,10GiB:6GiB:1GiB"). In the order of the text; each budget once. Throws
/// UsageError that names `option`.
std::vector<Bytes> parse_budgets(const std::string& option, const std::string& text, Bytes fixed, Bytes peak);

/// "3.21 GiB".
std::string bytes_text(Bytes bytes);

/// The same and the number: "1.50 KiB (1536 bytes)".
std::string exact_bytes_text(Bytes bytes);

/// "12.3 ms" for nanoseconds, "12,300 flop" or plainly "12,300" for other units.
std::string duration_text(Duration duration, const std::string& unit);

/// The graph's `meta.duration_unit`, or "".
std::string duration_unit_of(const Graph& graph);

/// 0.0213 -> "2.13 %".
std::string percent_text(double part, int digits = 2);

/// "1,234,567".
std::string grouped(std::int64_t number);

}  // namespace remora::cli
