// SPDX-License-Identifier: Apache-2.0
#include "model/axes.hpp"

#include <algorithm>
#include <string>
#include <string_view>

#include "model/error.hpp"
#include "model/graph.hpp"
#include "model/quote.hpp"

namespace remora {

const Cut* cut_of(const Axis& axis, TensorId tensor) {
  const auto found = std::ranges::find(axis.cuts, tensor, &Cut::tensor);
  return found == axis.cuts.end() ? nullptr : &*found;
}

Range rows_of(const Cut& cut, Range iterations) {
  const std::int64_t begin = iterations.begin * cut.step + cut.offset;
  const std::int64_t end = (iterations.end - 1) * cut.step + cut.offset + cut.length;
  return {std::clamp(begin, std::int64_t{0}, cut.rows), std::clamp(end, std::int64_t{0}, cut.rows)};
}

namespace {

bool contains(const std::vector<TensorId>& list, TensorId tensor) {
  return std::ranges::find(list, tensor) != list.end();
}

/// One axis of one op.
class AxisChecker {
 public:
  AxisChecker(const Graph& graph, const Op& op, const Axis& axis, std::string path)
      : graph_(graph), op_(op), axis_(axis), path_(std::move(path)) {}

  void run() const {
    check_number(".extent", axis_.extent, 1);
    check_workspace();
    for (std::size_t i = 0; i < axis_.cuts.size(); ++i) check_cut(i);
    for (std::size_t i = 0; i < axis_.sums.size(); ++i) check_sum(i);
    for (const TensorId t : op_.outputs) {
      if (cut_of(axis_, t) != nullptr || contains(axis_.sums, t)) continue;
      fail("", "the output " + name(t) + " of the op " + quote(op_.name) + " is neither cut nor summed");
    }
  }

 private:
  [[noreturn]] void fail(const std::string& key, const std::string& fault) const {
    throw InputError(path_ + key, fault);
  }

  [[nodiscard]] std::string name(TensorId tensor) const { return quote(graph_[tensor].name); }

  void check_number(const std::string& key, std::int64_t number, std::int64_t smallest) const {
    if (number >= smallest && number <= kMaxAxisNumber) return;
    fail(key, "must be from " + std::to_string(smallest) + " to " + std::to_string(kMaxAxisNumber) + ", but is " +
                  std::to_string(number));
  }

  void check_tensor(const std::string& key, TensorId tensor) const {
    if (!tensor.valid() || tensor.index() >= graph_.tensors.size()) {
      fail(key, "no tensor has the number " + std::to_string(tensor));
    }
  }

  void check_workspace() const {
    const std::int64_t each = axis_.workspace.count();
    if (each >= 0 && each <= op_.workspace.count() / axis_.extent) return;
    fail(".workspace", std::to_string(axis_.extent) + " iterations of " + std::to_string(each) +
                           " bytes do not fit in the workspace of the op " + quote(op_.name) + ", " +
                           std::to_string(op_.workspace.count()) + " bytes");
  }

  void check_cut(std::size_t i) const {
    const Cut& cut = axis_.cuts[i];
    const std::string key = ".cut[" + std::to_string(i) + "]";
    check_tensor(key + ".tensor", cut.tensor);
    const bool is_output = contains(op_.outputs, cut.tensor);
    if (!is_output && !contains(op_.inputs, cut.tensor)) {
      fail(key + ".tensor", name(cut.tensor) + " is no tensor of the op " + quote(op_.name));
    }
    if (cut_of(axis_, cut.tensor) != &cut) fail(key + ".tensor", name(cut.tensor) + " is cut twice");
    check_number(key + ".rows", cut.rows, 1);
    check_number(key + ".step", cut.step, 1);
    check_number(key + ".offset", cut.offset, -kMaxAxisNumber);
    check_number(key + ".length", cut.length, 1);
    check_blocks(key, cut);
    if (is_output) check_output(key, cut);
  }

  void check_blocks(const std::string& key, const Cut& cut) const {
    const std::int64_t size = graph_[cut.tensor].size.count();
    const std::int64_t stride = cut.stride.count();
    if (size > 0 && stride > 0 && stride <= size / cut.rows && size % (cut.rows * stride) == 0) return;
    fail(key, name(cut.tensor) + " of " + std::to_string(size) + " bytes does not consist of blocks of " +
                  std::to_string(cut.rows) + " rows of " + std::to_string(stride) + " bytes");
  }

  void check_output(const std::string& key, const Cut& cut) const {
    if (cut.offset != 0 || cut.length != cut.step) {
      fail(key, "the output " + name(cut.tensor) + " cannot have a window: offset 0, length = step");
    }
    if (cut.rows <= axis_.extent * cut.step && cut.rows > (axis_.extent - 1) * cut.step) return;
    fail(key + ".rows", "the output " + name(cut.tensor) + " has " + std::to_string(cut.rows) + " rows, but " +
                            std::to_string(axis_.extent) + " iterations write " + std::to_string(cut.step) + " each");
  }

  void check_sum(std::size_t i) const {
    const TensorId tensor = axis_.sums[i];
    const std::string key = ".sum[" + std::to_string(i) + "]";
    check_tensor(key, tensor);
    if (!contains(op_.outputs, tensor)) fail(key, name(tensor) + " is no output of the op " + quote(op_.name));
    if (cut_of(axis_, tensor) != nullptr) fail(key, name(tensor) + " is cut, too");
    if (std::ranges::find(axis_.sums, tensor) - axis_.sums.begin() != static_cast<std::ptrdiff_t>(i)) {
      fail(key, name(tensor) + " is summed twice");
    }
  }

  const Graph& graph_;
  const Op& op_;
  const Axis& axis_;
  std::string path_;
};

}  // namespace

void check_axes(const Graph& graph, const Op& op, const std::string& path) {
  for (std::size_t i = 0; i < op.axes.size(); ++i) {
    AxisChecker(graph, op, op.axes[i], path + ".axes[" + std::to_string(i) + "]").run();
  }
}

}  // namespace remora
