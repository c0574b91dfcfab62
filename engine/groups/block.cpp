// SPDX-License-Identifier: Apache-2.0
#include "engine/groups/block.hpp"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

#include "engine/baselines/chains/block_chain.hpp"
#include "model/error.hpp"
#include "model/table.hpp"

namespace remora {
namespace {

using Kind = BlockOp::Kind;
using Role = BlockTensor::Role;

/// Builds one block after the other, children first; the tables by op and tensor are valid where their stamp is the
/// present group's.
class BlockBuilder {
 public:
  BlockBuilder(const Instance& instance, const Partition& partition)
      : instance_(instance),
        partition_(partition),
        units_(at(partition.unit_count())),
        forward_ops_(forward_part(instance).value_or(instance.op_count())),
        part_(at(instance.op_count()), -1),
        local_(at(instance.tensor_count()), kUnseen),
        local_stamp_(at(instance.tensor_count()), -1),
        ops_of_group_(partition.nodes.size() - units_),
        faces_(ops_of_group_.size()) {
    for (const Op& op : instance.graph().ops) has_after_ = has_after_ || !op.after.empty();
  }

  std::vector<Block> run(const std::function<bool()>& interrupted) {
    std::vector<Block> blocks;
    blocks.reserve(faces_.size());
    for (std::size_t group = 0; group < faces_.size() && !(interrupted && interrupted()); ++group) {
      blocks.push_back(build(group));
      faces_[group] = face_of(blocks.back());
    }
    return blocks;
  }

 private:
  static constexpr int kUnseen = -1;

  struct Part {
    BlockOp op{};
    bool backward = false;
    std::vector<TensorId> reads{};
    std::vector<TensorId> makes{};
  };

  Block build(std::size_t group) {
    group_ = static_cast<int>(group);
    is_root_ = static_cast<int>(units_ + group) == partition_.root();
    block_ = {};
    parts_.clear();
    has_backward_.clear();
    ops_.clear();
    first_forward_ = OpId(instance_.op_count());
    for (const int child : partition_.nodes[units_ + group].children) {
      if (at(child) < units_) {
        add_unit(partition_.units.units[at(child)]);
      } else {
        add_group(at(child) - units_);
      }
    }
    place_parts();
    connect();
    for (const int op : ops_) part_[at(op)] = -1;
    for (const int child : block_.children) std::vector<int>().swap(ops_of_group_[at(child) - units_]);
    ops_of_group_[group] = std::move(ops_);
    return std::move(block_);
  }

  void add_op(OpId op, bool backward) {
    Part part;
    part.op = {.kind = Kind::op, .op = op};
    part.backward = backward;
    const auto inputs = instance_.inputs(op);
    const auto outputs = instance_.outputs(op);
    part.reads.assign(inputs.begin(), inputs.end());
    part.makes.assign(outputs.begin(), outputs.end());
    claim(op, static_cast<int>(parts_.size()));
    if (!backward) first_forward_ = std::min(first_forward_, op);
    parts_.push_back(std::move(part));
  }

  void add_unit(const Unit& unit) {
    add_op(unit.op, false);
    for (const OpId op : unit.backward) add_op(op, true);
  }

  void add_group(std::size_t group) {
    const Face& face = faces_[group];
    const int child = static_cast<int>(block_.children.size());
    block_.children.push_back(static_cast<int>(units_ + group));
    const int forward = static_cast<int>(parts_.size());
    parts_.push_back({{.kind = Kind::forward_half, .child = child}, false, face.forward_reads, face.forward_makes});
    OpId first_forward(instance_.op_count());
    OpId first_backward(instance_.op_count());
    for (const int op : ops_of_group_[group]) {
      OpId& first = is_backward(op) ? first_backward : first_forward;
      first = std::min(first, OpId(op));
      claim(OpId(op), forward + (is_backward(op) ? 1 : 0));
    }
    parts_.back().op.op = first_forward;
    first_forward_ = std::min(first_forward_, first_forward);
    has_backward_.push_back(first_backward < instance_.op_count());
    if (!has_backward_.back()) return;
    parts_.push_back({{.kind = Kind::backward_half, .op = first_backward, .child = child},
                      true,
                      face.backward_reads,
                      face.backward_makes});
  }

  [[nodiscard]] bool is_backward(int op) const { return op >= forward_ops_; }

  void claim(OpId op, int part) {
    part_[at(op)] = part;
    ops_.push_back(op);
  }

  /// Puts the parts in a topological order, by their first op where there is a choice; local ops follow.
  void place_parts() {
    std::vector<std::vector<int>> later(parts_.size());
    std::vector<int> waits(parts_.size(), 0);
    const auto order = [&](int before, int after) {
      if (before < 0 || before == after) return;
      later[at(before)].push_back(after);
      ++waits[at(after)];
    };
    for (int p = 0; p < static_cast<int>(parts_.size()); ++p) {
      const BlockOp& op = parts_[at(p)].op;
      if (op.kind == Kind::backward_half) order(p - 1, p);
      for (const TensorId t : parts_[at(p)].reads) order(part_[at(instance_.producer(t))], p);
    }
    if (has_after_) {
      for_each_after([&](int before, int after) { order(before, after); });
    }
    using Entry = std::pair<int, int>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
    for (int p = 0; p < static_cast<int>(parts_.size()); ++p) {
      if (waits[at(p)] == 0) ready.emplace(parts_[at(p)].op.op, p);
    }
    order_.clear();
    order_.reserve(parts_.size());
    while (!ready.empty()) {
      const int p = ready.top().second;
      ready.pop();
      order_.push_back(p);
      for (const int q : later[at(p)]) {
        if (--waits[at(q)] == 0) ready.emplace(parts_[at(q)].op.op, q);
      }
    }
    ensure(order_.size() == parts_.size(), "block: a group of the partition is not convex");
  }

  template <class Visit>
  void for_each_after(Visit visit) const {
    for (const int op : ops_) {
      for (const OpId before : instance_.graph().ops[at(op)].after) {
        if (part_[at(before)] >= 0) visit(part_[at(before)], part_[at(op)]);
      }
    }
  }

  /// Local ops and tensors, in the order of the parts.
  void connect() {
    const bool halves =
        !is_root_ && std::any_of(parts_.begin(), parts_.end(), [](const Part& p) { return p.backward; });
    if (!is_root_) block_.enter = add_local({.kind = Kind::enter});
    std::vector<int> local_op(parts_.size(), -1);
    std::vector<int> phantom(block_.children.size(), -1);
    for (const int p : order_) {
      Part& part = parts_[at(p)];
      if (halves && part.backward && block_.away < 0) add_away();
      local_op[at(p)] = add_local(std::move(part.op));
      const int local = local_op[at(p)];
      for (const TensorId t : part.reads) read(t, local, part.backward);
      for (const TensorId t : part.makes) make(t, local);
      add_phantom(local, phantom);
      BlockOp& op = block_.ops[at(local)];
      if (op.outputs.empty()) op.outputs.push_back(add_tensor({.role = Role::token, .keep = part.backward}));
    }
    if (has_after_) add_after(local_op);
    finish_interfaces();
  }

  int add_local(BlockOp op) {
    block_.ops.push_back(std::move(op));
    return static_cast<int>(block_.ops.size()) - 1;
  }

  int add_tensor(BlockTensor tensor) {
    block_.tensors.push_back(tensor);
    return static_cast<int>(block_.tensors.size()) - 1;
  }

  void add_away() {
    block_.leave = add_local({.kind = Kind::leave});
    const int token = add_tensor({.role = Role::token});
    block_.ops[at(block_.leave)].outputs.push_back(token);
    for (int t = 0; t < token; ++t) {
      if (block_.tensors[at(t)].role == Role::output) block_.ops[at(block_.leave)].inputs.push_back(t);
    }
    block_.away = add_local({.kind = Kind::away, .inputs = {token}});
    block_.ops[at(block_.away)].outputs.push_back(add_tensor({.role = Role::token}));
  }

  void add_phantom(int local, std::vector<int>& phantom) {
    BlockOp& op = block_.ops[at(local)];
    if (op.kind == Kind::backward_half) op.inputs.push_back(phantom[at(op.child)]);
    if (op.kind != Kind::forward_half || !has_backward_[at(op.child)]) return;
    const int t = add_tensor({.role = Role::phantom});
    phantom[at(op.child)] = t;
    block_.ops[at(local)].outputs.push_back(t);
  }

  /// A tensor that comes into sight where it is read: made outside the block, or seen before.
  void read(TensorId t, int local, bool backward) {
    int seen = local_of(t);
    if (seen == kUnseen) {
      seen = set_local(t, add_tensor({.role = Role::input, .tensor = t, .size = instance_.size(t)}));
      const bool from_before = !backward || block_.away < 0 || instance_.producer(t) < first_forward_;
      block_.ops[at(from_before ? block_.enter : block_.away)].outputs.push_back(seen);
    }
    block_.ops[at(local)].inputs.push_back(seen);
  }

  /// A tensor that the part makes; what only one child touches is not among `makes`.
  void make(TensorId t, int local) {
    bool outside = instance_.keep(t);
    for (const OpId user : instance_.users(t)) outside = outside || part_[at(user)] < 0;
    BlockTensor tensor{.role = Role::inner, .tensor = t, .size = instance_.size(t)};
    if (is_root_) {
      tensor.keep = instance_.keep(t);
    } else if (outside) {
      tensor.role = Role::output;
      // Without halves, or made by the backward half, it is what the problem ends with.
      tensor.keep = block_.away >= 0 || !has_backward_parts();
    }
    const int made = set_local(t, add_tensor(tensor));
    block_.ops[at(local)].outputs.push_back(made);
  }

  [[nodiscard]] bool has_backward_parts() const { return parts_[at(order_.back())].backward; }

  [[nodiscard]] int local_of(TensorId t) const { return local_stamp_[at(t)] == group_ ? local_[at(t)] : kUnseen; }
  int set_local(TensorId t, int local) {
    local_stamp_[at(t)] = group_;
    return local_[at(t)] = local;
  }

  void add_after(const std::vector<int>& local_op) {
    for_each_after([&](int before, int after) {
      if (before != after) block_.ops[at(local_op[at(after)])].after.push_back(local_op[at(before)]);
    });
    for (BlockOp& op : block_.ops) {
      std::sort(op.after.begin(), op.after.end());
      op.after.erase(std::unique(op.after.begin(), op.after.end()), op.after.end());
    }
  }

  void finish_interfaces() {
    block_.interfaces.reserve(block_.children.size());
    for (const int child : block_.children) {
      std::vector<int> locals;
      locals.reserve(faces_[at(child) - units_].all.size());
      for (const TensorId t : faces_[at(child) - units_].all) locals.push_back(local_of(t));
      block_.interfaces.push_back(std::move(locals));
    }
    if (block_.enter >= 0 && block_.ops[at(block_.enter)].outputs.empty()) {
      block_.ops[at(block_.enter)].outputs.push_back(add_tensor({.role = Role::token}));
    }
  }

  const Instance& instance_;
  const Partition& partition_;
  std::size_t units_;
  int forward_ops_;
  bool has_after_ = false;
  std::vector<int> part_;
  std::vector<int> local_;
  std::vector<int> local_stamp_;
  std::vector<std::vector<int>> ops_of_group_;
  std::vector<Face> faces_;

  int group_ = 0;
  bool is_root_ = false;
  Block block_;
  std::vector<Part> parts_;
  /// By child group.
  std::vector<bool> has_backward_;
  std::vector<int> order_;
  std::vector<int> ops_;
  OpId first_forward_{};
};

}  // namespace

std::vector<int> Block::interface() const {
  std::vector<int> result;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    if (tensors[t].is_interface()) result.push_back(static_cast<int>(t));
  }
  return result;
}

int position_in(const std::vector<int>& interface, int tensor) {
  const auto found = std::lower_bound(interface.begin(), interface.end(), tensor);
  return found != interface.end() && *found == tensor ? static_cast<int>(found - interface.begin()) : -1;
}

std::vector<Block> make_blocks(const Instance& instance, const Partition& partition,
                               const std::function<bool()>& interrupted) {
  return BlockBuilder(instance, partition).run(interrupted);
}

namespace {

using Role = BlockTensor::Role;

}  // namespace

Face face_of(const Block& block) {
  Face face;
  std::vector<bool> forward(block.tensors.size(), false);
  const int boundary = block.has_halves() ? block.leave : static_cast<int>(block.ops.size());
  std::vector<bool> read_forward(block.tensors.size(), false);
  for (int o = 0; o < boundary; ++o) {
    for (const int t : block.ops[at(o)].inputs) read_forward[at(t)] = true;
    for (const int t : block.ops[at(o)].outputs) forward[at(t)] = true;
  }
  for (const int t : block.interface()) {
    const BlockTensor& tensor = block.tensors[at(t)];
    face.all.push_back(tensor.tensor);
    if (tensor.role == Role::input) {
      if (read_forward[at(t)]) face.forward_reads.push_back(tensor.tensor);
      if (block.has_halves()) face.backward_reads.push_back(tensor.tensor);
    } else if (forward[at(t)]) {
      face.forward_makes.push_back(tensor.tensor);
      if (block.has_halves()) face.backward_reads.push_back(tensor.tensor);
    } else {
      face.backward_makes.push_back(tensor.tensor);
    }
  }
  return face;
}

}  // namespace remora
