// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/place.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "engine/base/tasks.hpp"
#include "engine/placement/part.hpp"
#include "engine/placement/part_search.hpp"
#include "model/error.hpp"

namespace remora {
namespace placement {
namespace {

/// Nodes for each question of the first round.
constexpr std::int64_t kFirstNodes = 500;

class Placing {
 public:
  Placing(std::span<const Buffer> buffers, const PlaceSettings& settings, const std::function<bool()>& interrupted)
      : buffers_(buffers), settings_(settings), interrupted_(interrupted), parts_(parts_of(buffers)) {
    const int threads = std::max(1, settings.threads);
    // Many parts are searched side by side, few have the threads for themselves.
    const auto together = static_cast<int>(std::min<std::size_t>(parts_.size(), at(threads)));
    Bytes goal;
    for (const Part& part : parts_) goal = std::max(goal, part.lower_bound);
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      searches_.push_back(std::make_unique<PartSearch>(
          parts_[p], PartSearch::Settings{.goal = goal,
                                          .capacity = settings.capacity,
                                          .seed = settings.seed + p,
                                          .threads = std::max(1, threads / std::max(1, together)),
                                          .work_limit = work_limit_of(parts_[p])}));
    }
  }

  PlaceResult run() {
    if (fixed_clash()) return {.status = PlacementStatus::infeasible, .lower_bound = Bytes::max()};
    in_all_parts([&](PartSearch& search) { search.start(interrupted_); });
    std::int64_t nodes = kFirstNodes;
    while (settings_.exact && !finished()) {
      in_all_parts([&](PartSearch& search) { search.run_round(nodes, interrupted_); });
      if (nodes < INT64_MAX / 2) nodes += nodes / 4;
    }
    return result();
  }

 private:
  /// Its share by items.
  [[nodiscard]] std::int64_t work_limit_of(const Part& part) const {
    const double share = static_cast<double>(part.count()) / static_cast<double>(buffers_.size());
    return 1 + part_of(Work(settings_.work_limit), share).count();
  }

  /// True if fixed buffers share bytes.
  [[nodiscard]] bool fixed_clash() const {
    std::vector<Buffer> fixed;
    std::vector<Bytes> offsets;
    for (const Buffer& buffer : buffers_) {
      if (!buffer.offset) continue;
      fixed.push_back(buffer);
      offsets.push_back(*buffer.offset);
    }
    return !placement_fault(fixed, offsets).empty();
  }

  void in_all_parts(const std::function<void(PartSearch&)>& work) {
    std::vector<PartSearch*> left;
    for (const auto& search : searches_) {
      if (!search->finished()) left.push_back(search.get());
    }
    run_tasks(std::max(1, settings_.threads), left.size(), [&](std::size_t i) { work(*left[i]); });
    for (const auto& search : searches_) {
      for (const auto& other : searches_) search->need_no_less(other->lower_bound());
    }
    report();
  }

  void report() {
    const std::pair known{arena(), lower_bound()};
    if (known == std::exchange(reported_, known) || !settings_.progress) return;
    settings_.progress(known.first, known.second);
  }

  [[nodiscard]] bool finished() const {
    if (interrupted_() || work() >= settings_.work_limit) return true;
    if (settings_.capacity && lower_bound() > *settings_.capacity) return true;
    return std::all_of(searches_.begin(), searches_.end(), [](const auto& search) { return search->finished(); });
  }

  [[nodiscard]] Bytes arena() const {
    Bytes arena;
    for (const auto& search : searches_) arena = std::max(arena, search->arena());
    return arena;
  }
  [[nodiscard]] Bytes lower_bound() const {
    Bytes bound;
    for (const auto& search : searches_) bound = std::max(bound, search->lower_bound());
    return bound;
  }
  [[nodiscard]] std::int64_t work() const {
    std::int64_t work = 0;
    for (const auto& search : searches_) work += search->work();
    return work;
  }

  [[nodiscard]] PlaceResult result() const {
    PlaceResult result{.arena = arena(), .lower_bound = lower_bound(), .work = work()};
    for (const auto& search : searches_) result.work += search->capacity_work();
    if (result.lower_bound > settings_.capacity.value_or(Bytes::max() - Bytes(1))) {
      result.status = PlacementStatus::infeasible;
      result.arena = Bytes();
      return result;
    }
    result.offsets.resize(buffers_.size());
    for (std::size_t i = 0; i < buffers_.size(); ++i) result.offsets[i] = buffers_[i].offset.value_or(Bytes());
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      for (std::size_t k = 0; k < parts_[p].items.size(); ++k) {
        result.offsets[parts_[p].items[k].buffer] = parts_[p].bytes(searches_[p]->offsets()[k]);
      }
    }
    if (settings_.capacity) {
      result.status = result.arena <= *settings_.capacity ? PlacementStatus::optimal : PlacementStatus::unknown;
    } else {
      result.status = result.arena <= result.lower_bound ? PlacementStatus::optimal : PlacementStatus::feasible;
    }
    ensure(placement_fault(buffers_, result.offsets).empty() && arena_of(buffers_, result.offsets) == result.arena,
           "placement: the search's offsets are not valid");
    return result;
  }

  std::span<const Buffer> buffers_;
  const PlaceSettings& settings_;
  const std::function<bool()>& interrupted_;
  std::vector<Part> parts_;
  std::vector<std::unique_ptr<PartSearch>> searches_;
  std::pair<Bytes, Bytes> reported_{};
};

}  // namespace
}  // namespace placement

PlaceResult place(std::span<const Buffer> buffers, const PlaceSettings& settings,
                  const std::function<bool()>& interrupted) {
  check_buffers(buffers);
  return placement::Placing(buffers, settings, interrupted).run();
}

}  // namespace remora
