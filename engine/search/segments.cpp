// SPDX-License-Identifier: Apache-2.0
#include "engine/search/segments.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "model/evaluate.hpp"

namespace remora {
namespace {

constexpr int kMostSegments = 128;
/// A cut may move by this part of a segment's length, to where little is resident.
constexpr int kSlackPart = 3;
/// All cuts together are moved so often by a part of a segment's length.
constexpr int kShifts = 4;
constexpr std::size_t kMostPlaces = 3'000;

class Segments {
 public:
  explicit Segments(const Instance& instance) : instance_(instance) {
    const std::vector<Bytes> live = evaluate(instance, input_order(instance)).memory;
    turn_ = static_cast<Stage>(std::max_element(live.begin(), live.end()) - live.begin());
    count_crossing();
  }

  [[nodiscard]] Stage turn() const { return turn_; }

  /// By op up to the turn, the number of its segment. `shift`: by how many parts of their length segments begin earlier.
  [[nodiscard]] std::vector<int> cut(int segments, int shift) const {
    std::vector<int> segment(at(turn_) + 1, 0);
    const int length = (turn_ + 1) / segments;
    const int slack = length / kSlackPart;
    Stage begin = 0;
    for (int i = 0; i < segments; ++i) {
      const auto wanted = static_cast<Stage>(static_cast<std::int64_t>(turn_ + 1) * (i + 1) / segments -
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

  /// `runs_again`: by segment. What other segments read stays.
  [[nodiscard]] RecomputePlan plan(const std::vector<int>& segment, const std::vector<bool>& runs_again) const {
    RecomputePlan plan;
    std::vector<Stage> stages(at(turn_) + 1, 0);
    for (Stage v = turn_; v >= 0; --v) {
      const OpId op(v);
      const int own = segment[at(v)];
      if (!runs_again[at(own)] || instance_.max_computes(op) < 2) continue;
      Stage stage = 0;
      bool stays = false;
      const auto serve = [&](Stage reader) { stage = stage == 0 ? reader : std::min(stage, reader); };
      for (const TensorId t : instance_.outputs(op)) {
        for (const OpId user : instance_.users(t)) {
          if (user > turn_) {
            serve(user);
            continue;
          }
          stays = stays || segment[at(Stage{user})] != own;
          if (stages[at(Stage{user})] > 0) serve(stages[at(Stage{user})]);
        }
      }
      if (stays || stage == 0) continue;
      stages[at(v)] = stage;
      plan.push_back({stage, op});
    }
    std::sort(plan.begin(), plan.end());
    return plan;
  }

 private:
  /// The bytes that ops before k leave to ops from k up to the turn.
  void count_crossing() {
    crossing_.assign(at(turn_) + 2, 0);
    for (Stage v = 0; v <= turn_; ++v) {
      for (const TensorId t : instance_.outputs(OpId(v))) {
        Stage last = v;
        for (const OpId user : instance_.users(t)) {
          if (user <= turn_) last = user;
        }
        crossing_[at(v) + 1] += instance_.size(t).count();
        crossing_[at(last) + 1] -= instance_.size(t).count();
      }
    }
    for (std::size_t k = 1; k < crossing_.size(); ++k) crossing_[k] += crossing_[k - 1];
    written_.assign(at(turn_) + 2, 0);
    for (Stage v = 0; v <= turn_; ++v) {
      written_[at(v) + 1] = written_[at(v)];
      for (const TensorId t : instance_.outputs(OpId(v))) written_[at(v) + 1] += instance_.size(t).count();
    }
    places_.push_back(0);
    for (Stage k = 1; k <= turn_; ++k) {
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
  Stage turn_ = 0;
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
  std::vector<bool> runs_again;
  const auto asked = [&] { return interrupted && interrupted(); };
  for (int count = 1; count <= std::min(kMostSegments, segments.turn() / 2 + 1) && !asked(); count += 1 + count / 16) {
    std::vector<std::vector<int>> cuts{segments.cut_between(count)};
    for (int shift = 0; shift < kShifts; ++shift) cuts.push_back(segments.cut(count, shift));
    for (std::vector<int>& cut : cuts) {
      const std::vector<bool> all(at(cut.back()) + 1, true);
      Solution found = make_solution(instance, segments.plan(cut, all));
      if (!better(instance, found, best)) continue;
      best = std::move(found);
      best_cut = std::move(cut);
      runs_again = all;
    }
  }
  // The later segments are the cheaper ones to keep: they are read again the soonest.
  for (std::size_t i = runs_again.size(); i-- > 0 && !asked();) {
    runs_again[i] = false;
    Solution found = make_solution(instance, segments.plan(best_cut, runs_again));
    if (better(instance, found, best)) {
      best = std::move(found);
    } else {
      runs_again[i] = true;
    }
  }
  return best;
}

}  // namespace remora
