// SPDX-License-Identifier: Apache-2.0
#include "engine/order/order_within.hpp"

#include <algorithm>
#include <tuple>

#include "engine/order/peak_bound.hpp"
#include "model/error.hpp"

namespace remora {

OrderCursor::OrderCursor(const OrderProblem& problem, OrderEnd end)
    : problem_(problem),
      end_(end),
      places_(problem.node_count()),
      taken_((at(problem.node_count()) + 63) / 64),
      resident_(problem.base_memory()) {
  const int nodes = problem.node_count();
  running_.reserve(nodes);
  leaves_.reserve(nodes);
  waiting_.reserve(nodes);
  for (int i = 0; i < problem.node_count(); ++i) {
    const NodeId node(i);
    leaves_.push_back(leaving(problem, node));
    running_.push_back(running(problem, node));
    waiting_.push_back(static_cast<int>(needs(node).size()));
    if (waiting_.back() != 0) continue;
    places_[node] = ready_.size();
    ready_.push_back(node);
  }
  unread_.reserve(problem.buffer_count());
  for (int b = 0; b < problem.buffer_count(); ++b) {
    const BufferId buffer(b);
    const bool from_first = end == OrderEnd::first;
    if (from_first ? !problem.writer(buffer).valid() : problem.keep(buffer)) resident_ += problem.size(buffer);
    unread_.push_back((problem.keep(buffer) ? 1 : 0) +
                      (from_first ? static_cast<int>(problem.readers(buffer).size()) : 0));
  }
}

Bytes OrderCursor::read_last(NodeId node, int unread) const {
  Bytes bytes;
  for (const BufferId buffer : problem_.reads(node)) {
    if (unread_[buffer] == unread) bytes += problem_.size(buffer);
  }
  return bytes;
}

OrderCursor::Step OrderCursor::step(NodeId node) const {
  const Bytes leaves = leaves_[node];
  const Bytes running = running_[node];
  if (end_ == OrderEnd::first) return {resident_ + leaves - read_last(node, 1), resident_ + running};
  const Bytes before = resident_ - leaves + read_last(node, 0);
  return {before, before + running};
}

void OrderCursor::take(NodeId node) {
  resident_ = step(node).left;
  for (const BufferId buffer : problem_.reads(node)) {
    unread_[buffer] += end_ == OrderEnd::first ? -1 : 1;
  }
  taken_[node.index() / 64] |= std::uint64_t{1} << (node.index() % 64);
  const std::size_t place = places_[node];
  ready_[place] = ready_.back();
  places_[ready_[place]] = place;
  ready_.pop_back();
  for (const NodeId later : freed_by(node)) {
    if (--waiting_[later] != 0) continue;
    places_[later] = ready_.size();
    ready_.push_back(later);
  }
}

void OrderCursor::undo(NodeId node) {
  for (const NodeId later : freed_by(node)) {
    if (waiting_[later]++ == 0) ready_.pop_back();
  }
  const std::size_t place = places_[node];
  if (place == ready_.size()) {
    ready_.push_back(node);
  } else {
    ready_.push_back(ready_[place]);
    places_[ready_.back()] = ready_.size() - 1;
    ready_[place] = node;
  }
  taken_[node.index() / 64] &= ~(std::uint64_t{1} << (node.index() % 64));
  const Bytes leaves = leaves_[node];
  for (const BufferId buffer : problem_.reads(node)) {
    unread_[buffer] += end_ == OrderEnd::first ? 1 : -1;
  }
  if (end_ == OrderEnd::first) {
    resident_ += read_last(node, 1) - leaves;
  } else {
    resident_ += leaves - read_last(node, 0);
  }
}

namespace {

/// A set of sets of nodes, each a row of words of one length, by open addressing; nothing is ever taken out.
class NodeSets {
 public:
  /// `width`: words a set.
  explicit NodeSets(std::size_t width) : width_(width), slots_(1024, kEmpty) {}

  [[nodiscard]] std::size_t bytes() const { return 8 * words_.size() + 4 * slots_.size(); }

  [[nodiscard]] bool contains(std::span<const std::uint64_t> set) const { return slots_[find(set)] != kEmpty; }

  void insert(std::span<const std::uint64_t> set) {
    if (2 * (count_ + 1) > slots_.size()) grow();
    const std::size_t slot = find(set);
    if (slots_[slot] != kEmpty) return;
    slots_[slot] = static_cast<std::uint32_t>(count_++);
    words_.insert(words_.end(), set.begin(), set.end());
  }

 private:
  static constexpr std::uint32_t kEmpty = 0xffffffffU;

  /// Its slot, or the empty one where it belongs.
  [[nodiscard]] std::size_t find(std::span<const std::uint64_t> set) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t slot = hash(set) & mask;
    while (slots_[slot] != kEmpty) {
      const std::span<const std::uint64_t> other = at(slots_[slot]);
      if (std::equal(set.begin(), set.end(), other.begin())) break;
      slot = (slot + 1) & mask;
    }
    return slot;
  }

  [[nodiscard]] std::span<const std::uint64_t> at(std::size_t index) const {
    return std::span<const std::uint64_t>(words_).subspan(index * width_, width_);
  }

  static std::size_t hash(std::span<const std::uint64_t> set) {
    std::uint64_t mixed = 0;
    for (const std::uint64_t word : set) {
      mixed = (mixed ^ word) * 0x9e3779b97f4a7c15ULL;
      mixed ^= mixed >> 29U;
    }
    return static_cast<std::size_t>(mixed);
  }

  void grow() {
    slots_.assign(2 * slots_.size(), kEmpty);
    for (std::size_t i = 0; i < count_; ++i) slots_[find(at(i))] = static_cast<std::uint32_t>(i);
  }

  std::size_t width_;
  std::size_t count_ = 0;
  std::vector<std::uint32_t> slots_;
  std::vector<std::uint64_t> words_;
};

/// Looking at so many ready nodes is as much as running one.
constexpr std::int64_t kReadyOfWork = 64;
/// Memory for failed sets and for open ones.
constexpr std::size_t kMaxFailedBytes = std::size_t{1} << 28U;

class OrderWithin {
 public:
  OrderWithin(const OrderProblem& problem, Bytes limit, OrderEnd end)
      : problem_(problem),
        limit_(limit),
        end_(end),
        cursor_(problem, end),
        before_(problem.node_count(), end == OrderEnd::last),
        least_resident_(problem),
        failed_(cursor_.words().size()),
        least_(Bytes::max()) {}

  WithinResult run(std::int64_t work_limit, const std::function<bool()>& interrupted) {
    using Answer = WithinResult::Answer;
    WithinResult result;
    push(NodeId::none());
    arrive();
    while (!frames_.empty() && frames_.size() <= at(problem_.node_count())) {
      const bool over = work_ >= work_limit || (interrupted && look(interrupted));
      if (over || failed_.bytes() + sizeof(NodeId) * candidates_.size() > kMaxFailedBytes) {
        result.answer = over ? Answer::out_of_work : Answer::out_of_memory;
        result.work = work_;
        return result;
      }
      Frame& frame = frames_.back();
      if (frame.next == candidates_.size()) {
        fail();
      } else {
        const NodeId node = candidates_[frame.next++];
        push(node);
        arrive();
      }
    }
    result.work = work_;
    result.answer = frames_.empty() ? Answer::none : Answer::found;
    result.least = least_;
    if (!frames_.empty()) result.order = nodes_above(0);
    if (end_ == OrderEnd::last) std::reverse(result.order.begin(), result.order.end());
    return result;
  }

 private:
  /// A set on the path: the previous one and a node.
  struct Frame {
    NodeId node{};
    Bytes resident{};
    /// The lowest frame that this one settles: if this one fails, all from there on do. Its own place if none.
    std::size_t settles = 0;
    /// Where its candidates begin, up to those of the next frame; and the next one to try.
    std::size_t first = 0;
    std::size_t next = 0;
    /// True if the set is worth remembering if it fails.
    bool branches = false;
  };

  /// The result of running a node next; the smallest is tried first.
  struct Candidate {
    Bytes left{};
    Bytes needed{};
    NodeId node{};
    friend bool operator<(const Candidate& a, const Candidate& b) {
      return std::tuple(a.left, a.needed, -std::int32_t{a.node}) < std::tuple(b.left, b.needed, -std::int32_t{b.node});
    }
  };

  /// The clock is asked now and then only.
  bool look(const std::function<bool()>& interrupted) {
    if (work_ + looks_ < next_look_) return false;
    next_look_ = work_ + looks_ + 1024;
    return interrupted();
  }

  void push(NodeId node) {
    if (node.valid()) {
      cursor_.take(node);
      before_[node] = end_ == OrderEnd::first;
      ++work_;
    }
    frames_.push_back({node, cursor_.resident(), frames_.size(), candidates_.size(), candidates_.size()});
  }

  void pop() {
    const Frame& frame = frames_.back();
    candidates_.resize(frame.first);
    if (frame.node.valid()) {
      cursor_.undo(frame.node);
      before_[frame.node] = end_ == OrderEnd::last;
    }
    frames_.pop_back();
    while (!open_.empty() && open_.back() >= frames_.size()) open_.pop_back();
  }

  /// The last frame's set cannot reach the end, nor can those that it settles.
  void fail() {
    const std::size_t lowest = frames_.back().settles;
    while (frames_.size() > lowest) {
      if (frames_.back().branches) failed_.insert(cursor_.words());
      pop();
    }
  }

  void arrive() {
    settle();
    open_.push_back(frames_.size() - 1);
    list_candidates();
  }

  /// The open frames' residents increase, so the lowest with no less than the last frame is the one to settle.
  void settle() {
    for (;;) {
      const Bytes here = frames_.back().resident;
      const auto first = std::partition_point(open_.begin(), open_.end(),
                                              [&](std::size_t frame) { return frames_[frame].resident < here; });
      if (first == open_.end()) return;
      const std::size_t settled = *first;
      const std::vector<NodeId> nodes = nodes_above(settled);
      if (!is_chain(nodes) && go_lower(settled, nodes)) continue;
      frames_.back().settles = frames_[settled].settles;
      open_.erase(first, open_.end());
      return;
    }
  }

  std::vector<NodeId> nodes_above(std::size_t frame) const {
    std::vector<NodeId> nodes;
    nodes.reserve(frames_.size() - frame - 1);
    for (std::size_t i = frame + 1; i < frames_.size(); ++i) nodes.push_back(frames_[i].node);
    return nodes;
  }

  /// Then the only sets between are those on the path, and those have more resident.
  bool is_chain(const std::vector<NodeId>& nodes) const {
    for (std::size_t i = 1; i < nodes.size(); ++i) {
      const auto earlier = cursor_.needs(nodes[i]);
      if (std::find(earlier.begin(), earlier.end(), nodes[i - 1]) == earlier.end()) return false;
    }
    return true;
  }

  /// If some set between has less resident than the last frame's: goes there instead.
  bool go_lower(std::size_t settled, const std::vector<NodeId>& nodes) {
    const bool from_first = end_ == OrderEnd::first;
    work_ += static_cast<std::int64_t>(nodes.size());
    for (const NodeId node : nodes) before_[node] = false;
    const LeastResident::Choice choice = least_resident_.find(before_, nodes);
    for (const NodeId node : nodes) before_[node] = from_first;
    // From the last node, the chosen ones are those that are not taken.
    const Bytes least = frames_[from_first ? settled : frames_.size() - 1].resident + choice.change;
    if (least == frames_.back().resident) return false;
    while (frames_.size() > settled + 1) pop();
    auto chosen = choice.nodes.begin();
    for (const NodeId node : nodes) {
      const bool is_chosen = chosen != choice.nodes.end() && *chosen == node;
      if (is_chosen) ++chosen;
      if (is_chosen != from_first) continue;
      ensure(cursor_.step(node).needed <= limit_, "order_within: the lower set cannot be reached");
      push(node);
    }
    ensure(frames_.back().resident == least, "order_within: the lower set is not as low as said");
    return true;
  }

  void list_candidates() {
    listed_.clear();
    looks_ += static_cast<std::int64_t>(cursor_.ready().size());
    work_ += static_cast<std::int64_t>(cursor_.ready().size()) / kReadyOfWork;
    for (const NodeId node : cursor_.ready()) {
      const OrderCursor::Step step = cursor_.step(node);
      if (step.needed > limit_) {
        least_ = std::min(least_, step.needed);
      } else {
        listed_.push_back({step.left, step.needed, node});
      }
    }
    if (listed_.empty()) return;
    std::sort(listed_.begin(), listed_.end());
    // It will settle this frame, so no other is needed.
    if (listed_.front().left <= cursor_.resident()) {
      candidates_.push_back(listed_.front().node);
      return;
    }
    if (failed_.contains(cursor_.words())) return;
    frames_.back().branches = true;
    for (const Candidate& candidate : listed_) candidates_.push_back(candidate.node);
  }

  const OrderProblem& problem_;
  const Bytes limit_;
  const OrderEnd end_;
  OrderCursor cursor_;
  /// The nodes before the place where the cursor is.
  Table<NodeId, bool> before_;
  LeastResident least_resident_;
  NodeSets failed_;
  Bytes least_;
  std::vector<Frame> frames_;
  std::vector<std::size_t> open_;
  std::vector<NodeId> candidates_;
  std::vector<Candidate> listed_;
  std::int64_t work_ = 0;
  /// Nodes that were ready, each time.
  std::int64_t looks_ = 0;
  std::int64_t next_look_ = 0;
};

}  // namespace

WithinResult order_within(const OrderProblem& problem, Bytes limit, OrderEnd end, std::int64_t work_limit,
                          const std::function<bool()>& interrupted) {
  return OrderWithin(problem, limit, end).run(work_limit, interrupted);
}

}  // namespace remora
