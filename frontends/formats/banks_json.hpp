// SPDX-License-Identifier: Apache-2.0
//
// Reading and writing remora-banks 1: memories, and buffers that may lie in some of them (docs/reference/formats.md).
#pragma once

#include <iosfwd>

#include "frontends/formats/file.hpp"
#include "model/banks.hpp"

namespace remora::json {

/// True if the text is JSON that calls itself remora-banks; false for text that is no JSON.
bool is_bank_problem(Text text);

/// Throws InputError with the JSON path of the first fault, or with what check_bank_problem says. Unknown keys are ignored,
/// and so are the bank and the place that a buffer was given by write_bank_placement.
BankProblem read_bank_problem(Text text);

/// The problem, with a bank and a place for every buffer.
void write_bank_placement(std::ostream& out, const BankProblem& problem, const BankPlacement& placement);

}  // namespace remora::json
