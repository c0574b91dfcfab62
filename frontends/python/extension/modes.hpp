// SPDX-License-Identifier: Apache-2.0
//
// Several ways to run an op (model/modes.hpp), as Python gives them: numbers in tuples, which remora/modes.py makes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "frontends/python/extension/graph.hpp"
#include "model/instance.hpp"
#include "model/modes.hpp"
#include "model/schedule.hpp"
#include "model/verify.hpp"

namespace remora::python {

using Numbers = std::vector<std::int32_t>;
/// Workspace in bytes, which may be negative; the tensors that are freed before.
using InnerPeakRow = std::tuple<std::int64_t, Numbers>;
/// Duration, workspace, output sizes, unread inputs, weight, inner peaks.
using ModeRow =
    std::tuple<std::int64_t, std::int64_t, std::vector<std::int64_t>, Numbers, int, std::vector<InnerPeakRow>>;
/// Op, further modes, the op that it follows or -1, then of mode 0 unread inputs, weight, inner peaks; the most that its
/// computes may weigh, or none.
using OpModesRow = std::tuple<std::int32_t, std::vector<std::optional<ModeRow>>, std::int32_t, Numbers, int,
                              std::vector<InnerPeakRow>, std::optional<int>>;

/// Null for no rows. Throws InputError for numbers that nothing has and ops mentioned twice; whether the modes fit their
/// ops is for Instance to say.
std::shared_ptr<const Modes> modes_from(const GraphHandle& graph, const std::vector<OpModesRow>& rows);

/// What the evaluator says of a schedule whose ops have several modes: verify() knows mode 0 alone.
Verdict verify_modes(const Instance& instance, const Schedule& schedule);

}  // namespace remora::python
