// SPDX-License-Identifier: Apache-2.0
//
// Budgets as people write them: one amount, or a list of amounts and ranges.
#pragma once

#include <string>
#include <vector>

#include "model/types.hpp"

namespace remora::cli {

/// remora::parse_budget (model/budget.hpp) for the command line: throws UsageError that names `option`.
Bytes read_budget(const std::string& text, Bytes fixed, Bytes peak, const std::string& option = "--budget");

/// Budgets from a list: amounts as above and ranges FROM:TO:STEP of one kind, both ends included where the step meets
/// them, between commas ("100%:40%:5%", "12GiB,10GiB:6GiB:1GiB"). In the order of the text; each budget once. Throws
/// UsageError that names `option`.
std::vector<Bytes> read_budgets(const std::string& option, const std::string& text, Bytes fixed, Bytes peak);

}  // namespace remora::cli
