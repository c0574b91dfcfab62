// SPDX-License-Identifier: Apache-2.0
//
// Several memories, the banks: every buffer lies in one of those that it may be in, at a cost of its own there (0 in fast
// memory, the time of its transfers in slow memory), and in each bank the buffers have addresses within the capacity
// (placement.hpp). The sum of the costs is to be small. A bank that takes all at a cost is what others call spilling.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "model/api.hpp"
#include "model/placement.hpp"

namespace remora {

struct Bank {
  std::string name{};
  Bytes capacity{};

  friend bool operator==(const Bank&, const Bank&) = default;
};

/// A bank that a buffer may be in, by its number, and what that costs: at least 0, in any unit.
struct BankChoice {
  std::size_t bank = 0;
  std::int64_t cost = 0;

  friend bool operator==(const BankChoice&, const BankChoice&) = default;
};

struct BankProblem {
  std::vector<Bank> banks{};
  /// A fixed offset holds in whichever bank the buffer is in.
  std::vector<Buffer> buffers{};
  /// At least one for every buffer.
  std::vector<std::vector<BankChoice>> choices{};
};

/// Bank and offset of every buffer.
struct BankPlacement {
  std::vector<std::size_t> banks{};
  std::vector<Bytes> offsets{};
};

/// Throws InputError for what check_buffers rejects, for no bank, two of one name, a negative capacity, and for buffers
/// with no choice, with an unknown or repeated bank, or with a negative cost; or if the costs of the most expensive
/// choices add up to more than 2^62.
REMORA_API void check_bank_problem(const BankProblem& problem);

/// The buffers in a bank, and their offsets there.
struct BankContents {
  std::vector<Buffer> buffers{};
  std::vector<Bytes> offsets{};
};

REMORA_API BankContents contents_of(const BankProblem& problem, const BankPlacement& placement, std::size_t bank);

/// The sum of the costs. Every buffer is in one of its banks.
REMORA_API std::int64_t cost_of(const BankProblem& problem, const BankPlacement& placement);

/// Describes what is wrong, in one line: a buffer in a bank that it may not be in, or what placement_fault says of a
/// bank's buffers within its capacity. Empty if nothing is. It shares no code with the search.
REMORA_API std::string bank_fault(const BankProblem& problem, const BankPlacement& placement);

}  // namespace remora
