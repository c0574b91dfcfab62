// SPDX-License-Identifier: Apache-2.0
//
// Whether a schedule is to keep the input order, where that is left to the engine. In free order there are more
// schedules, none worse than the best one in input order, but they are harder to search and their bounds are weaker; so
// the order is freed only where a quick search finds another one that holds the budget or needs clearly less memory.
#pragma once

#include <atomic>
#include <string>

#include "engine/base/options.hpp"
#include "model/api.hpp"
#include "model/instance.hpp"
#include "model/schedule.hpp"

namespace remora {

/// Who decides on the order: the user, or the engine.
enum class OrderRequest { input, free, automatic };

/// "input", "free", "auto".
REMORA_API const char* order_request_name(OrderRequest request);
/// Throws InputError that lists the names, placed at `place`.
REMORA_API OrderRequest order_request_from_name(const std::string& name, const std::string& place);

struct REMORA_API OrderChoice {
  OrderMode mode = OrderMode::input;
  /// In a few words: "another order needs 81.2 % of the input order's peak".
  std::string reason{};

  /// "order free: another order needs ...".
  [[nodiscard]] std::string text() const;
  /// Adds it, if there is a reason, to the note of a schedule of the problem.
  void explain(Schedule& schedule) const;
};

/// Chooses for the instance's graph and budget; its own order mode is not used. That search is limited by work, so that
/// the same options give the same choice on every machine, and by a tenth of the time limit, which it does not use up.
/// `cancel` (may be null) ends it early. A strategy whose default_problem() is of free order gets that; of methods that
/// keep to the input order, the answer is judged in the order that is chosen.
REMORA_API OrderChoice choose_order(const Instance& instance, const SolveOptions& options,
                                    const std::atomic<bool>* cancel = nullptr);

/// What the user chose, without a reason, or else choose_order.
REMORA_API OrderChoice settle_order(const Instance& instance, OrderRequest request, const SolveOptions& options,
                                    const std::atomic<bool>* cancel = nullptr);

/// The same graph, budget and computes an op in this order.
REMORA_API Instance with_order(const Instance& instance, OrderMode order);

}  // namespace remora
