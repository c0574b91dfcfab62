// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <string>
#include <unordered_map>

#include "engine/groups/block.hpp"
#include "model/table.hpp"

namespace remora {
namespace {

/// A block's description: everything that its problem depends on, as a string of numbers, but for the schedules of its
/// children; and which classes these are of.
class Description {
 public:
  explicit Description(const Instance& instance) : instance_(instance) {}

  void describe(const Block& block, const std::vector<int>& class_of, std::size_t unit_count) {
    text_.clear();
    child_classes_.clear();
    for (const BlockTensor& tensor : block.tensors) {
      add(static_cast<std::int64_t>(tensor.role));
      add(tensor.size.count());
      add(tensor.keep ? 1 : 0);
    }
    for (const BlockOp& op : block.ops) {
      add(static_cast<std::int64_t>(op.kind));
      add(op.child);
      if (op.kind == BlockOp::Kind::op) add_op(op.op);
      add_all(op.inputs);
      add_all(op.outputs);
      add_all(op.after);
    }
    for (std::size_t child = 0; child < block.children.size(); ++child) {
      add(number_of(class_of[at(block.children[child]) - unit_count]));
      add_all(block.interfaces[child]);
    }
  }

  [[nodiscard]] const std::string& text() const { return text_; }
  /// Each once, in the order in which children of them first appear.
  [[nodiscard]] const std::vector<int>& child_classes() const { return child_classes_; }
  /// Text and classes: equal for blocks of one class and no others.
  [[nodiscard]] std::string whole() {
    const std::size_t length = text_.size();
    add_all(child_classes_);
    std::string whole = text_;
    text_.resize(length);
    return whole;
  }

 private:
  int number_of(int child_class) {
    const auto found = std::find(child_classes_.begin(), child_classes_.end(), child_class);
    const auto number = static_cast<int>(found - child_classes_.begin());
    if (found == child_classes_.end()) child_classes_.push_back(child_class);
    return number;
  }

  void add(std::int64_t number) {
    text_.append(reinterpret_cast<const char*>(&number), sizeof number);  // NOLINT: bytes of a number
  }
  void add_all(const std::vector<int>& numbers) {
    add(static_cast<std::int64_t>(numbers.size()));
    for (const int number : numbers) add(number);
  }
  void add_op(OpId id) {
    const Op& op = instance_.graph().ops[at(id)];
    add(static_cast<std::int64_t>(op.type.size()));
    text_ += op.type;
    add(op.duration.count());
    add(op.workspace.count());
    add((op.recompute ? 1 : 0) + (op.in_place.empty() ? 0 : 2));
    add(op.max_computes.value_or(0));
    if (!op.in_place.empty()) add_in_place(id, op);
  }

  /// By position among the op's outputs and inputs.
  void add_in_place(OpId id, const Op& op) {
    const auto inputs = instance_.inputs(id);
    add(static_cast<std::int64_t>(op.in_place.size()));
    for (const InPlace& pair : op.in_place) {
      add(std::find(op.outputs.begin(), op.outputs.end(), pair.output) - op.outputs.begin());
      add(std::find(inputs.begin(), inputs.end(), pair.input) - inputs.begin());
    }
  }

  const Instance& instance_;
  std::string text_;
  std::vector<int> child_classes_;
};

}  // namespace

BlockClasses classify(const Instance& instance, const std::vector<Block>& blocks, std::size_t unit_count,
                      const std::function<bool()>& interrupted) {
  BlockClasses classes;
  classes.class_of.reserve(blocks.size());
  Description description(instance);
  std::unordered_map<std::string, int> seen;
  for (std::size_t b = 0; b < blocks.size() && !(interrupted && interrupted()); ++b) {
    description.describe(blocks[b], classes.class_of, unit_count);
    const auto [found, is_new] = seen.try_emplace(description.whole(), static_cast<int>(classes.representative.size()));
    classes.class_of.push_back(found->second);
    if (!is_new) continue;
    int height = 0;
    for (const int child : blocks[b].children) {
      height = std::max(height, 1 + classes.height[at(classes.class_of[at(child) - unit_count])]);
    }
    classes.representative.push_back(static_cast<int>(b));
    classes.description.push_back(description.text());
    classes.child_classes.push_back(description.child_classes());
    classes.height.push_back(height);
  }
  return classes;
}

}  // namespace remora
