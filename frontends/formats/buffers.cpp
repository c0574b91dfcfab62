// SPDX-License-Identifier: Apache-2.0
#include "frontends/formats/buffers.hpp"

#include <algorithm>
#include <cstddef>
#include <ostream>
#include <utility>

#include "frontends/text/text.hpp"
#include "model/error.hpp"

namespace remora::interchange {
namespace {

/// Follows the written steps.
class Replay {
 public:
  Replay(const Graph& graph, const Schedule& schedule)
      : graph_(graph),
        schedule_(schedule),
        resident_since_(graph.tensors.size(), kAbsent),
        residences_(graph.tensors.size(), 0),
        computes_(graph.ops.size(), 0) {}

  std::vector<Buffer> run() {
    const auto end = static_cast<std::int64_t>(schedule_.steps.size());
    std::fill(resident_since_.begin(), resident_since_.end(), 0);
    for (const Op& op : graph_.ops) {
      for (const TensorId t : op.outputs) resident_since_[index(t)] = kAbsent;
    }
    for (std::int64_t step = 0; step < end; ++step) run_step(step);
    for (std::size_t t = 0; t < graph_.tensors.size(); ++t) {
      if (resident_since_[t] != kAbsent) close(TensorId(t), end);
    }
    std::stable_sort(buffers_.begin(), buffers_.end(),
                     [](const Buffer& a, const Buffer& b) { return a.first_step < b.first_step; });
    return std::move(buffers_);
  }

 private:
  static constexpr std::int64_t kAbsent = -1;

  template <class Tag>
  static std::size_t index(Id<Tag> id) {
    return static_cast<std::size_t>(std::int32_t{id});
  }

  void run_step(std::int64_t step) {
    const Step& written = schedule_.steps[static_cast<std::size_t>(step)];
    const Op& op = graph_.ops[index(written.op)];
    for (const TensorId t : op.outputs) {
      if (resident_since_[index(t)] == kAbsent) resident_since_[index(t)] = step;
    }
    const std::int64_t compute = computes_[index(written.op)]++;
    add(op.name + "#" + std::to_string(compute) + " workspace", step, step + 1, op.workspace);
    for (const TensorId t : written.free) close(t, step + 1);
  }

  /// The tensor's residence ends before `end`.
  void close(TensorId t, std::int64_t end) {
    const Tensor& tensor = graph_.tensors[index(t)];
    const std::int64_t first = std::exchange(resident_since_[index(t)], kAbsent);
    add(tensor.name + "#" + std::to_string(residences_[index(t)]++), first, end, tensor.size);
  }

  void add(std::string id, std::int64_t first, std::int64_t end, Bytes size) {
    if (size == Bytes() || first == end) return;
    buffers_.push_back({.id = std::move(id), .first_step = first, .end_step = end, .size = size});
  }

  const Graph& graph_;
  const Schedule& schedule_;
  /// Of every tensor, or kAbsent.
  std::vector<std::int64_t> resident_since_;
  std::vector<std::int64_t> residences_;
  std::vector<std::int64_t> computes_;
  std::vector<Buffer> buffers_;
};

}  // namespace

std::vector<Buffer> buffers_of(const Graph& graph, const Schedule& schedule) {
  if (!schedule.has_schedule()) throw InputError("$.status", "there is no schedule in it, only that none was found");
  return Replay(graph, schedule).run();
}

void write_minimalloc(std::ostream& out, const Graph& graph, const Schedule& schedule) {
  const std::vector<Buffer> buffers = buffers_of(graph, schedule);
  out << "id,lower,upper,size\n";
  for (const Buffer& buffer : buffers) {
    out << text::csv_field(buffer.id) << ',' << buffer.first_step << ',' << buffer.end_step << ','
        << buffer.size.count() << '\n';
  }
}

}  // namespace remora::interchange
