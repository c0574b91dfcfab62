// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "frontends/report/plot.hpp"
#include "model/curve.hpp"

namespace remora::report {

/// A sweep's Pareto curve: overhead in per cent against budget. The shortest known schedule holds from its budget up to
/// the next; the lower bound of a budget holds for all smaller ones, too. Marked are the points proved optimal, the
/// knee and the smallest budget that a schedule holds; a line stands at the budget below which none does.
Figure curve_figure(const Curve& curve);

}  // namespace remora::report
