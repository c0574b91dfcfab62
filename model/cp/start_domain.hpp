// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <vector>

#include <gecode/int.hh>

#include "model/cp/retention_problem.hpp"

namespace remora::cp {

/// A copy of one start variable's domain: the starts as ascending ranges, and whether the copy may be absent. Kept by
/// the profile so that a change is seen, and only its consequences are computed again, whatever space asks next.
class StartDomain {
 public:
  struct Range {
    Start first = 0;
    Start last = 0;

    friend bool operator==(const Range&, const Range&) = default;
  };

  /// Takes over the view's domain; true if it differs from the one held.
  bool update(const Gecode::Int::IntView& view, Start absent) {
    scratch_.clear();
    for (Gecode::Int::ViewRanges<Gecode::Int::IntView> range(view); range(); ++range) {
      scratch_.push_back({range.min(), range.max()});
    }
    const bool may_be_absent = scratch_.back().last == absent;
    if (may_be_absent && --scratch_.back().last < scratch_.back().first) scratch_.pop_back();
    if (known_ && may_be_absent == may_be_absent_ && scratch_ == ranges_) return false;
    known_ = true;
    may_be_absent_ = may_be_absent;
    ranges_.swap(scratch_);
    return true;
  }

  [[nodiscard]] bool absent() const { return ranges_.empty(); }
  [[nodiscard]] bool active() const { return known_ && !may_be_absent_; }
  [[nodiscard]] bool undecided() const { return may_be_absent_ && !ranges_.empty(); }
  [[nodiscard]] bool assigned() const { return active() && ranges_.front().first == ranges_.back().last; }
  [[nodiscard]] Start earliest() const { return ranges_.front().first; }
  /// The start of an assigned copy; the latest possible start of any other that may be computed.
  [[nodiscard]] Start latest() const { return ranges_.back().last; }

  /// The latest possible start that is at most `limit`, or kNone.
  [[nodiscard]] Start latest_up_to(Start limit) const {
    for (auto range = ranges_.rbegin(); range != ranges_.rend(); ++range) {
      if (range->first <= limit) return std::min(range->last, limit);
    }
    return kNone;
  }

  static constexpr Start kNone = -1;

 private:
  std::vector<Range> ranges_;
  std::vector<Range> scratch_;
  bool may_be_absent_ = false;
  bool known_ = false;
};

}  // namespace remora::cp
