// SPDX-License-Identifier: Apache-2.0
//
// Names, ids and computations for what is added to a module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "frontends/hlo/module.hpp"

namespace remora::hlo {

/// Names and ids that no part of the module has.
class Fresh {
 public:
  explicit Fresh(const Module& module);

  /// "wanted.remat1", or with the first number that is free.
  std::string name(const std::string& wanted);
  std::int64_t computation() { return ++computation_; }
  /// Name of an instruction in the computation of that id.
  std::int64_t instruction(std::int64_t computation);

 private:
  std::unordered_set<std::string> names_;
  std::unordered_map<std::string, int> numbers_;
  std::int64_t computation_ = 0;
  std::int64_t id_ = 0;
  /// By id of a computation: the last id in it, where an id has the computation's in its upper half.
  std::map<std::int64_t, std::int64_t> last_;
  bool is_halved_ = false;
};

/// Copies of computations, for XLA wants one caller for each of those that do not work on single elements.
class Copies {
 public:
  explicit Copies(const Module& module) : module_(module), fresh_(module) {}

  Fresh& fresh() { return fresh_; }
  /// Ids of what a copy of the instruction calls, of which copies are written before the computation `place`.
  std::vector<std::int64_t> called_by(const Instruction& instruction, std::size_t place);
  /// In the order in which they are written.
  std::vector<WrittenComputation> added{};

 private:
  std::int64_t copy_of(std::size_t computation, std::size_t place);

  const Module& module_;
  Fresh fresh_;
};

}  // namespace remora::hlo
