// SPDX-License-Identifier: Apache-2.0
//
// How long each touched tensor is retained, and the memory that adds up to, given the stage variables' domains.
//
// Two readings of the supply constraint (Moccasin, eq. 5), which lets every use be served by some earlier compute:
//
//   mandatory: a certain use at moment e is served at the earliest by the latest compute before e that is certain or
//              possible; from there to e the tensor is resident in every solution. (A lower bound on memory, eq. 4;
//              exact once all variables are assigned.)
//   potential: every undecided copy is taken to be absent; what was not given up stays. (What memory will be if nothing
//              more is recomputed; where it exceeds the capacity, somebody has to give way.)
//
//     computes   C-----------?----------?                    C certain, ? possible (in a domain)
//     uses       .     U     .    U     .       U
//     mandatory  [=====]     [====]     [=======]
//     potential  [==============================]
//
// The profile belongs to one problem and one engine, not to a space: it keeps copies of the domains it was computed for
// and, when the search asks at another node, recomputes only the tensors whose ops differ. Cost of a refresh: comparing
// the domains, plus what changed times the stretch of slots it covers.
#pragma once

#include <span>
#include <vector>

#include <gecode/int.hh>

#include "model/cp/retention_problem.hpp"
#include "model/cp/stage_domain.hpp"

namespace remora::cp {

using StageViews = Gecode::ViewArray<Gecode::Int::IntView>;

/// A stretch of retention: after (or, for a certain compute, from) `from`, up to and including `to`.
struct Retention {
  Anchor from{};
  Anchor to{};
  bool certain_compute = true;
  /// The first use that it serves; equal to from.moment if no use is certain.
  Moment first_use{};

  [[nodiscard]] bool covers_slot(int slot) const { return from.slot <= slot && slot <= to.slot; }
  [[nodiscard]] bool covers(Moment moment) const {
    return (certain_compute ? from.moment <= moment : from.moment < moment) && moment <= to.moment;
  }
};

enum class Reading { mandatory, potential };

/// An event at which memory is limited: a fixed event (odd slot), or an assigned recompute in the gap at `slot`.
struct MemoryEvent {
  Moment moment{};
  int slot = 0;
  /// The assigned copy, or none for a fixed event.
  CopyId copy{};
};

class RetentionProfile {
 public:
  explicit RetentionProfile(const RetentionProblem& problem);

  /// Brings the profile to the views' domains.
  void refresh(const StageViews& stages);

  [[nodiscard]] const StageDomain& domain(CopyId copy) const { return domains_[copy]; }
  [[nodiscard]] std::span<const Retention> retentions(TouchedId tensor, Reading reading) const {
    const Tensor& entry = tensors_[tensor];
    return reading == Reading::potential && entry.differs ? entry.potential : entry.mandatory;
  }
  /// Whether the tensor's potential retention is more than its mandatory one: its producer has undecided copies and no
  /// copy whose stage alone is open.
  [[nodiscard]] bool may_give_way(TouchedId tensor) const { return tensors_[tensor].differs; }

  /// Memory at each slot, without the outputs of recomputes in gaps.
  [[nodiscard]] std::span<const Bytes> memory(Reading reading) const {
    return reading == Reading::mandatory ? mandatory_ : potential_;
  }
  /// The copies whose stage is assigned and not absent, by moment.
  [[nodiscard]] std::span<const MemoryEvent> assigned() const { return assigned_; }
  /// Memory at an assigned recompute, exact for what the reading retains.
  [[nodiscard]] Bytes memory_at(const MemoryEvent& event, Reading reading) const;

  /// Whether the tensor is retained at the event.
  [[nodiscard]] bool retained(TouchedId tensor, const MemoryEvent& event, Reading reading) const;

 private:
  struct Tensor {
    std::vector<Retention> mandatory{};
    std::vector<Retention> potential{};
    /// Whether `potential` holds more than `mandatory`; if not it is left empty.
    bool differs = false;
    bool dirty = true;
  };

  void mark_dirty(CopyId copy);
  void collect_assigned();
  void recompute(TouchedId id);
  void collect_computes(TouchedId id);
  void collect_uses(TouchedId id);
  [[nodiscard]] Anchor latest_possible(FreeId producer, Moment before) const;
  void retain(TouchedId id, Reading reading, std::vector<Retention>& result) const;
  void add(const Tensor& entry, Bytes size);
  void add_range(std::vector<Bytes>& memory, std::span<const Retention> retentions, Bytes size) const;

  const RetentionProblem& problem_;
  std::vector<StageDomain> domains_;
  std::vector<Tensor> tensors_;
  std::vector<TouchedId> dirty_;
  std::vector<Bytes> mandatory_;
  std::vector<Bytes> potential_;
  std::vector<MemoryEvent> assigned_;
  std::vector<Anchor> computes_;
  std::vector<Anchor> uses_;
};

}  // namespace remora::cp
