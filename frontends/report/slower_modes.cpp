// SPDX-License-Identifier: Apache-2.0
//
// Why an op runs by a mode although another is faster: what memory would be with that mode.
#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <utility>

#include "frontends/report/profile.hpp"
#include "model/evaluate.hpp"
#include "model/table.hpp"

namespace remora::report {
namespace {

/// Steps looked at: some seconds.
constexpr std::int64_t kMostLooks = 100'000'000;

class SlowerModes {
 public:
  SlowerModes(const std::shared_ptr<const Graph>& graph, const Schedule& schedule)
      : instance_(graph, {.order = OrderMode::free}), budget_(schedule.budget), runs_(computes_of(schedule)) {}

  std::vector<SlowerMode> find() {
    std::vector<SlowerMode> found;
    std::set<std::pair<OpId, ModeNumber>> known;
    for (const std::vector<int>& tied : choices()) {
      const Compute& run = runs_[at(tied.front())];
      if (known.contains({run.op, run.mode}) || looks_ > kMostLooks) continue;
      const std::optional<SlowerMode> slower = reason(tied);
      known.emplace(run.op, run.mode);
      if (slower) found.push_back(*slower);
    }
    return found;
  }

 private:
  /// The steps of each choice of a mode: the run of an op that follows no other, and the runs that take its mode.
  [[nodiscard]] std::vector<std::vector<int>> choices() const {
    std::vector<std::vector<int>> all;
    Table<OpId, std::ptrdiff_t> latest(instance_.op_count(), -1);
    for (std::size_t step = 0; step < runs_.size(); ++step) {
      const OpId op = runs_[step].op;
      const OpId leader = instance_.leader(op);
      if (leader.valid()) {
        latest[op] = latest[leader];
      } else if (instance_.mode_count(op) > 1) {
        latest[op] = std::ssize(all);
        all.emplace_back();
      }
      if (latest[op] >= 0) all[at(latest[op])].push_back(static_cast<int>(step));
    }
    return all;
  }

  [[nodiscard]] bool offered(const std::vector<int>& tied, ModeNumber mode) const {
    return std::ranges::all_of(tied, [&](int step) { return instance_.offers(runs_[at(step)].op, mode); });
  }

  [[nodiscard]] Duration duration(const std::vector<int>& tied, ModeNumber mode) const {
    Duration sum;
    for (const int step : tied) sum += instance_.duration(runs_[at(step)].op, mode);
    return sum;
  }

  /// The fastest mode that fits, else the fastest; nothing if there is no faster one.
  std::optional<SlowerMode> reason(const std::vector<int>& tied) {
    const Compute run = runs_[at(tied.front())];
    const Duration now = duration(tied, run.mode);
    std::vector<std::pair<Duration, ModeNumber>> faster;
    for (ModeNumber mode = 0; mode < instance_.mode_count(run.op); ++mode) {
      if (offered(tied, mode) && duration(tied, mode) < now) faster.emplace_back(duration(tied, mode), mode);
    }
    std::ranges::sort(faster);
    std::optional<SlowerMode> found;
    for (const auto& [time, mode] : faster) {
      const std::optional<Overload> overload = overload_with(tied, mode);
      if (!overload || (found && overload->steps > 0)) continue;
      found = {tied.front(), run.op, run.mode, mode, now - time, *overload};
      if (overload->steps == 0) break;
    }
    return found;
  }

  /// The overload of the schedule with the mode in these steps; nothing if it is none.
  std::optional<Overload> overload_with(const std::vector<int>& tied, ModeNumber mode) {
    std::vector<Compute> runs = runs_;
    for (const int step : tied) runs[at(step)].mode = mode;
    if (!modes_hold(instance_, runs)) return std::nullopt;
    const Evaluation evaluation = evaluate(instance_, runs);
    looks_ += std::ssize(runs);
    Overload overload;
    for (std::size_t step = 0; step < runs.size(); ++step) {
      const Bytes above = evaluation.memory[step] - budget_;
      if (above > Bytes(0)) ++overload.steps;
      if (above > overload.above) overload = {overload.steps, runs[step].op, above};
    }
    return overload;
  }

  Instance instance_;
  Bytes budget_;
  std::vector<Compute> runs_;
  std::int64_t looks_ = 0;
};

}  // namespace

std::vector<SlowerMode> slower_modes(const std::shared_ptr<const Graph>& graph, const Schedule& schedule) {
  if (!has_modes(*graph) || schedule.steps.empty()) return {};
  return SlowerModes(graph, schedule).find();
}

}  // namespace remora::report
