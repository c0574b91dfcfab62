// SPDX-License-Identifier: Apache-2.0
//
// What tests do with the domains of a space (model_part.hpp) where a search would branch: reduce them at random, look
// at them, propagate now and then.
#pragma once

#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gecode/int.hh>

#include "model/cp/retention_problem.hpp"
#include "tests/cp/small_problem.hpp"

namespace remora::test {

/// The variables of a PartSpace or a RetentionSpace.
const Gecode::IntVarArray& variables_of(const Gecode::Space& space);

/// Whether the space is not failed and its domains hold the values.
bool holds(const Gecode::Space& space, const std::vector<int>& values);

bool all_assigned(const Gecode::Space& space);

/// The domains as text, or "failed".
std::string domains_of(const Gecode::Space& space);

/// Of a space at a fixpoint.
std::unique_ptr<Gecode::Space> clone_of(Gecode::Space& space);

/// One reduction of a domain, as any search might make it.
struct Reduction {
  int variable = 0;
  Gecode::IntRelType relation = Gecode::IRT_EQ;
  int value = 0;
};

/// Of some variable not yet assigned (there must be one), that leaves the target's value, if there is a target.
Reduction random_reduction(std::mt19937& random, const Gecode::Space& space, const Assignment* target = nullptr);
void reduce(Gecode::Space& space, const Reduction& reduction);

/// Assigns everything in random order, propagates at random moments, and says whether the space can have the values.
bool survives(std::mt19937& random, Gecode::Space& space, const std::vector<int>& values);

}  // namespace remora::test
