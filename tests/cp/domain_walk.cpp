// SPDX-License-Identifier: Apache-2.0
#include "tests/cp/domain_walk.hpp"

#include <algorithm>
#include <sstream>

#include "model/cp/solve_retention.hpp"
#include "tests/cp/model_part.hpp"

namespace remora::test {

const Gecode::IntVarArray& variables_of(const Gecode::Space& space) {
  if (const auto* part = dynamic_cast<const PartSpace*>(&space)) return part->variables();
  return dynamic_cast<const cp::RetentionSpace&>(space).variables();
}

bool holds(const Gecode::Space& space, const std::vector<int>& values) {
  if (space.failed()) return false;
  const auto& x = variables_of(space);
  for (int variable = 0; variable < x.size(); ++variable) {
    if (!x[variable].in(values[static_cast<std::size_t>(variable)])) return false;
  }
  return true;
}

std::unique_ptr<Gecode::Space> clone_of(Gecode::Space& space) {
  return std::unique_ptr<Gecode::Space>(space.clone());
}

bool all_assigned(const Gecode::Space& space) {
  const auto& x = variables_of(space);
  return std::all_of(x.begin(), x.end(), [](const Gecode::IntVar& variable) { return variable.assigned(); });
}

std::string domains_of(const Gecode::Space& space) {
  if (space.failed()) return "failed";
  std::ostringstream out;
  out << variables_of(space);
  return out.str();
}

Reduction random_reduction(std::mt19937& random, const Gecode::Space& space, const Assignment* target) {
  const auto& x = variables_of(space);
  int variable = 0;
  do variable = static_cast<int>(random() % static_cast<unsigned>(x.size()));
  while (x[variable].assigned());
  const int low = x[variable].min();
  int value = low + static_cast<int>(random() % static_cast<unsigned>(x[variable].max() - low + 1));
  constexpr Gecode::IntRelType kRelations[] = {Gecode::IRT_EQ, Gecode::IRT_NQ, Gecode::IRT_LQ, Gecode::IRT_GQ};
  auto relation = kRelations[random() % 4];
  if (target != nullptr) {
    const int wanted = target->values[static_cast<std::size_t>(variable)];
    if (value < wanted)
      relation = random() % 2 == 0 ? Gecode::IRT_GQ : Gecode::IRT_NQ;
    else if (value > wanted)
      relation = random() % 2 == 0 ? Gecode::IRT_LQ : Gecode::IRT_NQ;
    else if (relation == Gecode::IRT_NQ)
      relation = Gecode::IRT_EQ;
  }
  return {variable, relation, value};
}

void reduce(Gecode::Space& space, const Reduction& reduction) {
  if (space.failed()) return;
  Gecode::rel(space, variables_of(space)[reduction.variable], reduction.relation, reduction.value);
}

bool survives(std::mt19937& random, Gecode::Space& space, const std::vector<int>& values) {
  std::vector<int> order;
  for (std::size_t i = 0; i < values.size(); ++i) order.push_back(static_cast<int>(i));
  std::shuffle(order.begin(), order.end(), random);
  for (const int variable : order) {
    if (random() % 3 == 0 && space.status() == Gecode::SS_FAILED) return false;
    reduce(space, {variable, Gecode::IRT_EQ, values[static_cast<std::size_t>(variable)]});
  }
  return space.status() != Gecode::SS_FAILED;
}

}  // namespace remora::test
