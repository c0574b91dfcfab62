// SPDX-License-Identifier: Apache-2.0
#include "frontends/hlo/repeat.hpp"

#include <algorithm>

#include "frontends/formats/wire.hpp"
#include "frontends/hlo/draft.hpp"
#include "model/error.hpp"
#include "model/quote.hpp"

namespace remora::hlo {
namespace {

constexpr int kTruthType = 1;
/// In the state of the loop: its counter and the number at which it ends.
constexpr std::size_t kOwn = 2;

class RepeatWriter {
 public:
  RepeatWriter(const Module& module, const Dataflow& dataflow, Copies& copies, const LoopPair& pair)
      : module_(module),
        dataflow_(dataflow),
        copies_(copies),
        pair_(pair),
        source_(module.computations[pair.forward.body]),
        root_(source_.instructions[source_.root]),
        needed_(source_.instructions.size()) {}

  RepeatedLoop add(const std::vector<std::size_t>& carried) {
    loop_.leaves = carried;
    std::vector<std::size_t> open{part_of(root_.operands, pair_.counter)};
    for (const std::size_t leaf : carried) open.push_back(part_of(root_.operands, leaf));
    follow(std::move(open));
    const std::vector<std::string> all =
        parts_of(shape_of(module_.computations[pair_.computation()].instructions[pair_.forward.instruction]));
    loop_.shapes.assign(kOwn, part_of(all, pair_.counter));
    for (const std::size_t leaf : loop_.leaves) loop_.shapes.push_back(part_of(all, leaf));
    loop_.body = write_body();
    loop_.condition = write_condition();
    return std::move(loop_);
  }

 private:
  /// Marks what these instructions of F's body need, of one iteration and of those before.
  void follow(std::vector<std::size_t> open) {
    while (!open.empty()) {
      const std::size_t i = open.back();
      open.pop_back();
      if (needed_[i]) continue;
      needed_[i] = true;
      const Instruction& instruction = source_.instructions[i];
      if (instruction.opcode == "parameter") cannot("the state of the loop is read as a whole");
      if (has_effect(module_, instruction)) cannot(quote(instruction.name) + " may run only once");
      if (!is_element(instruction)) {
        open.insert(open.end(), instruction.operands.begin(), instruction.operands.end());
        continue;
      }
      const auto leaf = static_cast<std::size_t>(instruction.tuple_index);
      if (leaf == pair_.counter || std::find(loop_.leaves.begin(), loop_.leaves.end(), leaf) != loop_.leaves.end())
        continue;
      loop_.leaves.push_back(leaf);
      if (!is_at_hand(module_, dataflow_, pair_, leaf)) open.push_back(part_of(root_.operands, leaf));
    }
  }

  [[noreturn]] void cannot(const std::string& why) const {
    throw InputError(
        "loop " + quote(module_.computations[pair_.computation()].instructions[pair_.forward.instruction].name), why);
  }

  [[nodiscard]] bool is_element(const Instruction& one) const {
    return one.opcode == "get-tuple-element" && source_.instructions[part_of(one.operands, 0)].opcode == "parameter";
  }

  /// Its parameter, and an element of it for each of the first `count` leaves. Gives the ids of the elements.
  std::vector<std::int64_t> put_state(WrittenComputation& written, std::size_t count) {
    std::string fields = new_fields("parameter", tuple_of(loop_.shapes));
    wire::put_number(fields, instruction_field::parameter_number, 0);
    const std::int64_t parameter = put(written, "parameter", std::move(fields), {});
    std::vector<std::int64_t> elements;
    for (std::size_t leaf = 0; leaf < count; ++leaf) {
      std::string element = new_fields("get-tuple-element", loop_.shapes[leaf]);
      wire::put_number(element, instruction_field::tuple_index, leaf);
      elements.push_back(put(written, "get-tuple-element", std::move(element), {parameter}));
    }
    return elements;
  }

  std::int64_t put(WrittenComputation& written, const std::string& name, std::string fields,
                   std::vector<std::int64_t> operands) {
    const std::int64_t id = copies_.fresh().instruction(written.id);
    written.copies.push_back(
        {.name = copies_.fresh().name(name), .id = id, .operands = std::move(operands), .fields = std::move(fields)});
    return id;
  }

  WrittenComputation begun(std::size_t source) {
    const std::string& name = module_.computations[source].name;
    return {.source = source,
            .place = pair_.backward.body,
            .name = copies_.fresh().name(name),
            .id = copies_.fresh().computation()};
  }

  std::int64_t write_body() {
    WrittenComputation written = begun(pair_.forward.body);
    const std::vector<std::int64_t> elements = put_state(written, loop_.shapes.size());
    const auto place_of = [&](std::size_t leaf) {
      const auto found = std::find(loop_.leaves.begin(), loop_.leaves.end(), leaf);
      return leaf == pair_.counter ? 0 : kOwn + static_cast<std::size_t>(found - loop_.leaves.begin());
    };
    std::vector<std::int64_t> ids(source_.instructions.size());
    const auto all = [&](const std::vector<std::size_t>& places) {
      std::vector<std::int64_t> found;
      for (const std::size_t one : places) {
        if (needed_[one]) found.push_back(ids[one]);
      }
      return found;
    };
    for (const std::size_t i : source_.order) {
      if (!needed_[i]) continue;
      const Instruction& instruction = source_.instructions[i];
      if (is_element(instruction)) {
        ids[i] = elements[place_of(static_cast<std::size_t>(instruction.tuple_index))];
        continue;
      }
      ids[i] = copies_.fresh().instruction(written.id);
      written.copies.push_back({.instruction = i,
                                .name = copies_.fresh().name(instruction.name),
                                .id = ids[i],
                                .operands = all(instruction.operands),
                                .control_predecessors = all(instruction.control_predecessors),
                                .called = copies_.called_by(instruction, pair_.backward.body)});
    }
    std::vector<std::int64_t> next{ids[root_.operands[pair_.counter]], elements[1]};
    for (const std::size_t leaf : loop_.leaves) {
      const bool is_same = is_at_hand(module_, dataflow_, pair_, leaf);
      next.push_back(is_same ? elements[place_of(leaf)] : ids[root_.operands[leaf]]);
    }
    written.root_id = put(written, "tuple", new_fields("tuple", tuple_of(loop_.shapes)), std::move(next));
    copies_.added.push_back(std::move(written));
    return copies_.added.back().id;
  }

  std::int64_t write_condition() {
    WrittenComputation written = begun(pair_.forward.condition);
    std::vector<std::int64_t> numbers = put_state(written, kOwn);
    ArrayShape truth(loop_.shapes[0]);
    truth.type = kTruthType;
    std::string fields = new_fields("compare", truth.bytes());
    wire::put_bytes(fields, instruction_field::comparison, "LT");
    written.root_id = put(written, "compare", std::move(fields), std::move(numbers));
    copies_.added.push_back(std::move(written));
    return copies_.added.back().id;
  }

  const Module& module_;
  const Dataflow& dataflow_;
  Copies& copies_;
  const LoopPair& pair_;
  const Computation& source_;
  const Instruction& root_;
  /// By instruction of F's body.
  std::vector<bool> needed_;
  RepeatedLoop loop_;
};

}  // namespace

RepeatedLoop add_repeated_loop(const Module& module, const Dataflow& dataflow, Copies& copies, const LoopPair& pair,
                               const std::vector<std::size_t>& carried) {
  return RepeatWriter(module, dataflow, copies, pair).add(carried);
}

}  // namespace remora::hlo
