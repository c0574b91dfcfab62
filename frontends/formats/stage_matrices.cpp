// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <ostream>
#include <string>

#include "frontends/formats/interchange.hpp"
#include "frontends/text/text.hpp"
#include "model/error.hpp"

namespace remora::interchange {
namespace {

template <class Tag>
std::size_t index(Id<Tag> id) {
  return static_cast<std::size_t>(std::int32_t{id});
}

/// How many outputs of every op are resident.
class ResidentOutputs {
 public:
  explicit ResidentOutputs(const Graph& graph)
      : graph_(graph),
        producer_(graph.tensors.size()),
        resident_(graph.tensors.size(), false),
        count_(graph.ops.size()) {
    for (std::size_t i = 0; i < graph.ops.size(); ++i) {
      for (const TensorId t : graph.ops[i].outputs) producer_[index(t)] = i;
    }
  }

  void run(const Step& step) {
    for (const TensorId t : graph_.ops[index(step.op)].outputs) {
      if (!resident_[index(t)]) ++count_[index(step.op)];
      resident_[index(t)] = true;
    }
    for (const TensorId t : step.free) {
      resident_[index(t)] = false;
      --count_[producer_[index(t)]];
    }
  }

  [[nodiscard]] std::vector<std::uint8_t> row() const {
    std::vector<std::uint8_t> row;
    row.reserve(count_.size());
    for (const int count : count_) row.push_back(count > 0 ? 1 : 0);
    return row;
  }

 private:
  const Graph& graph_;
  std::vector<std::size_t> producer_;
  std::vector<bool> resident_;
  std::vector<int> count_;
};

void check(const Graph& graph, const Schedule& schedule) {
  if (!schedule.has_schedule()) throw InputError("$.status", "holds no schedule: the search found none");
  if (schedule.order != OrderMode::input) {
    throw InputError("$.order", "is \"free\": only a schedule in staged form, order \"input\", has matrices R and S");
  }
  if (graph.ops.size() > kMaxMatrixOps) {
    throw InputError("", "the matrices R and S are written of at most " + std::to_string(kMaxMatrixOps) +
                             " ops, the graph has " + std::to_string(graph.ops.size()));
  }
}

void write_rows(std::ostream& out, char name, const StageMatrices::Matrix& matrix) {
  for (std::size_t stage = 0; stage < matrix.size(); ++stage) {
    std::string line = name + ("," + std::to_string(stage));
    line.reserve(line.size() + 2 * matrix[stage].size() + 1);
    for (const std::uint8_t entry : matrix[stage]) line += entry == 0 ? ",0" : ",1";
    out << line << '\n';
  }
}

}  // namespace

StageMatrices stage_matrices(const Graph& graph, const Schedule& schedule) {
  check(graph, schedule);
  const std::size_t n = graph.ops.size();
  StageMatrices matrices;
  matrices.computed.assign(n + 1, std::vector<std::uint8_t>(n, 0));
  matrices.retained.reserve(n + 1);
  ResidentOutputs outputs(graph);
  matrices.retained.push_back(outputs.row());
  for (const Step& step : schedule.steps) {
    const std::size_t stage = matrices.retained.size() - 1;
    matrices.computed[stage][index(step.op)] = 1;
    outputs.run(step);
    // First computes follow the input order, so the one that ends stage t is that of op t.
    if (index(step.op) == stage) matrices.retained.push_back(outputs.row());
  }
  return matrices;
}

void write_stage_matrices(std::ostream& out, const Graph& graph, const Schedule& schedule) {
  const StageMatrices matrices = stage_matrices(graph, schedule);
  out << "matrix,stage";
  for (const Op& op : graph.ops) out << ',' << text::csv_field(op.name);
  out << '\n';
  write_rows(out, 'R', matrices.computed);
  write_rows(out, 'S', matrices.retained);
}

}  // namespace remora::interchange
