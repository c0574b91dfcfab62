// SPDX-License-Identifier: Apache-2.0
//
// The proof by periods (engine/bound/periods/period_proof.hpp) beside a search: in a thread of its own while the search
// sits, so that neither waits for the other. It takes no more than its share of a core, counted in CPU seconds: where it
// has had more it sleeps at its next question. Under a work limit, where nothing may depend on time, the search asks for its
// steps instead.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/base/deadline.hpp"
#include "engine/bound/periods/period_proof.hpp"
#include "model/instance.hpp"

namespace remora {

class Prover {
 public:
  /// The instance outlives the prover. If it `rests`, it ends no program for a deadline: it waits there for rest() or pause().
  explicit Prover(const Instance& instance, bool rests = false) : proof_(instance), rests_(rests) {}
  Prover(const Prover&) = delete;
  Prover& operator=(const Prover&) = delete;
  ~Prover() { pause(); }

  /// Begins, or goes on. The deadline outlives the next pause().
  void start(const Deadline& deadline);
  /// Ends the thread, within the time of one of its questions.
  void pause();
  /// The thread waits, with what it is at, until start() or pause(); one that does not rest ends.
  void rest();
  /// What costs less is looked for.
  void set_ceiling(Duration extra) { ceiling_ = extra.count(); }
  /// The part of a core that it may use, above 0 and at most 1.
  void set_share(double share) { share_ = share; }
  /// Whether the thread is at a program; false where it waits for a better schedule or has ended.
  [[nodiscard]] bool works() const { return works_; }
  /// Takes what was found since.
  [[nodiscard]] std::vector<ProofNews> take();
  /// A few small steps here and now, the same on every machine.
  [[nodiscard]] std::vector<ProofNews> take_steps(Duration ceiling, Work most, const Deadline& deadline);

 private:
  class Ration;
  enum class Wish { goes_on, rests, ends };

  void run(const Deadline& deadline);
  void wish(Wish wish);
  /// Whether the thread is to end; it waits here meanwhile.
  [[nodiscard]] bool ends(const Deadline& deadline);

  PeriodProof proof_;
  std::atomic<std::int64_t> ceiling_ = Duration::max().count();
  std::atomic<double> share_ = 1;
  std::atomic<bool> works_ = false;
  bool rests_;
  std::atomic<Wish> wish_ = Wish::goes_on;
  /// Of the thread, and of whoever has joined it.
  bool finished_ = false;
  /// Of what follows, and of changes of the wish.
  std::mutex mutex_;
  std::condition_variable changed_;
  /// The thread does nothing: it rests, or has ended.
  bool idle_ = false;
  std::vector<ProofNews> news_;
  std::thread thread_;
};

}  // namespace remora
