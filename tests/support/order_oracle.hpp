// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/order/order_problem.hpp"

namespace remora::test {

/// The least peak over every order, each tried out: for up to 9 nodes. It asks memory by a count of its own, buffer by
/// buffer, and knows nothing of sets that many orders share.
Bytes least_peak(const OrderProblem& problem);

}  // namespace remora::test
