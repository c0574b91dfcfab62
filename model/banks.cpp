// SPDX-License-Identifier: Apache-2.0
#include "model/banks.hpp"

#include <algorithm>
#include <set>

#include "model/error.hpp"
#include "model/quote.hpp"

namespace remora {
namespace {

void check_banks(const std::vector<Bank>& banks) {
  if (banks.empty()) throw InputError("banks", "there must be at least one");
  std::set<std::string> names;
  for (const Bank& bank : banks) {
    const std::string place = "bank " + quote(bank.name);
    if (!names.insert(bank.name).second) throw InputError(place, "two banks have this name");
    if (bank.capacity < Bytes()) throw InputError(place, "its capacity must not be negative");
  }
}

void check_choices(const BankProblem& problem, std::size_t i) {
  const std::string place = "buffer " + quote(problem.buffers[i].id);
  if (problem.choices[i].empty()) throw InputError(place, "there is no bank that it may be in");
  std::set<std::size_t> banks;
  for (const BankChoice& choice : problem.choices[i]) {
    if (choice.bank >= problem.banks.size()) {
      throw InputError(place, "there is no bank " + std::to_string(choice.bank));
    }
    const std::string name = quote(problem.banks[choice.bank].name);
    if (!banks.insert(choice.bank).second) throw InputError(place, "the bank " + name + " is there twice");
    if (choice.cost < 0) throw InputError(place, "its cost in " + name + " must not be negative");
  }
}

const BankChoice* choice_of(const BankProblem& problem, std::size_t i, std::size_t bank) {
  const auto& choices = problem.choices[i];
  const auto found = std::find_if(choices.begin(), choices.end(), [&](const auto& one) { return one.bank == bank; });
  return found == choices.end() ? nullptr : &*found;
}

}  // namespace

void check_bank_problem(const BankProblem& problem) {
  check_buffers(problem.buffers);
  check_banks(problem.banks);
  ensure(problem.choices.size() == problem.buffers.size(), "banks: not as many lists of choices as buffers");
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
    check_choices(problem, i);
    std::int64_t most = 0;
    for (const BankChoice& choice : problem.choices[i]) most = std::max(most, choice.cost);
    sum = saturating_sum(sum, most);
  }
  if (sum >= kSaturated) throw InputError("", "the costs add up to more than 2^62");
}

BankContents contents_of(const BankProblem& problem, const BankPlacement& placement, std::size_t bank) {
  BankContents contents;
  for (std::size_t i = 0; i < placement.banks.size(); ++i) {
    if (placement.banks[i] != bank) continue;
    contents.buffers.push_back(problem.buffers[i]);
    contents.offsets.push_back(placement.offsets[i]);
  }
  return contents;
}

std::int64_t cost_of(const BankProblem& problem, const BankPlacement& placement) {
  std::int64_t cost = 0;
  for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
    const BankChoice* choice = choice_of(problem, i, placement.banks[i]);
    ensure(choice != nullptr, "banks: a buffer is where it may not be");
    cost += choice->cost;
  }
  return cost;
}

std::string bank_fault(const BankProblem& problem, const BankPlacement& placement) {
  const std::size_t count = problem.buffers.size();
  if (placement.banks.size() != count || placement.offsets.size() != count) {
    return "not as many banks and offsets as buffers";
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (choice_of(problem, i, placement.banks[i]) == nullptr) {
      return quote(problem.buffers[i].id) + " is in a bank that it may not be in";
    }
  }
  for (std::size_t b = 0; b < problem.banks.size(); ++b) {
    const BankContents contents = contents_of(problem, placement, b);
    const std::string fault = placement_fault(contents.buffers, contents.offsets, problem.banks[b].capacity);
    if (!fault.empty()) return "bank " + quote(problem.banks[b].name) + ": " + fault;
  }
  return "";
}

}  // namespace remora
