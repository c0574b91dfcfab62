// SPDX-License-Identifier: Apache-2.0
//
// TWRemat (Kumar et al. 2019): schedules of any order from a tree decomposition of the graph. Small treewidth makes
// small separators, around which the graph is computed piece by piece and again; with n ops of unit size and width w
// memory is O(w log n), where it is O(n) without recompute.
//
// The recursion limit k (section 4.3) is swept, from the whole graph in its input order (k large) down to k = 1: by
// factors of two, then more finely around the best. Each sequence is brought within the limits of computes, and if it
// holds the budget, the recomputes that the budget does not need go. The shortest that holds it is the answer, and if
// none does, the one of the least peak. Everything else is said where it is done (files of this folder).
#pragma once

#include "engine/base/method.hpp"

namespace remora {

/// Proves nothing. The note names k and the width. Where the order is the input's, only sequences of it count.
/// At the deadline the best so far is the answer, at least the input order.
MethodResult run_twremat(const MethodInput& input);

}  // namespace remora
