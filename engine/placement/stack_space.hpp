// SPDX-License-Identifier: Apache-2.0
//
// The constraint program of one part within one capacity, in Gecode.
//
// Variables are the offsets, in grains. The search looks only for placements in which no item can be moved to a lower
// place: every feasible capacity has one (move items down until none can be). In such a placement the lowest item that is
// not placed yet rests on what is placed, or on the ground: at its support, the lowest offset above all placed items that
// it overlaps. So the search takes an item with nothing to come below it and branches: it lies at its support, or it lies
// higher ("floats"). Placed items lie below all that come later, which makes this Moffitt's search over canonical placements (minimalloc,
// ASPLOS 2023), with bounds of variables instead of an order of moves, so that propagators see what was refused:
//
//     supports   an item that floats lies on one still to come: above the lowest end of those it overlaps
//     blockers   and something still to come lies where it would fit now, or it could sink (his check for dominance,
//                but for each item and its neighbours instead of once for all); if only one can, it must
//     orders     a above b, or b above a: if one has no room, the other holds
//     sections   in each section, from the top one down: the lowest start of k items and their sizes end within the
//                capacity (his section inference is the case of all items)
//     first      if without item a the others of a section start too high to end in time, a comes first
//     floors     where the items of a section have no room to leave, one of them lies on its floor; so those that can lie
//                on the floor of neighbouring sections cover them side by side, and one that is in no such row lies higher
//     hanging    sections, turned upside down: the highest end of k items is their sizes above the lowest start. It tells
//                nothing where every item may end at the capacity, so it is for fixed items
//     gaps       what is between two fixed items of a section is filled by sizes of items that can lie there, but for what
//                the section can leave free (Trick's dynamic program for knapsacks, 2003)
//
// Any item below which nothing that waits can lie may be next. `lowest` takes the lowest of these, `tightest` one in a
// section that the fewest items can come first in; each solves problems that the other does not (docs/guide/place.md).
//
// Items that what is placed separates into groups that share no time are searched by engines of their own, inside the
// node: if one group has no placement, nothing else is tried (his dynamic decomposition).
#pragma once

#include <cstdint>
#include <vector>

#include <gecode/int.hh>

#include "engine/placement/part_search.hpp"

namespace remora::placement {

/// Data shared by all spaces of one search; used by one thread.
struct StackContext {
  StackContext(const StackProblem& constant, const StackSettings& chosen);

  const StackProblem& problem;
  const StackSettings& settings;
  /// Where each item comes in the settings' order.
  std::vector<int> rank;
  std::int64_t nodes = 0;
  /// The limit or somebody's wish cut the search short.
  bool cut = false;

  /// True once the search is to end.
  bool stopped();

  /// For twins: true if the first lies below the other where they touch.
  [[nodiscard]] bool before_twin(int first, int other) const {
    return problem.twins[at(first)] >= 0 && problem.twins[at(first)] == problem.twins[at(other)] &&
           rank[at(first)] < rank[at(other)];
  }

  /// Bounds while a propagator works, of the items that wait.
  std::vector<int> low;
  std::vector<int> high;
  std::vector<int> waiting;
  /// Items whose bounds changed since the order of pairs was last looked at, each once.
  std::vector<int> moved;
  std::vector<char> has_moved;
  /// True if a lower bound rose since the sections were last looked at.
  bool has_risen = false;
  /// For each section: the sum, the lowest start and the second lowest, each in a row of its own, since long stretches
  /// of them
  /// are gone through for every item.
  struct SectionRows {
    std::vector<int> sum;
    std::vector<int> lowest;
    std::vector<int> second;
    std::vector<int> lowest_item;
    /// Above which the other items begin where the lowest one has to come first, or 0.
    std::vector<int> above_first;
  };
  SectionRows sections;
  /// Sections in which items are fixed, and the items that wait in each.
  std::vector<int> fixed_sections;
  std::vector<std::vector<int>> members;
  /// The fixed items from below, then the others, the largest first; and for each section the bounds, as a hash, with which
  /// its gaps could be filled the last time.
  std::vector<int> gap_order;
  std::vector<std::uint64_t> filled;
  /// Sections [of the list, end) that an item can cover at the height of their floor.
  struct Tile {
    int end;
    int item;
    /// The next one that begins in the same section, or -1.
    int next;
  };
  std::vector<Tile> tiles;
  std::vector<int> first_tile;
  /// True if a row of tiles leads from the first section of a floor to here, and from here to its end.
  std::vector<char> from_first;
  std::vector<char> to_end;
  /// Sums of subsets of the items, ascending.
  std::vector<int> sums;
  std::vector<int> next_sums;
  /// While the brancher works: of each section the sum of what waits, and how many items can come first.
  std::vector<int> waiting_sum;
  std::vector<int> first_count;
};

class StackSpace : public Gecode::Space {
 public:
  /// State of an item.
  enum class Place : unsigned char {
    waiting,   ///< to be placed
    placed,    ///< all that it overlaps and that waits lies above it
    elsewhere  ///< another engine's business
  };

  explicit StackSpace(StackContext& context);
  StackSpace(StackSpace& other);
  Gecode::Space* copy() override { return new StackSpace(*this); }

  [[nodiscard]] const Gecode::IntVarArray& offsets() const { return offsets_; }
  [[nodiscard]] Place place(int item) const { return places_[item]; }
  [[nodiscard]] int support(int item) const { return supports_[item]; }

  /// The item lies at its support, below all that wait.
  void settle(int item);
  /// The item lies at this offset, like those of its group.
  void settle_at(int item, int offset);
  /// It lies higher than its support.
  void refuse(int item);
  /// Leaves every other item that waits to somebody else.
  void keep_only(const std::vector<int>& items);

  /// The bounds of each item at the propagator's last fixpoint, which it keeps here.
  struct Bounds {
    int low;
    int high;
  };
  [[nodiscard]] Bounds& at_fixpoint(int item) { return at_fixpoint_[item]; }

 private:
  StackContext* context_;
  Gecode::IntVarArray offsets_;
  Place* places_;
  int* supports_;
  Bounds* at_fixpoint_;
};

/// The inferences, on the bounds of all offsets together. A pass costs the overlaps and the sections
/// of the items that wait.
class StackBounds : public Gecode::NaryPropagator<Gecode::Int::IntView, Gecode::Int::PC_INT_BND> {
 public:
  using Views = Gecode::ViewArray<Gecode::Int::IntView>;

  static Gecode::ExecStatus post(Gecode::Home home, Views& views, StackContext& context) {
    (void)new (home) StackBounds(home, views, context);
    return Gecode::ES_OK;
  }
  Gecode::PropCost cost(const Gecode::Space&, const Gecode::ModEventDelta&) const override {
    return Gecode::PropCost::quadratic(Gecode::PropCost::HI, x.size());
  }
  Gecode::Actor* copy(Gecode::Space& home) override { return new (home) StackBounds(home, *this); }
  Gecode::ExecStatus propagate(Gecode::Space& home, const Gecode::ModEventDelta& delta) override;

 private:
  StackBounds(Gecode::Home home, Views& views, StackContext& context)
      : NaryPropagator(home, views), context_(&context) {}
  StackBounds(Gecode::Space& home, StackBounds& other) : NaryPropagator(home, other), context_(other.context_) {}

  // Each pass raises `low` and lowers `high` of the context; false: there is no placement. `changed` is set if one did.
  bool lift_to_floor(const StackSpace& space, bool& changed);
  bool rest_floating(const StackSpace& space, bool& changed);
  bool order_pairs(bool& changed);
  bool order_pair(int below, int above, bool& changed);
  bool fill_sections(bool& changed);
  bool place_first(bool& changed);
  bool hang_sections(bool& changed);
  bool cover_floors(bool& changed);
  void list_tiles();
  bool cover_floor(Sections floor, bool& changed);
  [[nodiscard]] bool leaves_room(int section) const;
  bool fill_gaps();
  bool can_fill(int section, int from, int end, int slack);

  bool raise(int item, int offset, bool& changed);
  bool lower(int item, int offset, bool& changed);
  void note_moved(int item);

  StackContext* context_;
};

}  // namespace remora::placement
