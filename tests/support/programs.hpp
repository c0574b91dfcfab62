// SPDX-License-Identifier: Apache-2.0
//
// Small programs on integers, and their interpreter: the truth about slices (model/slices.hpp).
//
// Every op is a nest of loops whose body adds to elements of its outputs. Its axes are written down next to the body,
// as a front end's table has them. The interpreter runs the points of a slice's iterations and notices each element
// that a slice reads and does not have. It counts storages: what runs allocate, take over and release.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "model/graph.hpp"
#include "model/slices.hpp"
#include "model/table.hpp"
#include "model/types.hpp"

namespace remora::test {

/// The loops of an op, outermost first.
using Point = std::vector<std::int64_t>;

struct Kernel {
  using Read = std::function<std::int64_t(int input, std::int64_t element)>;
  /// Adds to the element, which is 0 before.
  using Add = std::function<void(int output, std::int64_t element, std::int64_t value)>;

  /// The extents of the loops.
  std::vector<std::int64_t> loops{};
  std::function<void(const Point&, const Read&, const Add&)> body{};
  /// By axis of the op: the iteration that a point belongs to.
  std::vector<std::function<std::int64_t(const Point&)>> iterations{};
};

struct Array {
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  /// Bytes of an element.
  std::int64_t item = 1;

  [[nodiscard]] std::int64_t elements() const { return rows * columns; }
};

/// The duration of an op is the number of its points.
struct Program {
  Graph graph{};
  Table<OpId, Kernel> kernels{};
  Table<TensorId, Array> arrays{};
};

struct RandomProgramOptions {
  int most_ops = 6;
  std::int64_t largest = 6;
  /// Workspaces, limits, ops that run once, order-only edges, storage taken over.
  bool extras = true;
};

/// Products, sums, windows, views, transposes, normalizations, ...; some results are kept.
Program random_program(std::mt19937& random, const RandomProgramOptions& options = {});

/// What the interpreter saw.
struct Execution {
  /// Memory at each step, everything included.
  std::vector<Bytes> memory{};
  Bytes peak{};
  /// Points that ran.
  Duration duration{};
  /// By tensor of the program; empty if it is not resident at the end.
  Table<TensorId, std::vector<std::int64_t>> values{};
  /// The first fault, such as an element that is missing; empty if there is none.
  std::string fault{};
};

/// Runs a sequence of the ops of a sliced graph of the program in which every input comes before its readers. Each run
/// reads the latest results, which stay until the last such run; `keep` tensors stay to the end.
Execution execute(const Program& program, const SlicedGraph& sliced, const Region& region, bool temporaries,
                  std::span<const OpId> sequence);

/// The values of all tensors, computed op by op.
Table<TensorId, std::vector<std::int64_t>> values_of(const Program& program);

/// True if the region's slices are independent by the axes, decided edge by edge and by reachability; but for sums
/// whose slices would overlap.
bool is_independent(const Graph& graph, const Region& region);

/// Every region of one or two parts: each op in none or in a part, along one of its axes. For small graphs.
std::vector<Region> all_regions(const Graph& graph, int parts, int slices);

/// A region that grows from a random op over tensors on which neighbors agree; sometimes in two parts.
Region random_region(std::mt19937& random, const Graph& graph, int slices);

}  // namespace remora::test
