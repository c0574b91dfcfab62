// SPDX-License-Identifier: Apache-2.0
#include "engine/ask/largest_fit.hpp"

#include <algorithm>
#include <utility>

#include "engine/ask/problem.hpp"
#include "engine/base/allowance.hpp"
#include "model/instance.hpp"

namespace remora {
namespace {

/// One size may take this part of the time that is left, or this part of all where that is more: the last ones decide.
constexpr double kShareOfRest = 0.25;
constexpr double kShareOfAll = 0.1;

Fit fit_of(const Schedule& schedule, Duration most) {
  if (schedule.has_schedule() && schedule.duration <= most) return Fit::fits;
  const bool is_impossible = schedule.status == Status::infeasible || schedule.lower_bound > most;
  return is_impossible ? Fit::impossible : Fit::undecided;
}

/// Solves one size until it is clear whether the duration holds; with_more: with any number of computes.
Schedule try_size(const Instance& instance, Duration most, const SolveOptions& options, bool with_more,
                  const std::atomic<bool>* cancel) {
  const SolveCallbacks callbacks{.enough =
                                     [&](const Progress& now) {
                                       const bool fits = now.peak <= instance.budget() && now.duration <= most;
                                       return fits || now.lower_bound > most;
                                     },
                                 .cancel = cancel};
  return with_more ? solve_with_more_computes(instance, options, callbacks) : solve(instance, options, callbacks);
}

}  // namespace

LargestFit find_largest_fit(std::int64_t most, const std::function<std::optional<Fit>(std::int64_t)>& fit) {
  LargestFit answer;
  std::int64_t size = 1;
  while (size <= most) {
    const std::optional<Fit> of_size = fit(size);
    if (!of_size) return answer;
    if (*of_size == Fit::fits) {
      answer.largest = size;
    } else {
      answer.next = size;
    }
    const std::int64_t below = answer.largest.value_or(0);
    if (!answer.next) {
      if (size == most) return answer;
      size = std::min(most, size * 2);
    } else {
      if (*answer.next == below + 1) return answer;
      size = below + (*answer.next - below) / 2;
    }
  }
  return answer;
}

const Trial& FitAnswer::trial_of(std::int64_t size) const {
  return *std::ranges::find(trials, size, &Trial::size);
}

bool FitAnswer::is_proved() const {
  return sizes.next && *sizes.next == sizes.largest.value_or(0) + 1 && trial_of(*sizes.next).fit == Fit::impossible;
}

FitAnswer largest_fit(const FitRequest& asked, const FitCallbacks& callbacks) {
  check_request(asked.request);
  const Allowance allowance({.seconds = asked.request.options.time_limit}, callbacks.cancel);
  FitAnswer answer;
  answer.sizes = find_largest_fit(asked.most, [&](std::int64_t size) -> std::optional<Fit> {
    if (allowance.is_over()) return std::nullopt;
    Request request = asked.request;
    request.graph = asked.graph_of(size);
    const double left = allowance.left().seconds;
    request.options.time_limit =
        std::min(left, std::max(kShareOfRest * left, kShareOfAll * allowance.limits().seconds));
    const Instance instance = unbudgeted(request, "the largest size is one of many graphs").with_budget(request.budget);
    const Duration most = asked.allowed(instance.baseline_duration());
    Schedule schedule = try_size(instance, most, request.options, !request.max_computes, callbacks.cancel);
    expect_valid(instance, schedule);
    answer.trials.push_back({size, fit_of(schedule, most), std::move(schedule)});
    if (callbacks.tried) callbacks.tried(answer.trials.back(), allowance.elapsed());
    return answer.trials.back().fit;
  });
  return answer;
}

}  // namespace remora
