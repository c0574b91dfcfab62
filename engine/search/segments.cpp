// SPDX-License-Identifier: Apache-2.0
#include "engine/search/segments.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "model/evaluate.hpp"

namespace remora {
namespace {

constexpr int kMostSegments = 128;
/// Of segments that are cut once more, and of parts of one.
constexpr int kMostOuter = 32;
constexpr int kMostInner = 8;
/// A cut may move by this part of a segment's length, to where little is resident.
constexpr int kSlackPart = 3;
/// All cuts together are moved so often by a part of a segment's length.
constexpr int kShifts = 4;
constexpr std::size_t kMostPlaces = 3'000;

class Segments {
 public:
  explicit Segments(const Instance& instance) : instance_(instance) {
    const std::vector<Bytes> live = evaluate(instance, input_order(instance)).memory;
    turn_ = Stage(std::max_element(live.begin(), live.end()) - live.begin());
    count_crossing();
  }

  [[nodiscard]] Stage turn() const { return turn_; }

  /// By op up to the turn, the number of its segment. `shift`: by how many parts of their length segments begin earlier.
  [[nodiscard]] std::vector<int> cut(int segments, int shift) const {
    std::vector<int> segment(at(turn_) + 1, 0);
    const int length = (turn_ + 1) / segments;
    const int slack = length / kSlackPart;
    Stage begin{0};
    for (int i = 0; i < segments; ++i) {
      const auto wanted = Stage(static_cast<std::int64_t>(turn_ + 1) * (i + 1) / segments -
                                static_cast<std::int64_t>(length) * shift / kShifts);
      Stage end = wanted;
      for (Stage k = std::max(begin + 1, wanted - slack); k <= std::min(turn_, wanted + slack); ++k) {
        if (crossing_[at(k)] < crossing_[at(std::min(end, turn_))]) end = k;
      }
      if (i + 1 == segments) end = turn_ + 1;
      std::fill(segment.begin() + begin, segment.begin() + std::max(begin, end), i);
      begin = std::max(begin, end);
    }
    return segment;
  }

  /// Cuts where least is resident, so that no segment writes more than a `parts`-th of all bytes where that can be: the least sum of
  /// what crosses them, by dynamic programming over the places where that is locally least.
  [[nodiscard]] std::vector<int> cut_between(int parts) const {
    const std::int64_t most = written_.back() / parts + 1;
    std::vector<std::int64_t> least(places_.size(), 0);
    std::vector<std::size_t> before(places_.size(), 0);
    for (std::size_t j = 1; j < places_.size(); ++j) {
      least[j] = -1;
      for (std::size_t i = j; i-- > 0;) {
        const bool fits = written_[at(places_[j])] - written_[at(places_[i])] <= most;
        if (!fits && least[j] >= 0) break;
        const std::int64_t sum = least[i] + crossing_[at(places_[j])];
        if (least[j] >= 0 && sum >= least[j]) continue;
        least[j] = sum;
        before[j] = i;
      }
    }
    std::vector<int> segment(at(turn_) + 1, 0);
    for (std::size_t j = places_.size() - 1; j > 0; j = before[j]) {
      if (places_[j] <= turn_) segment[at(places_[j])] = 1;
    }
    for (std::size_t v = 1; v < segment.size(); ++v) segment[v] += segment[v - 1];
    return segment;
  }

  /// Both ways of cutting at once: numbers of the parts that neither cuts.
  [[nodiscard]] static std::vector<int> refined(const std::vector<int>& outer, const std::vector<int>& inner) {
    std::vector<int> part(outer.size(), 0);
    for (std::size_t v = 1; v < outer.size(); ++v) {
      part[v] = part[v - 1] + (outer[v] != outer[v - 1] || inner[v] != inner[v - 1] ? 1 : 0);
    }
    return part;
  }

  /// `runs_again`: by segment. What other segments read stays. `part` cuts segments further; without inner cuts it is
  /// `segment`. An op runs again early, for what later parts of its segment read when they run again, and late, for what is
  /// read after the fullest event; once for both, if other parts read it or it may not run three times.
  [[nodiscard]] RecomputePlan plan(const std::vector<int>& segment, const std::vector<int>& part,
                                   const std::vector<bool>& runs_again) const {
    RecomputePlan plan;
    std::vector<Runs> runs(at(turn_) + 1);
    for (Stage v = turn_; v >= 0; --v) {
      const OpId op(v);
      if (!runs_again[at(segment[at(v)])] || instance_.max_computes(op) < 2) continue;
      bool stays = false;
      bool crosses = instance_.max_computes(op) < 3;
      Runs& own = runs[at(v)];
      for (const TensorId t : instance_.outputs(op)) {
        for (const OpId user : instance_.users(t)) {
          const Stage u{user};
          if (u > turn_) {
            serve(own.late, u);
            continue;
          }
          const bool other = part[at(u)] != part[at(v)];
          stays = stays || segment[at(u)] != segment[at(v)];
          crosses = crosses || other;
          serve(own.early, runs[at(u)].early);
          serve(other ? own.early : own.late, runs[at(u)].late);
        }
      }
      if (stays) own = {};
      if (own.early > 0 && own.late > 0 && (crosses || own.early >= own.late)) {
        own = {std::min(own.early, own.late), Stage{0}};
      }
      if (own.early > 0) plan.push_back({own.early, op});
      if (own.late > 0) plan.push_back({own.late, op});
    }
    std::sort(plan.begin(), plan.end());
    return plan;
  }

 private:
  /// The stages in which an op runs again, 0 for none.
  struct Runs {
    Stage early{0};
    Stage late{0};
  };

  static void serve(Stage& stage, Stage reader) {
    if (reader > 0) stage = stage == 0 ? reader : std::min(stage, reader);
  }

  /// The bytes that ops before k leave to ops from k up to the turn.
  void count_crossing() {
    crossing_.assign(at(turn_) + 2, 0);
    for (Stage v{0}; v <= turn_; ++v) {
      for (const TensorId t : instance_.outputs(OpId(v))) {
        Stage last = v;
        for (const OpId user : instance_.users(t)) {
          if (Stage{user} <= turn_) last = Stage{user};
        }
        crossing_[at(v) + 1] += instance_.size(t).count();
        crossing_[at(last) + 1] -= instance_.size(t).count();
      }
    }
    for (std::size_t k = 1; k < crossing_.size(); ++k) crossing_[k] += crossing_[k - 1];
    written_.assign(at(turn_) + 2, 0);
    for (Stage v{0}; v <= turn_; ++v) {
      written_[at(v) + 1] = written_[at(v)];
      for (const TensorId t : instance_.outputs(OpId(v))) written_[at(v) + 1] += instance_.size(t).count();
    }
    places_.push_back(Stage{0});
    for (Stage k{1}; k <= turn_; ++k) {
      if (crossing_[at(k)] <= crossing_[at(k) - 1] && crossing_[at(k)] <= crossing_[at(k) + 1]) places_.push_back(k);
    }
    // On very large graphs some of them do.
    for (std::size_t keep = 0; places_.size() > kMostPlaces; keep = 0) {
      std::erase_if(places_, [&](Stage) { return keep++ % 2 == 1; });
    }
    places_.push_back(turn_ + 1);
  }

  const Instance& instance_;
  /// The op of the fullest event.
  Stage turn_{0};
  std::vector<std::int64_t> crossing_;
  /// By op, what those before it write; and the places where a segment may begin, ascending.
  std::vector<std::int64_t> written_;
  std::vector<Stage> places_;
};

}  // namespace

Solution start_from_segments(const Instance& instance, const Interrupted& interrupted) {
  Solution best = make_solution(instance, RecomputePlan{});
  if (instance.op_count() == 0) return best;
  const Segments segments(instance);
  std::vector<int> best_cut;
  std::vector<int> best_part;
  std::vector<bool> runs_again;
  const auto asked = [&] { return interrupted && interrupted(); };
  const auto consider = [&](const std::vector<int>& cut, const std::vector<int>& part) {
    const std::vector<bool> all(at(cut.back()) + 1, true);
    Solution found = make_solution(instance, segments.plan(cut, part, all));
    if (!better(instance, found, best)) return;
    best = std::move(found);
    best_cut = cut;
    best_part = part;
    runs_again = all;
  };
  for (int count = 1; count <= std::min(kMostSegments, segments.turn() / 2 + 1) && !asked(); count += 1 + count / 16) {
    std::vector<std::vector<int>> cuts{segments.cut_between(count)};
    for (int shift = 0; shift < kShifts; ++shift) cuts.push_back(segments.cut(count, shift));
    for (const std::vector<int>& cut : cuts) {
      if (!asked()) consider(cut, cut);
    }
  }
  const auto may_run_thrice = [&](OpId op) { return instance.max_computes(op) >= 3; };
  if (best.peak > instance.budget() && std::ranges::any_of(instance.ops(), may_run_thrice)) {
    for (int count = 1; count <= std::min(kMostOuter, segments.turn() / 4 + 1) && !asked(); count += 1 + count / 8) {
      const std::vector<int> outer = segments.cut_between(count);
      for (int inner = 2 * count; inner <= std::min(kMostInner * count, segments.turn() / 2) && !asked();
           inner += count) {
        consider(outer, Segments::refined(outer, segments.cut_between(inner)));
      }
    }
  }
  // The later segments are the cheaper ones to keep: they are read again the soonest.
  for (std::size_t i = runs_again.size(); i-- > 0 && !asked();) {
    runs_again[i] = false;
    Solution found = make_solution(instance, segments.plan(best_cut, best_part, runs_again));
    if (better(instance, found, best)) {
      best = std::move(found);
    } else {
      runs_again[i] = true;
    }
  }
  return best;
}

}  // namespace remora
