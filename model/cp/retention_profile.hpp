// SPDX-License-Identifier: Apache-2.0
//
// How long each touched tensor is retained, and the memory that adds up to, given the variables' domains.
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
// A use is certain once its compute is, and all options open to the compute read the tensor.
//
// A use whose own moment is open, somewhere in a window, is certain up to the window's beginning: the tensor is
// resident there if no compute can come inside the window (the compulsory part of a task, as scheduling calls it).
//
// The profile belongs to one problem and one engine, not to a space: it keeps copies of the domains it was computed for
// and, when the search asks at another node, recomputes only the tensors whose ops differ. Cost of a refresh: comparing
// the domains, plus what changed times the stretch of slots it covers.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include <gecode/int.hh>

#include "model/cp/retention_problem.hpp"
#include "model/cp/start_domain.hpp"

namespace remora::cp {

/// The variables of a space, in RetentionProblem's numbering.
using Views = Gecode::ViewArray<Gecode::Int::IntView>;

/// A stretch of retention: after (or, for a certain compute, from) `from`, up to and including `to`.
struct Retention {
  Anchor from{};
  Anchor to{};
  bool certain_compute = true;
  /// The first use that it serves happens at this moment at the latest; equal to from.moment if no use is certain.
  Moment first_use{};
  /// The least that the tensor can have there.
  Bytes size{};

  [[nodiscard]] bool covers_slot(int slot) const { return from.slot <= slot && slot <= to.slot; }
  [[nodiscard]] bool covers(Moment moment) const {
    return (certain_compute ? from.moment <= moment : from.moment < moment) && moment <= to.moment;
  }
};

enum class Reading { mandatory, potential };

/// An event at which memory is limited: a fixed event (odd slot), or an assigned copy in the gap at `slot`.
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
  void refresh(const Views& views);

  [[nodiscard]] const StartDomain& domain(CopyId copy) const { return domains_[copy]; }
  /// The options open to the copy, a bit each; option 0 alone where there is nothing to choose.
  [[nodiscard]] std::uint64_t options(CopyId copy) const { return options_.empty() ? 1U : options_[copy]; }
  [[nodiscard]] std::span<const Retention> retentions(TouchedId tensor, Reading reading) const {
    const Tensor& entry = tensors_[tensor];
    return reading == Reading::potential && entry.differs ? entry.potential : entry.mandatory;
  }
  /// Whether the tensor's potential retention is more than its mandatory one: its producer has undecided copies and no
  /// copy whose start alone is open.
  [[nodiscard]] bool may_give_way(TouchedId tensor) const { return tensors_[tensor].differs; }

  /// Memory at each slot, without what belongs to assigned copies in gaps.
  [[nodiscard]] std::span<const Bytes> memory(Reading reading) const {
    return reading == Reading::mandatory ? mandatory_ : potential_;
  }
  /// The copies whose start is assigned and not absent, by moment, and the memory at each, exact for what the reading
  /// retains.
  [[nodiscard]] std::span<const MemoryEvent> assigned() const { return assigned_; }
  [[nodiscard]] std::span<const Bytes> assigned_memory(Reading reading);

  /// What the tensor holds at the event: its size if it is retained there, or nothing.
  [[nodiscard]] Bytes retained(TouchedId tensor, const MemoryEvent& event, Reading reading) const;
  /// Whether the tensor is retained throughout a gap or at a fixed event.
  [[nodiscard]] bool covers_slot(TouchedId tensor, int slot, Reading reading) const;

  /// The least duration and memory that the options open to the copy allow.
  [[nodiscard]] Duration least_duration(CopyId copy) const;
  [[nodiscard]] Bytes least_workspace(CopyId copy) const;
  [[nodiscard]] Bytes least_size(CopyId copy, TouchedId output) const;

 private:
  struct Tensor {
    std::vector<Retention> mandatory{};
    std::vector<Retention> potential{};
    /// Whether `potential` holds more than `mandatory`; if not it is left empty.
    bool differs = false;
    bool dirty = true;
  };
  struct Server {
    Anchor at{};
    Bytes size{};
  };
  struct Use {
    /// Where it happens at the earliest, and at the latest.
    Anchor at{};
    Moment latest{};
  };
  struct AssignedMemory {
    std::vector<Bytes> bytes{};
    bool known = false;
  };

  bool update_options(const Views& views, CopyId copy);
  void mark_dirty(std::span<const TouchedId> tensors);
  void collect_assigned();
  void recompute(TouchedId id);
  void collect_computes(TouchedId id);
  void collect_uses(TouchedId id);
  [[nodiscard]] Anchor latest_possible(FreeId producer, Moment before) const;
  void retain(TouchedId id, Reading reading, std::vector<Retention>& result) const;
  [[nodiscard]] bool has_undecided_alone(FreeId op) const;
  static void replace(std::vector<Bytes>& memory, std::span<const Retention> before, std::span<const Retention> after);
  void add_up_gap(Reading reading, std::size_t begin, std::size_t end, std::vector<Bytes>& result);
  template <class Amount, class Get>
  [[nodiscard]] Amount least(CopyId copy, Amount common, Get get) const;

  const RetentionProblem& problem_;
  std::vector<StartDomain> domains_;
  /// Only where ops have options.
  std::vector<std::uint64_t> options_;
  std::vector<Tensor> tensors_;
  std::vector<TouchedId> dirty_;
  std::vector<Bytes> mandatory_;
  std::vector<Bytes> potential_;
  std::vector<MemoryEvent> assigned_;
  /// The copies that are certain but whose start is open, at the earliest moment they can have.
  std::vector<MemoryEvent> open_;
  std::array<AssignedMemory, 2> assigned_memory_;
  std::vector<Server> computes_;
  std::vector<Use> uses_;
  std::vector<TouchedId> local_;
  std::vector<Bytes> change_;
  std::vector<Retention> mandatory_before_;
  std::vector<Retention> potential_before_;
};

}  // namespace remora::cp
