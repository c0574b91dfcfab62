// SPDX-License-Identifier: Apache-2.0
//
// From what a Python call asks for to the instance that is solved and the options that say how: the same defaults and
// the same refusals as the command line's (frontends/cli/reading).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/base/options.hpp"
#include "engine/order_choice.hpp"
#include "frontends/python/extension/graph.hpp"
#include "model/instance.hpp"
#include "model/modes.hpp"
#include "model/schedule.hpp"
#include "model/verify.hpp"

namespace remora::python {

// Several ways to run an op (model/modes.hpp), as Python gives them: numbers in tuples, which remora/modes.py makes.

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

// The problem and the options.

/// Names and values as `set_option` takes them.
using OptionTexts = std::vector<std::pair<std::string, std::string>>;

/// Throws InputError for a name that is none, and for a value out of its range.
SolveOptions options_from(const OptionTexts& texts);

/// What is asked of the graph. Where the user leaves it open, the strategy's usual problem (default_problem).
struct ProblemRequest {
  std::optional<int> max_computes{};
  std::optional<std::string> order{};
  /// Null where every op has one mode.
  std::shared_ptr<const Modes> modes{};
};

/// The problem without a budget, and who decides on its order.
struct Unbudgeted {
  Instance instance;
  /// Whether ops may run more often than the instance says, where that is better: the user gave no number.
  bool more_computes = false;
  OrderRequest order = OrderRequest::input;
};

/// Throws InputError for max_computes < 1, for an order that is none, and where the graph is not valid.
Unbudgeted unbudgeted(std::shared_ptr<const Graph> graph, const ProblemRequest& request, const SolveOptions& options);

/// Under this budget ("60%", "12GiB", "123"), its order settled. Throws InputError for a budget that is none.
struct Problem {
  Instance instance;
  bool more_computes = false;
  OrderChoice choice{};
};
Problem state_problem(std::shared_ptr<const Graph> graph, const ProblemRequest& request, const std::string& budget,
                      const SolveOptions& options, const std::atomic<bool>* cancel);

/// The mode of a call that leaves nothing to choose. Throws InputError for "auto".
OrderMode fixed_order(OrderRequest order, const std::string& why);

}  // namespace remora::python
