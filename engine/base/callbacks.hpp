// SPDX-License-Identifier: Apache-2.0
//
// Progress of a solve, questions that it asks while it runs, and data that it shares with others.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "model/api.hpp"
#include "model/schedule.hpp"
#include "model/types.hpp"

namespace remora {

/// Who found a schedule, or raised a bound.
enum class Source {
  start,  ///< none: the schedule that the search began with
  // Before the workers.
  relaxation,
  segments,
  hierarchy,
  order,
  another_budget,
  // Workers.
  complete,
  benders,
  periods,
  peak,
  lns,
  modes,
  ruin,
  anneal,
  reorder,
  joint,
  // Over several devices: plans, and searches with fewer choices.
  local,
  one_device,
  copies,
  // The literature's methods.
  none,
  greedy,
  sqrt,
  rotor,
};

/// "start", "another budget", "lns", ...
REMORA_API const char* source_name(Source source);

/// Kind of progress.
enum class Event {
  start,     ///< the search begins, from the reported schedule
  phase,     ///< a schedule fits within the budget, and phase 2 begins
  schedule,  ///< a better schedule, perhaps with a better bound
  bound,     ///< a better bound
  round,     ///< a round is over
};

/// State of a solve at one moment.
struct Progress {
  double seconds = 0;
  /// 1: looking for a schedule within the budget (Moccasin, eq. 12-13); 2: shortening it.
  int phase = 1;
  Event event = Event::round;
  /// Who brought a schedule or a bound.
  Source source = Source::start;
  /// Values of the incumbent: in phase 1 its peak is still above the budget.
  Duration duration{};
  Bytes peak{};
  /// It never falls: where the number of computes is left open, it holds for any number.
  Duration lower_bound{};
  /// Units of work done so far.
  std::int64_t work = 0;
};

/// Label in a table of progress: the source, or "phase 2" where that begins; "" for a round.
REMORA_API const char* progress_label(const Progress& progress);

// Data that solves of many graphs can share: the block schedules of groups solved before. Networks of one family, or
// one network at two depths, consist of the same groups.

/// Keys and values are bytes that mean something to the engine only. A key holds all that the value depends on, the
/// engine's schema included, so values never go stale. Implementations are safe to use from several threads.
class REMORA_API BlockStore {
 public:
  BlockStore() = default;
  BlockStore(const BlockStore&) = delete;
  BlockStore& operator=(const BlockStore&) = delete;
  virtual ~BlockStore() = default;

  virtual std::optional<std::string> find(const std::string& key) = 0;
  virtual void keep(const std::string& key, const std::string& value) = 0;
};

/// Keeps them in memory.
class REMORA_API BlockMemory : public BlockStore {
 public:
  std::optional<std::string> find(const std::string& key) override;
  void keep(const std::string& key, const std::string& value) override;

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, std::string> values_;
};

/// Callbacks with a Schedule, or a DeviceSchedule (engine/devices/ask.hpp). An exception that a callback throws ends the solve and comes out of it.
template <class AnySchedule>
struct CallbacksWith {
  /// Where the order was left to the engine: told once which one it took, and why, before the search begins. May be empty.
  std::function<void(const std::string& order)> order_chosen{};
  /// Every schedule within the budget that the search begins with or finds to be better than the one before: what
  /// solve() would return if it ended here. Called before `progress` reports it, from the same thread. May be empty.
  std::function<void(const AnySchedule&)> incumbent{};
  /// For every better schedule and bound, and every phase that begins. Called from the thread that called solve(),
  /// never concurrently. May be empty.
  std::function<void(const Progress&)> progress{};
  /// The same, after every round of the search whether anything changed or not: some ten times a second. May be empty.
  std::function<void(const Progress&)> heartbeat{};
  /// Asked in every round: true ends the search with the incumbent, as a limit does. May be empty.
  std::function<bool(const Progress&)> enough{};
  /// Set to true from anywhere (a signal handler, another thread) to stop with the incumbent. May be null.
  const std::atomic<bool>* cancel = nullptr;
  /// Block schedules of groups that this solve and others have found. May be null.
  BlockStore* blocks = nullptr;
};

using SolveCallbacks = CallbacksWith<Schedule>;

}  // namespace remora
