// SPDX-License-Identifier: Apache-2.0
//
// Problems so small that all assignments of the model's variables can be listed, and what is true of each assignment.
//
// The truth comes from the sequence that an assignment stands for: the evaluator says what it needs and costs, and the
// rest is read off the sequence or the values one condition at a time. No propagator, profile or search is asked.
#pragma once

#include <memory>
#include <random>
#include <vector>

#include "model/cp/retention_problem.hpp"
#include "model/instance.hpp"

namespace remora::test {

/// One value for every variable, and what it amounts to.
struct Assignment {
  /// In RetentionProblem's numbering.
  std::vector<int> values{};

  /// The copies of each op start one after the other, the absent ones come last.
  bool in_order = false;
  /// Free order: no two copies take one place.
  bool distinct = false;
  /// Free order: no place is left empty before a taken one of the same gap.
  bool packed = false;
  /// Every compute comes after its inputs' producers, every first compute after the ops it waits for.
  bool supplied = false;
  /// All copies that are absent have mode 0.
  bool plain_absences = true;

  // What follows is known of meaningful assignments only.
  /// Every compute's mode is offered, a follower's is its server's.
  bool tied = false;
  /// No op's computes weigh more than they may.
  bool light = false;
  /// Some copy serves no use and need not be there: a recompute, or a first compute that may come later.
  bool useless = false;
  /// At each step of the sequence, and the largest of it.
  std::vector<Bytes> memory{};
  Bytes peak{};
  /// What it costs beyond every op once.
  Duration extra{};

  /// Whether it stands for a sequence that computes everything from what is there.
  [[nodiscard]] bool meaningful() const { return in_order && distinct && supplied; }
};

struct SmallProblemKind {
  OrderMode order = OrderMode::input;
  bool with_modes = false;
  /// Some ops only are free, over a random valid rest.
  bool neighbourhood = false;
  int least_ops = 3;
  int most_ops = 5;
  std::size_t most_assignments = 2000;
};

class SmallProblem {
 public:
  /// Draws until there is something to decide, in not more assignments than the kind allows.
  SmallProblem(std::mt19937& random, const SmallProblemKind& kind);

  [[nodiscard]] const Instance& instance() const { return *instance_; }
  /// The model's data under these limits. *this must outlive it.
  [[nodiscard]] cp::RetentionProblem problem(const cp::Limits& limits, const cp::Inferences& inferences = {}) const {
    return {*instance_, incumbent_, free_ops_, limits, inferences};
  }
  /// A capacity or a bound on the extra duration at which some assignments are out, mostly.
  [[nodiscard]] Bytes draw_capacity(std::mt19937& random) const;
  [[nodiscard]] Duration draw_bound(std::mt19937& random, Bytes capacity) const;

  /// All values that mean something, variable by variable, before any inference.
  [[nodiscard]] const std::vector<std::vector<int>>& domains() const { return domains_; }
  /// Every combination of them.
  [[nodiscard]] const std::vector<Assignment>& assignments() const { return assignments_; }

 private:
  bool draw(std::mt19937& random, const SmallProblemKind& kind);
  void list_domains(const cp::RetentionProblem& problem);
  void list_assignments(const cp::RetentionProblem& problem);

  std::shared_ptr<const Instance> instance_;
  std::vector<Compute> incumbent_;
  std::vector<OpId> free_ops_;
  std::vector<std::vector<int>> domains_;
  std::vector<Assignment> assignments_;
};

}  // namespace remora::test
