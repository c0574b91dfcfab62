// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/base/deadline.hpp"
#include "engine/base/options.hpp"
#include "engine/free/order_view.hpp"
#include "engine/search/phases.hpp"
#include "engine/solve.hpp"

namespace remora {

/// The search along the input order, made to search one order of a free-order problem: sitting after sitting, with
/// whatever its workers have learned.
class ViewSearch {
 public:
  /// `with_groups`: whether it may start from groups of a large network.
  ViewSearch(const Instance& free, std::vector<OpId> order, bool with_groups);

  [[nodiscard]] const std::vector<OpId>& order() const { return view_.order(); }
  /// Its best schedule is proved to be the best of this order, or there is none within the budget.
  [[nodiscard]] bool settled() const { return is_settled(view_.staged(), state_); }
  /// The best sequence so far, in the free problem's numbers.
  [[nodiscard]] std::vector<OpId> sequence() const;
  /// The worker that found it, or "start".
  [[nodiscard]] std::string source() const;
  /// Its next sitting solves groups of the network first, which takes longer.
  [[nodiscard]] bool begins_with_groups(const SolveOptions& options) const;
  [[nodiscard]] std::int64_t work() const { return state_.work; }

  /// Takes over the recomputes of a free sequence whose first computes come in this order, if that is better.
  void learn(std::span<const OpId> sequence);

  /// Searches within the options' time limit and, if they have one, so many units of work more.
  void sit(const SolveOptions& options, const SolveCallbacks& callbacks, const Deadline& deadline);

 private:
  void begin(const SolveOptions& options, const SolveCallbacks& callbacks, const Deadline& deadline);

  OrderView view_;
  SearchState state_;
  PhaseWorkers workers_;
  /// What the search says of itself; the free search has a report of its own.
  Schedule description_;
  bool with_groups_;
  bool begun_ = false;
};

}  // namespace remora
