// SPDX-License-Identifier: Apache-2.0
#include "frontends/hlo/copies.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace remora::hlo {
namespace {

/// An id: the computation's in the upper half, or one of the whole module.
constexpr int kHalf = 32;

/// True if a copy of the instruction needs copies of the computations that it calls.
bool owns_called(const Instruction& instruction) {
  static constexpr std::array<std::string_view, 5> kOwners{"fusion", "while", "conditional", "call", "custom-call"};
  return std::find(kOwners.begin(), kOwners.end(), instruction.opcode) != kOwners.end();
}

}  // namespace

Fresh::Fresh(const Module& module) {
  for (const Computation& computation : module.computations) {
    computation_ = std::max(computation_, computation.id);
    names_.insert(computation.name);
    std::int64_t& last = last_[computation.id];
    for (const Instruction& instruction : computation.instructions) {
      names_.insert(instruction.name);
      last = std::max(last, instruction.id);
      id_ = std::max(id_, instruction.id);
    }
  }
  const Computation& entry = module.computations[module.entry];
  is_halved_ = entry.id != 0 && last_[entry.id] >> kHalf == entry.id;
}

std::string Fresh::name(const std::string& wanted) {
  int& number = numbers_[wanted];
  std::string name;
  do name = wanted + ".remat" + std::to_string(++number);
  while (!names_.insert(name).second);
  return name;
}

std::int64_t Fresh::instruction(std::int64_t computation) {
  if (!is_halved_) return ++id_;
  return ++last_.try_emplace(computation, computation << kHalf).first->second;
}

std::vector<std::int64_t> Copies::called_by(const Instruction& instruction, std::size_t place) {
  std::vector<std::int64_t> called;
  for (const std::size_t c : instruction.called) {
    called.push_back(owns_called(instruction) ? copy_of(c, place) : module_.computations[c].id);
  }
  return called;
}

std::int64_t Copies::copy_of(std::size_t c, std::size_t place) {
  const Computation& source = module_.computations[c];
  WrittenComputation copy{.source = c, .place = place, .name = fresh_.name(source.name), .id = fresh_.computation()};
  std::vector<std::int64_t> ids;
  for (std::size_t i = 0; i < source.instructions.size(); ++i) ids.push_back(fresh_.instruction(copy.id));
  const auto all = [&](const std::vector<std::size_t>& places) {
    std::vector<std::int64_t> found;
    found.reserve(places.size());
    for (const std::size_t one : places) found.push_back(ids[one]);
    return found;
  };
  for (const std::size_t i : source.order) {
    const Instruction& instruction = source.instructions[i];
    copy.copies.push_back({.instruction = i,
                           .name = fresh_.name(instruction.name),
                           .id = ids[i],
                           .operands = all(instruction.operands),
                           .control_predecessors = all(instruction.control_predecessors),
                           .called = called_by(instruction, place)});
  }
  copy.root_id = ids[source.root];
  added.push_back(std::move(copy));
  return added.back().id;
}

}  // namespace remora::hlo
