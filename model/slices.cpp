// SPDX-License-Identifier: Apache-2.0
#include "model/slices.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <queue>
#include <string>
#include <unordered_set>
#include <utility>

#include "model/error.hpp"
#include "model/quote.hpp"
#include "model/slice_more.hpp"

namespace remora {
namespace {

/// The fate of a tensor.
enum class Fate : char {
  whole,      ///< no op of the region writes it
  internal,   ///< one tensor per slice
  assembled,  ///< slices write their rows into one storage
  summed      ///< slices add their terms up in one storage
};

/// The place of an op in a region.
struct Place {
  int part = -1;
  int index = -1;

  [[nodiscard]] bool valid() const { return part >= 0; }
};

/// The region, checked, with everything that is looked up in it.
class CheckedRegion {
 public:
  CheckedRegion(const Graph& graph, const Region& region)
      : graph_(graph),
        region_(region),
        places_(graph.ops.size()),
        producers_(producers_of(graph)),
        readers_(readers_of(graph)) {
    expect_one_mode(graph, "a graph in slices");
    find_places();
    fates_.assign(graph.tensors.size(), Fate::whole);
    for (const OpId v : ops()) {
      if (place(v).valid()) decide_fates(v);
    }
  }

  [[nodiscard]] const Graph& graph() const { return graph_; }
  [[nodiscard]] const Region& region() const { return region_; }
  [[nodiscard]] Ids<OpId> ops() const { return Ids<OpId>(graph_.ops.size()); }
  [[nodiscard]] Place place(OpId op) const { return places_[op]; }
  [[nodiscard]] OpId producer(TensorId tensor) const { return producers_[tensor]; }
  [[nodiscard]] std::span<const OpId> readers(TensorId tensor) const { return readers_[tensor]; }
  [[nodiscard]] Fate fate(TensorId tensor) const { return fates_[tensor]; }

  /// The axis of an op of the region.
  [[nodiscard]] const Axis& axis(OpId op) const {
    const auto [part, index] = places_[op];
    return graph_[op].axes[at(region_.parts[at(part)][at(index)].axis)];
  }

  [[nodiscard]] bool together(OpId a, OpId b) const { return places_[a].valid() && places_[a].part == places_[b].part; }

  /// True if the reader's slice needs no more than a slice of the tensor, which an op of the region writes.
  [[nodiscard]] bool agree(TensorId tensor, OpId reader) const {
    const Cut* written = cut_of(axis(producers_[tensor]), tensor);
    const Cut* read = places_[reader].valid() ? cut_of(axis(reader), tensor) : nullptr;
    return written != nullptr && read != nullptr && written->block() == read->block();
  }

  /// As many as there are: the smallest extent has an iteration for each.
  [[nodiscard]] int slices() const { return static_cast<int>(std::min<std::int64_t>(region_.slices, shortest_)); }

  /// The iterations of a slice, which no other slice has.
  [[nodiscard]] Range own(OpId op, int slice) const {
    const auto boundary = [&](int i) {
      const Wide shortest = Wide{shortest_} * i / slices();
      return static_cast<std::int64_t>(shortest * axis(op).extent / shortest_);
    };
    return {boundary(slice), boundary(slice + 1)};
  }

  [[noreturn]] void reject(OpId op, const std::string& fault) const { throw InputError(path(places_[op]), fault); }

  [[nodiscard]] std::string name(OpId op) const { return quote(graph_[op].name); }
  [[nodiscard]] std::string name(TensorId tensor) const { return quote(graph_[tensor].name); }

 private:
  static std::string path(Place place) {
    return "parts[" + std::to_string(place.part) + "][" + std::to_string(place.index) + "]";
  }

  void find_places() {
    if (region_.slices < 1) throw InputError("slices", "must be at least 1, but is " + std::to_string(region_.slices));
    for (std::size_t p = 0; p < region_.parts.size(); ++p) {
      if (region_.parts[p].empty()) throw InputError("parts[" + std::to_string(p) + "]", "has no ops");
      for (std::size_t i = 0; i < region_.parts[p].size(); ++i) {
        find_place({static_cast<int>(p), static_cast<int>(i)}, region_.parts[p][i]);
      }
    }
  }

  void find_place(Place place, const SlicedOp& sliced) {
    if (!sliced.op.valid() || sliced.op.index() >= graph_.ops.size()) {
      throw InputError(path(place), "no op has the number " + std::to_string(sliced.op));
    }
    const auto& axes = graph_[sliced.op].axes;
    if (sliced.axis < 0 || at(sliced.axis) >= axes.size()) {
      throw InputError(path(place), "the op " + name(sliced.op) + " has no axis " + std::to_string(sliced.axis));
    }
    if (places_[sliced.op].valid()) {
      throw InputError(path(place), "the op " + name(sliced.op) + " is " + path(places_[sliced.op]) + ", too");
    }
    places_[sliced.op] = place;
    const std::int64_t extent = axes[at(sliced.axis)].extent;
    shortest_ = shortest_ == 0 ? extent : std::min(shortest_, extent);
  }

  void decide_fates(OpId v) {
    for (const TensorId t : graph_[v].outputs) {
      const auto& sums = axis(v).sums;
      const bool is_summed = std::ranges::find(sums, t) != sums.end();
      const bool all_agree = std::ranges::all_of(readers_[t], [&](OpId r) { return agree(t, r); });
      fates_[t] = is_summed ? Fate::summed : all_agree && !graph_[t].keep ? Fate::internal : Fate::assembled;
      for (const OpId r : readers_[t]) {
        if (!together(v, r) || agree(t, r)) continue;
        reject(r, "the op " + name(r) + " needs all slices of " + name(t) + ", which " + name(v) +
                      " writes in the same part");
      }
    }
    for (const OpId earlier : graph_[v].after) {
      if (together(v, earlier)) {
        reject(v, "the op " + name(v) + " comes after " + name(earlier) + " of the same part (`after`)");
      }
    }
  }

  const Graph& graph_;
  const Region& region_;
  Table<OpId, Place> places_;
  Table<TensorId, OpId> producers_;
  Adjacency<TensorId, OpId> readers_;
  Table<TensorId, Fate> fates_;
  std::int64_t shortest_ = 0;
};

/// Parts and the ops that are in none, in an order in which they can run. A part comes where its last op stood, or
/// later.
class Units {
 public:
  explicit Units(const CheckedRegion& region)
      : region_(region), parts_(region.region().parts.size()), last_(parts_ + region.ops().size()) {
    const auto for_each_edge = [&](const auto& visit) {
      for (const OpId v : region.ops()) {
        const auto edge = [&](OpId from) {
          if (from.valid() && unit(from) != unit(v)) visit(unit(from), unit(v));
        };
        for (const TensorId t : region.graph()[v].inputs) edge(region.producer(t));
        for (const OpId earlier : region.graph()[v].after) edge(earlier);
      }
    };
    for (const OpId v : region.ops()) last_[unit(v)] = v;
    followers_ = Adjacency<std::size_t, std::size_t>(last_.size(), for_each_edge);
    waits_.assign(last_.size(), 0);
    for_each_edge([&](std::size_t, std::size_t to) { ++waits_[to]; });
  }

  /// `visit` gets the number of a part, and of an op that is in none; the other is none.
  template <class Visit>
  void for_each(const Visit& visit) {
    using Entry = std::pair<OpId, std::size_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
    const auto add = [&](std::size_t unit) {
      if (waits_[unit] == 0 && last_[unit].valid()) ready.emplace(last_[unit], unit);
    };
    for (std::size_t unit = 0; unit < last_.size(); ++unit) add(unit);
    while (!ready.empty()) {
      const auto [op, unit] = ready.top();
      ready.pop();
      if (unit < parts_) {
        visit(static_cast<int>(unit), OpId::none());
      } else {
        visit(-1, op);
      }
      for (const std::size_t next : followers_[unit]) {
        --waits_[next];
        add(next);
      }
    }
    for (std::size_t part = 0; part < parts_; ++part) {
      if (waits_[part] != 0) reject_cycle(part);
    }
    const bool all = std::all_of(waits_.begin(), waits_.end(), [](int count) { return count == 0; });
    if (!all) throw InputError("parts", "these parts need results of each other, so that none can run first");
  }

 private:
  [[nodiscard]] std::size_t unit(OpId op) const {
    const Place place = region_.place(op);
    return place.valid() ? at(place.part) : parts_ + op.index();
  }

  /// Throws if the part is on a cycle through ops that are not of it.
  void reject_cycle(std::size_t part) const {
    Table<OpId, bool> depends(region_.graph().ops.size(), false);
    for (const OpId v : region_.ops()) {
      const auto on = [&](OpId from) { return from.valid() && (unit(from) == part || depends[from]); };
      const Op& op = region_.graph()[v];
      OpId through;
      const auto look = [&](OpId from) {
        if (!on(from)) return;
        if (unit(v) != part) depends[v] = true;
        if (unit(from) != part) through = from;
      };
      for (const TensorId t : op.inputs) look(region_.producer(t));
      for (const OpId earlier : op.after) look(earlier);
      if (unit(v) == part && through.valid()) {
        region_.reject(v, "the op " + region_.name(v) + " needs " + region_.name(through) +
                              ", which needs another op of the same part");
      }
    }
  }

  const CheckedRegion& region_;
  std::size_t parts_;
  /// By unit: parts first, then ops. None for an op of a part.
  std::vector<OpId> last_;
  Adjacency<std::size_t, std::size_t> followers_;
  std::vector<int> waits_;
};

Range hull(Range a, Range b) {
  if (a.empty()) return b;
  if (b.empty()) return a;
  return {std::min(a.begin, b.begin), std::max(a.end, b.end)};
}

/// The bytes of a block that a range of iterations touches.
Range bytes_of(const Cut& cut, Range iterations) {
  const Range rows = rows_of(cut, iterations);
  return {rows.begin * cut.stride.count(), rows.end * cut.stride.count()};
}

/// The iterations of every op in every slice: its own, if others read the results, and those that its readers in the
/// region need.
class Iterations {
 public:
  explicit Iterations(const CheckedRegion& region)
      : region_(region), ranges_(region.ops().size()), are_own_(region.ops().size(), true) {
    const std::size_t count = region.ops().size();
    for (std::size_t i = count; i-- > 0;) {
      const OpId v(i);
      if (!region.place(v).valid()) continue;
      for (int slice = 0; slice < region.slices(); ++slice) {
        ranges_[v].push_back(find(v, slice));
        if (of(v, slice) != region.own(v, slice)) are_own_[v] = false;
      }
      check_once(v);
    }
  }

  [[nodiscard]] Range of(OpId op, int slice) const { return ranges_[op][at(slice)]; }

  /// True if each slice computes what no other slice does, and nothing else.
  [[nodiscard]] bool are_own(OpId op) const { return are_own_[op]; }

 private:
  [[nodiscard]] Range find(OpId v, int slice) const {
    const Range own = region_.own(v, slice);
    Range result;
    bool adds = false;
    for (const TensorId t : region_.graph()[v].outputs) {
      const Fate fate = region_.fate(t);
      adds = adds || fate == Fate::summed;
      if (fate != Fate::internal) result = hull(result, own);
    }
    for (const TensorId t : region_.graph()[v].outputs) {
      if (region_.fate(t) != Fate::summed) result = hull(result, needed(v, t, slice));
    }
    if (result.empty()) {
      const auto& outputs = region_.graph()[v].outputs;
      const bool is_read = std::ranges::any_of(outputs, [&](TensorId t) { return !region_.readers(t).empty(); });
      if (is_read) {
        region_.reject(v, "the op " + region_.name(v) + " has nothing to compute in slice " + std::to_string(slice) +
                              ": its readers there touch no row of its outputs");
      }
      result = own;
    }
    if (adds && result != own) {
      region_.reject(v, "the slices of " + region_.name(v) +
                            " overlap, because its readers have windows: it cannot add up a result");
    }
    return result;
  }

  void check_once(OpId v) const {
    const Op& op = region_.graph()[v];
    if (op.recompute && op.max_computes != 1) return;
    for (std::size_t slice = 1; slice < ranges_[v].size(); ++slice) {
      if (ranges_[v][slice].begin >= ranges_[v][slice - 1].end) continue;
      region_.reject(
          v, "the slices of " + region_.name(v) + " overlap, because its readers have windows: it may run only once");
    }
  }

  /// The iterations that write what the tensor's readers touch. Of an assembled tensor, earlier slices have written
  /// what comes before the slice's own rows.
  [[nodiscard]] Range needed(OpId v, TensorId t, int slice) const {
    const bool is_assembled = region_.fate(t) == Fate::assembled;
    Range bytes;
    for (const OpId reader : region_.readers(t)) {
      if (is_assembled && !region_.together(v, reader)) continue;
      bytes = hull(bytes, bytes_of(*cut_of(region_.axis(reader), t), of(reader, slice)));
    }
    if (bytes.empty()) return {};
    const Cut& cut = *cut_of(region_.axis(v), t);
    const std::int64_t unit = cut.stride.count() * cut.step;
    const Range iterations{bytes.begin / unit, quotient_up(bytes.end, unit)};
    return is_assembled ? Range{region_.own(v, slice).begin, iterations.end} : iterations;
  }

  const CheckedRegion& region_;
  Table<OpId, std::vector<Range>> ranges_;
  Table<OpId, bool> are_own_;
};

/// Names that are not taken.
class NewNames {
 public:
  template <class Things>
  explicit NewNames(const Things& things) {
    for (const auto& thing : things) taken_.insert(thing.name);
  }

  std::string of_slice(const std::string& name, int slice) {
    std::string result = name + "#" + std::to_string(slice);
    while (!taken_.insert(result).second) result += '\'';
    return result;
  }

 private:
  std::unordered_set<std::string> taken_;
};

/// part / whole of the amount, with the remainders of all parts added up.
std::int64_t share(std::int64_t amount, Range part, std::int64_t whole) {
  const auto up_to = [&](std::int64_t end) { return static_cast<std::int64_t>(Wide{amount} * end / whole); };
  return up_to(part.end) - up_to(part.begin);
}

/// Writes the new graph.
class Rewriting {
 public:
  Rewriting(const CheckedRegion& region, const SliceRun& run)
      : region_(region),
        run_(run),
        iterations_(region),
        tensors_(region.graph().tensors.size()),
        ops_(region.ops().size()) {}

  SlicedGraph result() {
    const Graph& old = region_.graph();
    result_.slices = region_.slices();
    result_.graph = {.name = old.name,
                     .fixed_memory = old.fixed_memory,
                     .recompute_allocates = old.recompute_allocates,
                     .meta = old.meta,
                     .extra = old.extra};
    add_tensors();
    NewNames names(old.ops);
    Units(region_).for_each([&](int part, OpId op) {
      if (part < 0) {
        add_whole(op);
      } else {
        add_part(part, names);
      }
    });
    for (const OpId v : result_.ops.ids()) name_ops(v);
    return std::move(result_);
  }

 private:
  void add_tensors() {
    const Graph& old = region_.graph();
    NewNames names(old.tensors);
    for (const TensorId t : tensors_.ids()) {
      const Fate fate = region_.fate(t);
      const int count = fate == Fate::whole ? 1 : result_.slices;
      for (int slice = 0; slice < count; ++slice) {
        const bool is_last = slice + 1 == count;
        Tensor tensor = old[t];
        TensorSource source{t, fate == Fate::whole ? -1 : slice, {}};
        if (fate == Fate::internal) {
          const OpId v = region_.producer(t);
          const Cut& cut = *cut_of(region_.axis(v), t);
          source.bytes = bytes_of(cut, iterations_.of(v, slice));
          tensor.size = Bytes(old[t].size.count() / cut.block().count() * source.bytes.size());
        }
        if (fate == Fate::internal || !is_last) tensor.name = names.of_slice(old[t].name, slice);
        tensor.keep = tensor.keep && is_last;
        tensors_[t].push_back(TensorId(result_.graph.tensors.size()));
        result_.graph.tensors.push_back(std::move(tensor));
        result_.tensors.push_back(source);
      }
    }
  }

  [[nodiscard]] TensorId complete(TensorId tensor) const { return tensors_[tensor].back(); }

  void add(OpId source, int slice, Range iterations, Op op) {
    ops_[source].push_back(result_.graph.add_op(std::move(op)));
    result_.ops.push_back({source, slice, iterations});
  }

  void add_whole(OpId v) {
    Op op = region_.graph()[v];
    for (TensorId& t : op.inputs) t = complete(t);
    for (TensorId& t : op.outputs) t = complete(t);
    for (InPlace& pair : op.in_place) pair = {complete(pair.output), complete(pair.input)};
    for (Axis& axis : op.axes) {
      for (Cut& cut : axis.cuts) cut.tensor = complete(cut.tensor);
      for (TensorId& t : axis.sums) t = complete(t);
    }
    add(v, -1, {}, std::move(op));
  }

  void add_part(int part, NewNames& names) {
    std::vector<OpId> ops;
    for (const SlicedOp& sliced : region_.region().parts[at(part)]) ops.push_back(sliced.op);
    std::ranges::sort(ops);
    for (int slice = 0; slice < result_.slices; ++slice) {
      for (const OpId v : ops) add(v, slice, iterations_.of(v, slice), slice_of(v, slice, names));
    }
  }

  /// Without what names other ops.
  Op slice_of(OpId v, int slice, NewNames& names) {
    Op op = region_.graph()[v];
    const Range iterations = iterations_.of(v, slice);
    op.name = names.of_slice(op.name, slice);
    op.axes.clear();
    const Axis& axis = region_.axis(v);
    op.workspace -= Bytes(axis.workspace.count() * (axis.extent - iterations.size()));
    if (op.duration > Duration()) {
      const std::int64_t own = share(op.duration.count(), iterations, axis.extent);
      op.duration = std::max({Duration(1), Duration(own), least_duration(v, iterations)}) + run_.overhead;
    }
    for (TensorId& t : op.inputs) {
      if (run_.copies) {
        const Bytes extra = copied(v, t, slice);
        op.workspace += extra;
        op.duration += traffic(extra);
      }
      t = read(v, t, slice);
    }
    op.in_place.clear();
    for (const InPlace& pair : region_.graph()[v].in_place) {
      const bool both = region_.fate(pair.output) == Fate::internal && region_.fate(pair.input) == Fate::internal;
      if (both) op.in_place.push_back({tensors_[pair.output][at(slice)], tensors_[pair.input][at(slice)]});
    }
    for (TensorId& t : op.outputs) {
      const TensorId written = tensors_[t][at(slice)];
      if (region_.fate(t) != Fate::internal) {
        take_over(op, v, t, slice);
        const Bytes extra = temporary(v, t, slice);
        if (run_.temporaries) op.workspace += extra;
        if (run_.temporaries || region_.fate(t) == Fate::summed) op.duration += traffic(extra);
      }
      t = written;
    }
    return op;
  }

  /// The version of an assembled or summed tensor takes over the storage of the one before; the first one that of an
  /// input which the op overwrites row by row. Later slices then find their rows of the input in the version before.
  void take_over(Op& op, OpId v, TensorId t, int slice) const {
    const auto& pairs = region_.graph()[v].in_place;
    const auto pair = std::ranges::find(pairs, t, &InPlace::output);
    const bool overwrites = pair != pairs.end() && overwrites_rows(v, *pair);
    const TensorId written = tensors_[t][at(slice)];
    if (slice == 0) {
      if (overwrites) op.in_place.push_back({written, complete(pair->input)});
      return;
    }
    const TensorId previous = tensors_[t][at(slice - 1)];
    if (overwrites) {
      std::ranges::replace(op.inputs, complete(pair->input), previous);
    } else {
      op.inputs.push_back(previous);
    }
    op.in_place.push_back({written, previous});
  }

  /// True if each slice reads, of an input that is there as a whole, the rows that it writes, and no other slice writes
  /// them.
  [[nodiscard]] bool overwrites_rows(OpId v, const InPlace& pair) const {
    const Graph& old = region_.graph();
    const bool is_whole =
        region_.fate(pair.input) == Fate::whole ||
        (region_.fate(pair.input) != Fate::internal && !region_.together(v, region_.producer(pair.input)));
    const Cut* written = cut_of(region_.axis(v), pair.output);
    const Cut* read = cut_of(region_.axis(v), pair.input);
    if (!is_whole || written == nullptr || read == nullptr || !iterations_.are_own(v)) return false;
    Cut same = *read;
    same.tensor = pair.output;
    return same == *written && old[pair.input].size == old[pair.output].size;
  }

  /// The time in which a slice reads what is not cut, and its share of the rest. An op that takes less time than all
  /// its bytes does not touch all of them, nor does a slice.
  [[nodiscard]] Duration least_duration(OpId v, Range iterations) const {
    if (run_.bandwidth <= Bytes()) return {};
    const Op& op = region_.graph()[v];
    const Axis& axis = region_.axis(v);
    Wide whole = 0;
    Wide cut = 0;
    for (const TensorId t : op.inputs) (cut_of(axis, t) != nullptr ? cut : whole) += region_.graph()[t].size.count();
    for (const TensorId t : op.outputs) cut += region_.graph()[t].size.count();
    if (whole == 0) return {};
    const Wide moved = whole + cut * iterations.size() / axis.extent;
    const auto by_bandwidth = moved / run_.bandwidth.count();
    return Duration(static_cast<std::int64_t>(std::min(by_bandwidth, op.duration.count() * moved / (whole + cut))));
  }

  /// The time to read and write the bytes, rounded up.
  [[nodiscard]] Duration traffic(Bytes bytes) const {
    if (run_.bandwidth <= Bytes()) return {};
    const Wide bandwidth = run_.bandwidth.count();
    const Wide most = Duration::max().count();
    return Duration(static_cast<std::int64_t>(std::min(quotient_up(2 * Wide{bytes.count()}, bandwidth), most)));
  }

  /// The tensor that the slice of the op reads for `t`.
  [[nodiscard]] TensorId read(OpId v, TensorId t, int slice) const {
    const Fate fate = region_.fate(t);
    if (fate == Fate::whole) return complete(t);
    const bool is_slice = fate == Fate::internal || region_.together(v, region_.producer(t));
    return is_slice ? tensors_[t][at(slice)] : complete(t);
  }

  /// Bytes that the slice reads of `t`, if there are more of it.
  [[nodiscard]] Bytes copied(OpId v, TensorId t, int slice) const {
    const Cut* const cut = cut_of(region_.axis(v), t);
    if (cut == nullptr) return {};
    const Range needed = bytes_of(*cut, iterations_.of(v, slice));
    Range resident{0, cut->block().count()};
    if (region_.fate(t) == Fate::internal) {
      const OpId producer = region_.producer(t);
      resident = bytes_of(*cut_of(region_.axis(producer), t), iterations_.of(producer, slice));
    }
    if (needed == resident) return {};
    return Bytes(region_.graph()[t].size.count() / cut->block().count() * needed.size());
  }

  [[nodiscard]] Bytes temporary(OpId v, TensorId t, int slice) const {
    const Bytes size = region_.graph()[t].size;
    if (region_.fate(t) == Fate::summed) return slice > 0 ? size : Bytes();
    const Cut& cut = *cut_of(region_.axis(v), t);
    return Bytes(size.count() / cut.block().count() * bytes_of(cut, iterations_.of(v, slice)).size());
  }

  void name_ops(OpId v) {
    Op& op = result_.graph[v];
    const int slice = result_.ops[v].slice;
    std::vector<OpId> after;
    for (const OpId earlier : op.after) after.insert(after.end(), ops_[earlier].begin(), ops_[earlier].end());
    op.after = std::move(after);
    if (!op.backward_of.valid()) return;
    const OpId forward = op.backward_of;
    if (!region_.place(forward).valid()) {
      op.backward_of = ops_[forward].front();
    } else {
      op.backward_of = slice < 0 ? OpId::none() : ops_[forward][at(slice)];
    }
  }

  const CheckedRegion& region_;
  SliceRun run_;
  Iterations iterations_;
  /// By tensor and op of the old graph.
  Table<TensorId, std::vector<TensorId>> tensors_;
  Table<OpId, std::vector<OpId>> ops_;
  SlicedGraph result_;
};

SlicedGraph unchanged(const Graph& graph) {
  SlicedGraph result{.graph = graph};
  for (const OpId v : Ids<OpId>(graph.ops.size())) result.ops.push_back({.op = v});
  for (const TensorId t : Ids<TensorId>(graph.tensors.size())) result.tensors.push_back({.tensor = t});
  return result;
}

/// The region in the graph that earlier regions have made of `graph`, in which its ops must be whole.
Region moved(const Graph& graph, const Region& region, const SlicedGraph& made) {
  Table<OpId, OpId> now(graph.ops.size());
  for (const OpId v : made.ops.ids()) {
    if (made.ops[v].slice < 0) now[made.ops[v].op] = v;
  }
  Region result = region;
  for (std::size_t p = 0; p < result.parts.size(); ++p) {
    for (std::size_t i = 0; i < result.parts[p].size(); ++i) {
      OpId& op = result.parts[p][i].op;
      if (!op.valid() || op.index() >= graph.ops.size()) continue;
      const std::string path = "parts[" + std::to_string(p) + "][" + std::to_string(i) + "]";
      if (!now[op].valid()) throw InputError(path, "the op " + quote(graph[op].name) + " is of an earlier region, too");
      op = now[op];
    }
  }
  return result;
}

}  // namespace

SlicedGraph slice(const Graph& graph, const Region& region, const SliceRun& run) {
  const CheckedRegion checked(graph, region);
  SlicedGraph result = Rewriting(checked, run).result();
  return result.slices > 1 ? std::move(result) : unchanged(graph);
}

SlicedGraph slice_more(const Graph& graph, const SlicedGraph& made, const Region& region, const SliceRun& run) {
  SlicedGraph next = slice(made.graph, moved(graph, region, made), run);
  for (OpSource& source : next.ops) {
    const OpSource earlier = made.ops[source.op];
    source = source.slice < 0 ? earlier : OpSource{earlier.op, source.slice, source.iterations};
  }
  for (TensorSource& source : next.tensors) {
    const TensorSource earlier = made.tensors[source.tensor];
    source = source.slice < 0 ? earlier : TensorSource{earlier.tensor, source.slice, source.bytes};
  }
  next.slices = std::max(next.slices, made.slices);
  return next;
}

SlicedGraph slice(const Graph& graph, std::span<const Region> regions, const SliceRun& run) {
  return slice_each(graph, regions, run, [](std::size_t, const SlicedGraph&) {});
}

SlicedGraph slice_each(const Graph& graph, std::span<const Region> regions, const SliceRun& run,
                       const std::function<void(std::size_t, const SlicedGraph&)>& look) {
  SlicedGraph result = unchanged(graph);
  for (std::size_t i = 0; i < regions.size(); ++i) {
    try {
      result = slice_more(graph, result, regions[i], run);
    } catch (const InputError& error) {
      throw InputError("regions[" + std::to_string(i) + "]." + error.place(), error.fault());
    }
    look(i, result);
  }
  return result;
}

}  // namespace remora
