// SPDX-License-Identifier: Apache-2.0
#include "engine/devices/tree_search.hpp"

#include <algorithm>
#include <utility>

#include <gecode/int.hh>
#include <gecode/search.hh>

#include "engine/devices/propagators.hpp"
#include "model/error.hpp"

namespace remora::devices {
namespace {

using Gecode::ExecStatus;
using Gecode::Int::IntView;

/// So many bytes of keys are kept, about.
constexpr std::size_t kMaxKeyBytes = std::size_t{1} << 28U;
constexpr int kMaxMoves = 1 << 30;

class MoveChoice : public Gecode::Choice {
 public:
  MoveChoice(const Gecode::Brancher& brancher, std::vector<Move> next)
      : Choice(brancher, static_cast<unsigned int>(std::max<std::size_t>(1, next.size()))), moves(std::move(next)) {}

  /// None: a dead end.
  std::vector<Move> moves;
};

/// Takes the next move.
class MoveBrancher : public Gecode::Brancher {
 public:
  static void post(Gecode::Home home, Gecode::ViewArray<IntView>& views) { (void)new (home) MoveBrancher(home, views); }
  MoveBrancher(Gecode::Home home, Gecode::ViewArray<IntView>& views) : Brancher(home), views_(views) {}
  MoveBrancher(Gecode::Space& home, MoveBrancher& other) : Brancher(home, other) { views_.update(home, other.views_); }

  Gecode::Actor* copy(Gecode::Space& home) override { return new (home) MoveBrancher(home, *this); }

  bool status(const Gecode::Space& home) const override {
    const auto& space = static_cast<const Space&>(home);
    return !space.state().finished(space.context().instance);
  }

  const Gecode::Choice* choice(Gecode::Space& home) override {
    const auto& space = static_cast<const Space&>(home);
    const Instance& instance = space.context().instance;
    const State& state = space.state();
    std::vector<Move> moves =
        state.moves(instance, [&](OpId v, DeviceId d) { return views_[v].in(static_cast<int>(d)); });
    std::stable_sort(moves.begin(), moves.end(),
                     [&](const Move& a, const Move& b) { return rank(instance, state, a) < rank(instance, state, b); });
    return new MoveChoice(*this, std::move(moves));
  }

  const Gecode::Choice* choice(const Gecode::Space&, Gecode::Archive&) override {
    ensure(false, "devices: choices are not archived");
    return nullptr;
  }

  ExecStatus commit(Gecode::Space& home, const Gecode::Choice& choice, unsigned int alternative) override {
    auto& space = static_cast<Space&>(home);
    const auto& moves = static_cast<const MoveChoice&>(choice).moves;
    if (moves.empty()) return Gecode::ES_FAILED;
    const Move& move = moves[alternative];
    const bool first = move.kind == Move::Kind::run && space.state().runs(move.op) == 0;
    if (!space.state().apply(space.context().instance, move)) return Gecode::ES_FAILED;
    space.add(move);
    // Each alternative is committed once: every node of the tree is cloned (Engine).
    if (!space.state().releasing() && space.context().was_reached(space.state())) return Gecode::ES_FAILED;
    space.raise_least(0);
    if (first) GECODE_ME_CHECK(views_[move.op].eq(home, static_cast<int>(move.device)));
    return space.moved() ? Gecode::ES_OK : Gecode::ES_FAILED;
  }

 private:
  using Rank = std::pair<int, std::int64_t>;

  /// First runs, then what brings something to the next op, then releases of what is read last, then the rest.
  static Rank rank(const Instance& instance, const State& state, const Move& move) {
    const auto read_next = [&](TensorId t) {
      const auto& readers = instance.readers(t);
      const auto next = std::find_if(readers.begin(), readers.end(), [&](OpId v) { return v >= state.next(); });
      return next == readers.end() ? instance.op_count() : static_cast<int>(*next);
    };
    if (move.kind == Move::Kind::release) return {2, -read_next(move.tensor)};
    if (move.kind == Move::Kind::run) {
      const std::int64_t cost = instance.run_price(move.op, move.device);
      if (state.runs(move.op) == 0) return {0, cost};
      const auto& outputs = instance.op(move.op).outputs;
      const bool next =
          std::any_of(outputs.begin(), outputs.end(), [&](TensorId t) { return read_next(t) == state.next(); });
      return {next ? 1 : 3, cost};
    }
    return {read_next(move.tensor) == state.next() ? 1 : 3, instance.copy_price(move.tensor, move.to)};
  }

  Gecode::ViewArray<IntView> views_;
};

/// The path to a solution, with releases as parts of the steps before them.
std::vector<DeviceStep> steps_of(const DeviceGraph& graph, const MoveList* path) {
  std::vector<Move> moves;
  for (; path != nullptr; path = path->before.get()) moves.push_back(path->move);
  std::vector<DeviceStep> steps;
  for (std::size_t i = moves.size(); i-- > 0;) {
    const Move& move = moves[i];
    if (move.kind == Move::Kind::release) {
      steps.back().free.push_back({move.tensor, move.device});
      continue;
    }
    if (move.kind == Move::Kind::copy) {
      steps.push_back({.copied = move.tensor, .device = move.device, .to = move.to});
      continue;
    }
    steps.push_back({.op = move.op, .device = move.device});
    const auto& pairs = graph.graph[move.op].in_place;
    for (std::size_t pair = 0; pair < pairs.size(); ++pair) {
      if ((move.takes_over >> pair & 1U) != 0) steps.back().free.push_back({pairs[pair].input, move.device});
    }
  }
  return steps;
}

}  // namespace

Space::Space(Context& context)
    : context_(&context),
      devices_(*this, context.instance.op_count()),
      moves_(*this, 0, kMaxMoves),
      state_(context.instance) {
  const Instance& instance = context.instance;
  for (const DeviceId d : instance.graph().devices.ids()) {
    if (instance.base(d) > instance.budget(d)) fail();
  }
  for (const OpId v : instance.graph().runs.ids()) {
    std::vector<int> devices;
    for (const RunCost& run : instance.graph().runs[v]) {
      if (instance.has_room(v, run)) devices.push_back(run.device);
    }
    if (devices.empty()) {
      fail();
      devices.push_back(0);
    }
    devices_[v] = Gecode::IntVar(*this, Gecode::IntSet(devices.data(), static_cast<int>(devices.size())));
  }
  if (failed()) return;
  Gecode::Home home(*this);
  Gecode::ViewArray<IntView> views(*this, Gecode::IntVarArgs(devices_));
  GECODE_ES_FAIL(AssignmentCost::post(*this, views, moves_, {}));
  for (const DeviceId d : instance.graph().devices.ids()) {
    if (instance.problem().budget[d]) GECODE_ES_FAIL(Memory::post(*this, views, moves_, d));
  }
  MoveBrancher::post(*this, views);
  context.was_reached(state_);
}

class TreeSearch::Engine {
 public:
  Engine(const DeviceGraph& graph, const Problem& problem, std::function<bool()> interrupted)
      : context_(graph, problem), limit_(std::move(interrupted), context_) {
    Gecode::Search::Options options;
    options.threads = 1;
    options.clone = false;
    // No recomputation: a move is made once, so that no state is met twice on its own path.
    options.c_d = 1;
    options.stop = &limit_;
    engine_ = std::make_unique<Gecode::BAB<Space>>(new Space(context_), options);
  }

  const CompleteOutcome& advance(std::int64_t nodes) {
    if (outcome_.complete || outcome_.exhausted) return outcome_;
    limit_.allow(outcome_.nodes + nodes);
    for (;;) {
      const std::unique_ptr<Space> solution{engine_->next()};
      if (!solution) break;
      outcome_.steps = steps_of(context_.instance.graph(), solution->path());
      outcome_.cost = context_.spent(solution->state()).cost;
      context_.below = std::min(context_.below, outcome_.cost);
    }
    outcome_.complete = !engine_->stopped();
    outcome_.exhausted = limit_.full();
    outcome_.nodes = static_cast<std::int64_t>(engine_->statistics().node);
    return outcome_;
  }

  void require_below(std::int64_t cost) { context_.below = std::min(context_.below, cost); }

 private:
  class Limit : public Gecode::Search::Stop {
   public:
    Limit(std::function<bool()> interrupted, const Context& context)
        : interrupted_(std::move(interrupted)), context_(context) {}

    void allow(std::int64_t nodes) { nodes_ = nodes; }
    [[nodiscard]] bool full() const { return context_.key_bytes >= kMaxKeyBytes; }

    bool stop(const Gecode::Search::Statistics& statistics, const Gecode::Search::Options&) override {
      if (full() || static_cast<std::int64_t>(statistics.node) >= nodes_) return true;
      return interrupted_ && interrupted_();
    }

   private:
    std::function<bool()> interrupted_;
    const Context& context_;
    /// Since the beginning of the search.
    std::int64_t nodes_ = 0;
  };

  Context context_;
  Limit limit_;
  std::unique_ptr<Gecode::BAB<Space>> engine_;
  CompleteOutcome outcome_;
};

TreeSearch::TreeSearch(const DeviceGraph& graph, const Problem& problem, std::function<bool()> interrupted)
    : engine_(std::make_unique<Engine>(graph, problem, std::move(interrupted))) {}
TreeSearch::~TreeSearch() = default;

const CompleteOutcome& TreeSearch::advance(std::int64_t nodes) {
  return engine_->advance(nodes);
}

void TreeSearch::require_below(std::int64_t cost) {
  engine_->require_below(cost);
}

}  // namespace remora::devices
