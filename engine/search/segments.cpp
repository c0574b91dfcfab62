// SPDX-License-Identifier: Apache-2.0
#include "engine/search/segments.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "model/evaluate.hpp"

namespace remora {
namespace {

constexpr int kMaxSegments = 128;
/// The maximum number of segments that are divided further, and of parts of one.
constexpr int kMaxOuter = 32;
constexpr int kMaxInner = 8;
/// So often at most is one part cut within another: an op then runs again once for each of them.
constexpr std::size_t kMaxNested = 7;
/// A cut may move by this part of a segment's length, to where little is resident.
constexpr int kSegmentSlackPart = 3;
/// All cuts together are moved so often by a part of a segment's length.
constexpr int kShifts = 4;
constexpr std::size_t kMaxPlaces = 3'000;
/// Where a few lengths of all sizes do not bring the peak this part of the way to the budget, others would not either.
constexpr std::int64_t kPartOfWay = 4;

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
    const int slack = length / kSegmentSlackPart;
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

  /// `parts`: by op, segments, the parts of segments and so on. `runs_again`: by segment. What other segments read stays. Run i
  /// of an op serves run i of what reads it in the same part. Where the i-th way to cut is the first that parts the op from
  /// a reader, its run i - 1 is its last and stays.
  ///
  ///     segment      a b c d e f      read after the fullest event: f, then c; f reads e, e reads d and b, c reads b and a
  ///     its parts    a b c | d e f    run 1 of a and b, for e; run 2 of d, e and f; later run 2 of a and c: b is still there
  [[nodiscard]] RecomputePlan plan(const std::vector<std::vector<int>>& parts,
                                   const std::vector<bool>& runs_again) const {
    RecomputePlan plan;
    std::vector<Runs> runs(at(turn_) + 1, Runs{});
    for (Stage v = turn_; v >= 0; --v) {
      const OpId op(v);
      if (!runs_again[at(parts.front()[at(v)])]) continue;
      const std::size_t last = last_run(op, parts);
      if (last == 0) continue;
      Runs& own = runs[at(v)];
      for (const TensorId t : instance_.outputs(op)) {
        for (const OpId user : instance_.users(t)) {
          const Stage u{user};
          if (u > turn_) {
            serve(own[last - 1], u);
            continue;
          }
          for (std::size_t i = 0; i < parts.size(); ++i) serve(own[std::min(i, last - 1)], runs[at(u)][i]);
        }
      }
      join_runs(own, last);
      for (const Stage stage : own) {
        if (stage > 0) plan.push_back({stage, op});
      }
    }
    std::ranges::reverse(plan);
    return by_stage(plan);
  }

 private:
  /// By number, the stages in which an op runs again; 0 for none.
  using Runs = std::array<Stage, kMaxNested>;

  /// The recomputes, ascending by op, in the order of a plan.
  [[nodiscard]] RecomputePlan by_stage(const RecomputePlan& by_op) const {
    std::vector<std::size_t> place(at(instance_.op_count()) + 2, 0);
    for (const Recompute& recompute : by_op) ++place[at(recompute.stage) + 1];
    for (std::size_t stage = 1; stage < place.size(); ++stage) place[stage] += place[stage - 1];
    RecomputePlan plan(by_op.size());
    for (const Recompute& recompute : by_op) plan[place[at(recompute.stage)]++] = recompute;
    return plan;
  }

  static void serve(Stage& stage, Stage reader) {
    if (reader > 0) stage = stage == 0 ? reader : std::min(stage, reader);
  }

  /// The number of the run after which what the op writes stays; 0 for the first compute.
  [[nodiscard]] std::size_t last_run(OpId op, const std::vector<std::vector<int>>& parts) const {
    std::size_t last = std::min(parts.size(), at(instance_.max_computes(op) - 1));
    for (const TensorId t : instance_.outputs(op)) {
      for (const OpId user : instance_.users(t)) {
        if (Stage{user} > turn_) continue;
        for (std::size_t i = 0; i < last; ++i) {
          if (parts[i][op.index()] != parts[i][user.index()]) last = i;
        }
      }
    }
    return last;
  }

  /// A run that is not before the next one serves for it.
  static void join_runs(Runs& runs, std::size_t last) {
    Stage next{0};
    for (std::size_t i = last; i-- > 0;) {
      if (runs[i] == 0) continue;
      if (next > 0 && runs[i] >= next) {
        runs[i] = Stage{0};
      } else {
        next = runs[i];
      }
    }
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
    for (std::size_t keep = 0; places_.size() > kMaxPlaces; keep = 0) {
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
  std::vector<std::vector<int>> best_parts;
  std::vector<bool> runs_again;
  const auto asked = [&] { return interrupted && interrupted(); };
  const auto consider = [&](const std::vector<std::vector<int>>& parts) {
    const std::vector<bool> all(at(parts.front().back()) + 1, true);
    Solution found = make_solution(instance, segments.plan(parts, all));
    if (!better(instance, found, best)) return;
    best = std::move(found);
    best_parts = parts;
    runs_again = all;
  };
  const int most_segments = std::min(kMaxSegments, segments.turn() / 2 + 1);
  const Bytes before = best.peak;
  for (int count = 1; count <= most_segments && !asked(); count *= 2) consider({segments.cut_between(count)});
  if ((before - best.peak).count() < (before - instance.budget()).count() / kPartOfWay) return best;
  for (int count = 1; count <= most_segments && !asked(); count += 1 + count / 16) {
    std::vector<std::vector<int>> cuts;
    if (!std::has_single_bit(static_cast<unsigned>(count))) cuts.push_back(segments.cut_between(count));
    for (int shift = 0; shift < kShifts; ++shift) cuts.push_back(segments.cut(count, shift));
    for (const std::vector<int>& cut : cuts) {
      if (!asked()) consider({cut});
    }
  }
  int most_computes = 0;
  for (const OpId op : instance.ops()) most_computes = std::max(most_computes, instance.max_computes(op));
  const std::size_t most_nested = std::min(kMaxNested, at(std::max(1, most_computes) - 1));
  for (std::size_t nested = 2; nested <= most_nested && best.peak > instance.budget() && !asked(); ++nested) {
    for (int count = 1; count <= std::min(kMaxOuter, segments.turn() / 4 + 1); count += 1 + count / 8) {
      for (int factor = 2; factor <= kMaxInner && !asked(); ++factor) {
        std::vector<std::vector<int>> parts{segments.cut_between(count)};
        for (int all = count * factor; parts.size() < nested && all <= segments.turn() / 2; all *= factor) {
          parts.push_back(Segments::refined(parts.back(), segments.cut_between(all)));
        }
        if (parts.size() < nested) break;
        consider(parts);
      }
    }
  }
  // The later segments are the cheaper ones to keep: they are read again the soonest.
  for (std::size_t i = runs_again.size(); i-- > 0 && !asked();) {
    runs_again[i] = false;
    Solution found = make_solution(instance, segments.plan(best_parts, runs_again));
    if (better(instance, found, best)) {
      best = std::move(found);
    } else {
      runs_again[i] = true;
    }
  }
  return best;
}

namespace {

Solution checkpoints_of(const Search& search) {
  return start_from_segments(search.instance(), [&search] { return search.deadline().reached(); });
}

}  // namespace

void start_from_checkpoints(Search& search) {
  if (search.options().segments) search.offer(checkpoints_of(search), Source::segments);
}

void start_from_cheap_checkpoints(Search& search) {
  constexpr std::int64_t kFarAboveBound = 4;
  if (!search.options().segments) return;
  Solution found = checkpoints_of(search);
  const bool is_near = found.extra.count() / kFarAboveBound <= search.lower_bound().count();
  if (is_near && found.peak <= search.instance().budget()) search.offer(std::move(found), Source::segments);
}

}  // namespace remora
