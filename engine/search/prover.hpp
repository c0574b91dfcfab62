// SPDX-License-Identifier: Apache-2.0
//
// A proof beside a search, as a rule the one by periods (engine/bound/periods/period_proof.hpp): in a thread of its own while the
// search sits, so that neither waits for the other. It takes no more than its share of a core, counted in CPU seconds: where it
// has had more it sleeps at its next question. Under a work limit, where nothing may depend on time, the search asks for its
// steps instead.
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
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/deadline.hpp"
#include "engine/base/options.hpp"
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
    rests,   ///< the thread does nothing until it is told to
    done,    ///< nothing more will come: it has proved what there is to prove
    died,    ///< nothing more will come: there was no memory, or no thread, for it
  };

  /// If it `may_rest`, it ends no program for a deadline: it rests there until start() or stop(). `mip`: for integer programs.
  explicit Prover(Step step, bool may_rest = false, IntegerSolver mip = IntegerSolver::highs)
      : step_(std::move(step)), may_rest_(may_rest), mip_(mip) {}
  Prover(const Prover&) = delete;
  Prover& operator=(const Prover&) = delete;
  ~Prover() { stop(); }

  /// Begins, or goes on. The deadline outlives the next stop().
  void start(const Deadline& deadline);
  /// Ends the thread, within the time of one of its questions. start() makes another, which begins with the next step.
  void stop();
  /// The thread rests, with what it is at; one that may not is ended.
  void pause();
  /// Cheaper schedules are sought.
  void set_cutoff(Duration extra) { cutoff_ = extra.count(); }
  /// The part of a core that it may use, above 0 and at most 1.
  void set_share(double share) { share_ = share; }
  [[nodiscard]] State state() const { return state_; }
  /// Takes what was found since.
  [[nodiscard]] std::vector<ProofUpdate> take();
  /// A few small steps here and now, the same on every machine.
  [[nodiscard]] std::vector<ProofUpdate> take_steps(Duration cutoff, Work most, const Deadline& deadline);

 private:
  class Ration;
  enum class Wish : std::uint8_t { goes_on, rests, ends };

  /// The thread's whole life: absent, done or died.
  [[nodiscard]] State live(const Deadline& deadline);
  [[nodiscard]] State run(const Deadline& deadline);
  void wish(Wish wish);
  void enter(State state);
  /// True if the thread is to end; it rests here meanwhile.
  [[nodiscard]] bool is_ended(const Deadline& deadline);
  [[nodiscard]] bool is_over() const { return state_ == State::done || state_ == State::died; }
  [[nodiscard]] bool is_still() const { return state_ != State::works && state_ != State::waits; }

  Step step_;
  bool may_rest_;
  IntegerSolver mip_;
  std::atomic<std::int64_t> cutoff_ = Duration::max().count();
  std::atomic<double> share_ = 1;
  std::atomic<Wish> wish_ = Wish::goes_on;
  std::atomic<State> state_ = State::absent;
  /// Guards the following members, and changes of wish and state.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<ProofUpdate> updates_;
  std::thread thread_;
};

}  // namespace remora
