// SPDX-License-Identifier: Apache-2.0
#include "tests/support/programs.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <set>
#include <utility>

#include "model/error.hpp"

namespace remora::test {
namespace {

int pick(std::mt19937& random, int least, int most) {
  return least + static_cast<int>(random() % static_cast<unsigned>(most - least + 1));
}

bool happens(std::mt19937& random, int percent) {
  return pick(random, 0, 99) < percent;
}

/// Writes a program op by op.
class ProgramBuilder {
 public:
  ProgramBuilder(std::mt19937& random, const RandomProgramOptions& options) : random_(random), options_(options) {}

  Program run() {
    program_.graph.name = "program";
    program_.graph.fixed_memory = Bytes(pick(random_, 0, 3));
    for (int i = pick(random_, 1, 2); i > 0; --i) {
      produced_.push_back(tensor({pick(random_, 1, largest()), pick(random_, 1, largest())}));
    }
    const int count = pick(random_, 1, options_.most_ops);
    for (int i = 0; i < count; ++i) add_random();
    keep_results();
    if (options_.extras) add_extras();
    return std::move(program_);
  }

 private:
  [[nodiscard]] int largest() const { return static_cast<int>(options_.largest); }

  TensorId tensor(Array shape) {
    constexpr std::array<int, 3> kItems = {1, 2, 4};
    shape.item = kItems[at(pick(random_, 0, 2))];
    const std::string name = "t" + std::to_string(program_.graph.tensors.size());
    program_.arrays.push_back(shape);
    return program_.graph.add_tensor(name, Bytes(shape.elements() * shape.item));
  }

  [[nodiscard]] const Array& array(TensorId t) const { return program_.arrays[t]; }

  [[nodiscard]] Cut by_rows(TensorId t) const {
    return {.tensor = t, .rows = array(t).rows, .stride = Bytes(array(t).columns * array(t).item)};
  }
  [[nodiscard]] Cut by_columns(TensorId t) const {
    return {.tensor = t, .rows = array(t).columns, .stride = Bytes(array(t).item)};
  }

  void add(std::string type, Kernel kernel, std::vector<TensorId> inputs, std::vector<TensorId> outputs,
           std::vector<Axis> axes) {
    const auto& loops = kernel.loops;
    const std::int64_t points = std::accumulate(loops.begin(), loops.end(), std::int64_t{1}, std::multiplies<>());
    produced_.insert(produced_.end(), outputs.begin(), outputs.end());
    program_.graph.add_op({.name = std::move(type) + std::to_string(program_.graph.ops.size()),
                           .duration = Duration(points),
                           .inputs = std::move(inputs),
                           .outputs = std::move(outputs),
                           .axes = std::move(axes)});
    program_.kernels.push_back(std::move(kernel));
  }

  /// The point's place in a loop.
  static std::function<std::int64_t(const Point&)> loop(std::size_t i) {
    return [i](const Point& point) { return point[i]; };
  }

  TensorId any() {
    return produced_[at(
        pick(random_, std::max(0, static_cast<int>(produced_.size()) - 3), static_cast<int>(produced_.size()) - 1))];
  }

  void add_random() {
    const TensorId x = any();
    switch (pick(random_, 0, 9)) {
      case 0:
        return add_product(x);
      case 1:
        return add_pointwise(x);
      case 2:
        return add_scale(x);
      case 3:
        return add_normalization(x);
      case 4:
        return add_reduction(x, happens(random_, 50));
      case 5:
        return add_window(x);
      case 6:
        return add_view(x);
      case 7:
        return add_transpose(x);
      case 8:
        return add_repeat(x);
      default:
        return add_two_results(x);
    }
  }

  void add_product(TensorId a) {
    const std::int64_t m = array(a).rows;
    const std::int64_t k = array(a).columns;
    TensorId b;
    for (const TensorId t : produced_) {
      if (array(t).rows == k && happens(random_, 50)) b = t;
    }
    if (!b.valid()) b = tensor({k, pick(random_, 1, largest())});
    const std::int64_t n = array(b).columns;
    const TensorId y = tensor({m, n});
    std::vector<Axis> axes = {{k, {by_columns(a), by_rows(b)}, {y}}};
    if (a == b) axes.front().cuts.clear();
    axes.push_back({m, {by_rows(a), by_rows(y)}, {}});
    axes.push_back({n, {by_columns(b), by_columns(y)}, {}});
    if (a == b) {
      axes[1].cuts.erase(axes[1].cuts.begin());
      axes[2].cuts.erase(axes[2].cuts.begin());
    }
    add("mm",
        {{m, n, k},
         [k, n](const Point& at, const Kernel::Read& read, const Kernel::Add& write) {
           write(0, at[0] * n + at[1], read(0, at[0] * k + at[2]) * read(1, at[2] * n + at[1]));
         },
         {loop(2), loop(0), loop(1)}},
        {a, b}, {y}, axes);
  }

  void add_pointwise(TensorId x) {
    TensorId other;
    for (const TensorId t : produced_) {
      if (array(t).rows == array(x).rows && array(t).columns == array(x).columns && happens(random_, 70)) other = t;
    }
    const std::int64_t n = array(x).columns;
    const TensorId y = tensor({array(x).rows, n});
    std::vector<TensorId> inputs = {x};
    Axis rows{array(x).rows, {by_rows(x), by_rows(y)}, {}};
    Axis columns{n, {by_columns(x), by_columns(y)}, {}};
    if (other.valid()) inputs.push_back(other);
    if (other.valid() && other != x) {
      rows.cuts.push_back(by_rows(other));
      columns.cuts.push_back(by_columns(other));
    }
    const bool two = inputs.size() == 2;
    add("add",
        {{array(x).rows, n},
         [n, two](const Point& at, const Kernel::Read& read, const Kernel::Add& write) {
           const std::int64_t element = at[0] * n + at[1];
           write(0, element, 3 * read(0, element) + (two ? read(1, element) : 1));
         },
         {loop(0), loop(1)}},
        inputs, {y}, {rows, columns});
  }

  void add_scale(TensorId x) {
    const std::int64_t n = array(x).columns;
    const TensorId v = tensor({1, n});
    const TensorId y = tensor({array(x).rows, n});
    add("scale",
        {{array(x).rows, n},
         [n](const Point& at, const Kernel::Read& read, const Kernel::Add& write) {
           write(0, at[0] * n + at[1], read(0, at[0] * n + at[1]) * read(1, at[1]));
         },
         {loop(0), loop(1)}},
        {x, v}, {y},
        {{array(x).rows, {by_rows(x), by_rows(y)}, {}}, {n, {by_columns(x), by_columns(v), by_columns(y)}, {}}});
  }

  /// Of rows: columns are not independent.
  void add_normalization(TensorId x) {
    const std::int64_t n = array(x).columns;
    const TensorId y = tensor({array(x).rows, n});
    add("normalize",
        {{array(x).rows, n},
         [n](const Point& at, const Kernel::Read& read, const Kernel::Add& write) {
           std::int64_t sum = 0;
           for (std::int64_t j = 0; j < n; ++j) sum += read(0, at[0] * n + j);
           write(0, at[0] * n + at[1], 2 * read(0, at[0] * n + at[1]) - sum);
         },
         {loop(0)}},
        {x}, {y}, {{array(x).rows, {by_rows(x), by_rows(y)}, {}}});
  }

  void add_reduction(TensorId x, bool over_rows) {
    const std::int64_t m = array(x).rows;
    const std::int64_t n = array(x).columns;
    const TensorId y = over_rows ? tensor({1, n}) : tensor({m, 1});
    std::vector<Axis> axes = {{m, {by_rows(x)}, {}}, {n, {by_columns(x)}, {}}};
    axes[over_rows ? 0 : 1].sums = {y};
    axes[over_rows ? 1 : 0].cuts.push_back(over_rows ? by_columns(y) : by_rows(y));
    add("sum",
        {{m, n},
         [n, over_rows](const Point& at, const Kernel::Read& read, const Kernel::Add& write) {
           write(0, over_rows ? at[1] : at[0], read(0, at[0] * n + at[1]));
         },
         {loop(0), loop(1)}},
        {x}, {y}, axes);
  }

  /// A convolution over rows.
  void add_window(TensorId x) {
    const std::int64_t m = array(x).rows;
    const std::int64_t n = array(x).columns;
    const std::int64_t stride = pick(random_, 1, 2);
    const std::int64_t taps = pick(random_, 1, 3);
    const std::int64_t dilation = pick(random_, 1, 2);
    const std::int64_t padding = pick(random_, 0, 2);
    const std::int64_t length = dilation * (taps - 1) + 1;
    if (m + 2 * padding < length) return add_pointwise(x);
    const std::int64_t rows = (m + 2 * padding - length) / stride + 1;
    const TensorId w = tensor({taps, 1});
    const TensorId y = tensor({rows, n});
    Cut window = by_rows(x);
    window.step = stride;
    window.offset = -padding;
    window.length = length;
    add("conv",
        {{rows, n, taps},
         [=](const Point& at, const Kernel::Read& read, const Kernel::Add& write) {
           const std::int64_t row = at[0] * stride - padding + at[2] * dilation;
           const bool padded = row < 0 || row >= m;
           write(0, at[0] * n + at[1], padded ? 0 : read(0, row * n + at[1]) * read(1, at[2]));
         },
         {loop(0), loop(1), loop(2)}},
        {x, w}, {y},
        {{rows, {window, by_rows(y)}, {}}, {n, {by_columns(x), by_columns(y)}, {}}, {taps, {by_rows(w)}, {y}}});
  }

  /// A view in memory of its own: the rows of either shape are rows of both.
  void add_view(TensorId x) {
    const std::int64_t all = array(x).elements();
    std::vector<std::int64_t> divisors;
    for (std::int64_t q = 1; q <= all; ++q) {
      if (all % q == 0) divisors.push_back(q);
    }
    const std::int64_t columns = divisors[at(pick(random_, 0, static_cast<int>(divisors.size()) - 1))];
    const TensorId y = tensor({all / columns, columns});
    Kernel kernel{{all}, [](const Point& at, const Kernel::Read& read, const Kernel::Add& write) {
                    write(0, at[0], read(0, at[0]));
                  }};
    std::vector<Axis> axes;
    for (const TensorId shaped : {x, y}) {
      for (const bool rows : {true, false}) {
        const std::int64_t extent = rows ? array(shaped).rows : array(shaped).columns;
        const std::int64_t width = rows ? array(shaped).columns : 1;
        axes.push_back({extent,
                        {{.tensor = x, .rows = extent, .stride = Bytes(width * array(x).item)},
                         {.tensor = y, .rows = extent, .stride = Bytes(width * array(y).item)}},
                        {}});
        kernel.iterations.emplace_back([=](const Point& at) { return at[0] / width % extent; });
      }
    }
    add("view", kernel, {x}, {y}, axes);
  }

  void add_transpose(TensorId x) {
    const std::int64_t m = array(x).rows;
    const std::int64_t n = array(x).columns;
    const TensorId y = tensor({n, m});
    add("transpose",
        {{m, n},
         [m, n](const Point& at, const Kernel::Read& read, const Kernel::Add& write) {
           write(0, at[1] * m + at[0], read(0, at[0] * n + at[1]));
         },
         {loop(0), loop(1)}},
        {x}, {y}, {{m, {by_rows(x), by_columns(y)}, {}}, {n, {by_columns(x), by_rows(y)}, {}}});
  }

  /// Each row twice: an iteration writes two rows.
  void add_repeat(TensorId x) {
    const std::int64_t n = array(x).columns;
    const TensorId y = tensor({2 * array(x).rows, n});
    Cut written = by_rows(y);
    written.step = 2;
    written.length = 2;
    add("repeat",
        {{array(x).rows, n, 2},
         [n](const Point& at, const Kernel::Read& read, const Kernel::Add& write) {
           write(0, (2 * at[0] + at[2]) * n + at[1], read(0, at[0] * n + at[1]) + at[2]);
         },
         {loop(0), loop(1)}},
        {x}, {y}, {{array(x).rows, {by_rows(x), written}, {}}, {n, {by_columns(x), by_columns(y)}, {}}});
  }

  /// One cut, one summed, as the backward op of a norm.
  void add_two_results(TensorId x) {
    const std::int64_t n = array(x).columns;
    const TensorId y = tensor({array(x).rows, n});
    const TensorId s = tensor({1, n});
    add("norm",
        {{array(x).rows, n},
         [n](const Point& at, const Kernel::Read& read, const Kernel::Add& write) {
           const std::int64_t value = read(0, at[0] * n + at[1]);
           write(0, at[0] * n + at[1], 5 - value);
           write(1, at[1], value);
         },
         {loop(0), loop(1)}},
        {x}, {y, s},
        {{array(x).rows, {by_rows(x), by_rows(y)}, {s}}, {n, {by_columns(x), by_columns(y), by_columns(s)}, {}}});
  }

  void keep_results() {
    std::set<TensorId> read;
    for (const Op& op : program_.graph.ops) read.insert(op.inputs.begin(), op.inputs.end());
    for (const Op& op : program_.graph.ops) {
      for (const TensorId t : op.outputs) program_.graph[t].keep = happens(random_, read.contains(t) ? 10 : 80);
    }
  }

  void add_extras() {
    for (const OpId v : program_.kernels.ids()) {
      Op& op = program_.graph[v];
      if (happens(random_, 20)) op.workspace = Bytes(pick(random_, 1, 9));
      for (Axis& axis : op.axes)
        axis.workspace = Bytes(op.workspace.count() / (axis.extent + op.workspace.count() % 2));
      if (happens(random_, 10)) op.recompute = false;
      if (happens(random_, 10)) op.max_computes = pick(random_, 1, 3);
      if (v > 0 && happens(random_, 10)) op.after.push_back(OpId(pick(random_, 0, v - 1)));
      if (happens(random_, 20)) op.in_place.push_back({op.outputs.front(), op.inputs.front()});
    }
  }

  std::mt19937& random_;
  const RandomProgramOptions& options_;
  Program program_;
  std::vector<TensorId> produced_;
};

}  // namespace

Program random_program(std::mt19937& random, const RandomProgramOptions& options) {
  return ProgramBuilder(random, options).run();
}

}  // namespace remora::test
