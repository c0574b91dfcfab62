// SPDX-License-Identifier: Apache-2.0
//
// A proof beside a search, as a rule the one by periods (engine/bound/periods/period_proof.hpp): in a thread of its own while the
// search sits. It takes no more than its share of a core.
//
// Under a time limit neither waits for the other: the share is counted in CPU seconds, and where the proof has had more it sleeps
// at its next question. Under a work limit, where nothing may depend on time, it is counted (counted_seconds.hpp): the
// search grants work in proportion to its own, the proof pauses where it has used that, and at the next settle() the
// search waits until it has.
//
//                     start()                  nothing is left below the cutoff
//          [absent] ----------->  [works]  ------------------------------------->  [waits]
//              ^                  |  |  |  <-------------------------------------     |
//              |                  |  |  |          a better schedule is known         |
//              +-- stop(), -------+  |  +-- pause() -> [rests] <- pause() ------------+
//                  the deadline      |                    |    start() goes on with either,
//                  (waits, too)      |                    +--- stop() ends it: absent
//                                    +-- proved ------------------> [done]
//                                    +-- no memory, no thread ----> [died]
//                                    +-- has used its work <------> [spent]
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/deadline.hpp"
#include "engine/base/options.hpp"
#include "engine/base/work.hpp"
#include "engine/bound/periods/period_proof.hpp"
#include "model/types.hpp"

namespace remora {

class Prover {
 public:
  /// One step of the proof, from one thread at a time.
  using Step = std::function<ProofUpdate(const ProofLimits&)>;

  enum class State : std::uint8_t {
    absent,  ///< there is no thread, or none that does anything
    works,   ///< the thread is at a program
    waits,   ///< for a better schedule
    spent,   ///< for more work to be granted, under a work limit
    rests,   ///< the thread does nothing until it is told to
    done,    ///< nothing more will come: it has proved what there is to prove
    died,    ///< nothing more will come: there was no memory, or no thread, for it
  };

  struct Settings {
    /// It ends no program for a deadline: it rests there until start() or stop().
    bool may_rest = false;
    /// Under a work limit.
    bool counts_work = false;
    /// For integer programs.
    IntegerSolver mip = IntegerSolver::highs;
  };

  explicit Prover(Step step) : Prover(std::move(step), Settings()) {}
  Prover(Step step, const Settings& settings) : step_(std::move(step)), settings_(settings) {}
  Prover(const Prover&) = delete;
  Prover& operator=(const Prover&) = delete;
  ~Prover() { stop(); }

  /// Begins, or goes on. The deadline outlives the next stop().
  void start(const Deadline& deadline);
  /// Ends the thread, within the time of one of its questions. start() makes another, which begins with the next step.
  void stop();
  /// The thread rests, with what it is at; one that may not is ended.
  void pause();
  /// Under a work limit: waits until the proof has used what was granted, or can do nothing with it; from here to
  /// grant() it does nothing. Returns the work done since, with or without a limit.
  Work settle(const Deadline& deadline);
  /// Cheaper schedules are sought.
  void set_cutoff(Duration extra);
  /// The part of a core that it may use, above 0 and at most 1.
  void set_share(double share) { share_ = share; }
  /// It may use so much more, under a work limit; but no more than `most` with what it has saved for a step that takes
  /// more than it was granted at once. Returns that sum, or none if it can do nothing with it.
  std::optional<Work> grant(Work more, Work most);
  [[nodiscard]] State state() const { return state_; }
  /// Takes what was found since.
  [[nodiscard]] std::vector<ProofUpdate> take();

 private:
  class Ration;
  class Budget;
  enum class Wish : std::uint8_t { goes_on, rests, ends };

  /// The thread's whole life: absent, done or died.
  [[nodiscard]] State live(const Deadline& deadline);
  [[nodiscard]] State run(const Deadline& deadline);
  /// Waits until the cutoff is lower than this, or the thread is to end: then false.
  bool wait_for_lower(Duration cutoff, const Deadline& deadline, Budget& budget);
  void wish(Wish wish);
  void enter(State state);
  /// True if the thread is to end; it rests here meanwhile.
  [[nodiscard]] bool is_ended(const Deadline& deadline);
  [[nodiscard]] bool is_over() const { return state_ == State::done || state_ == State::died; }
  [[nodiscard]] bool is_still() const {
    return state_ != State::works && state_ != State::waits && state_ != State::spent;
  }
  [[nodiscard]] bool is_settled() const;
  [[nodiscard]] bool awaits_lower() const { return cutoff_ >= finished_below_; }

  Step step_;
  Settings settings_;
  std::atomic<std::int64_t> cutoff_ = Duration::max().count();
  std::atomic<double> share_ = 1;
  std::atomic<Wish> wish_ = Wish::goes_on;
  std::atomic<State> state_ = State::absent;
  /// Guards the following members, and changes of wish and state.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<ProofUpdate> updates_;
  /// The cutoff below which nothing was left, while the thread waits.
  std::int64_t finished_below_ = 0;
  /// Counted nanoseconds: granted and not begun with, counted beyond what was, and used but not returned by settle().
  std::int64_t granted_ = 0;
  std::int64_t debt_ = 0;
  std::int64_t used_ = 0;
  std::thread thread_;
};

}  // namespace remora
