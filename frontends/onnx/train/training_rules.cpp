// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/train/training_rules.hpp"

#include <algorithm>
#include <cassert>

namespace remora::onnx_frontend {

namespace {

std::string key_of(std::string_view domain, std::string_view type) {
  // The default domain has two spellings.
  std::string key(domain == "ai.onnx" ? std::string_view() : domain);
  key += ':';
  key += type;
  return key;
}

/// Marks in `read`, one flag a position of `values`, the positions that a rule names and the node has.
void mark(const Positions& named, std::size_t operand, const std::vector<ValueId>& values, std::vector<bool>& read) {
  for (const std::size_t name : named) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const bool meant = name == kEvery || (name == kOthers && i != operand) || name == i;
      if (meant && values[i].valid()) read[i] = true;
    }
  }
}

Positions marked(const std::vector<bool>& read) {
  Positions positions;
  for (std::size_t i = 0; i < read.size(); ++i) {
    if (read[i]) positions.push_back(i);
  }
  return positions;
}

}  // namespace

const OperandRule* find_operand(const Rule& rule, std::size_t position) {
  const OperandRule* every = nullptr;
  for (const OperandRule& operand : rule.operands) {
    if (operand.of == position) return &operand;
    if (operand.of == kEvery) every = &operand;
  }
  return every;
}

Reads reads_of(const Rule& rule, const Node& node, std::span<const std::size_t> wanted) {
  std::vector<bool> inputs(node.inputs.size());
  std::vector<bool> outputs(node.outputs.size());
  for (const std::size_t position : wanted) {
    const OperandRule* operand = find_operand(rule, position);
    assert(operand != nullptr);
    mark(operand->inputs, position, node.inputs, inputs);
    mark(operand->outputs, position, node.outputs, outputs);
  }
  return {.inputs = marked(inputs), .outputs = marked(outputs)};
}

RuleTable RuleTable::standard() {
  RuleTable table;
  add_layer_rules(table);
  add_normalization_rules(table);
  add_pointwise_rules(table);
  add_movement_rules(table);
  add_reduction_rules(table);
  add_stopping_rules(table);
  return table;
}

Rule RuleTable::conservative() {
  return {.operands = {{.of = kEvery, .inputs = {kEvery}, .outputs = {kEvery}}}};
}

bool RuleTable::knows(const Node& node) const {
  return find(node) != nullptr;
}

Rule RuleTable::rule(const Node& node) const {
  const Entry* entry = find(node);
  if (entry == nullptr) return conservative();
  return entry->maker != nullptr ? entry->maker(node) : entry->rule;
}

void RuleTable::add(std::initializer_list<std::string_view> types, const Rule& rule, std::string_view domain) {
  insert(types, domain, {.rule = rule});
}

void RuleTable::add(std::initializer_list<std::string_view> types, Maker maker, std::string_view domain) {
  insert(types, domain, {.maker = maker});
}

const RuleTable::Entry* RuleTable::find(const Node& node) const {
  const auto found = entries_.find(key_of(node.domain, node.type));
  return found == entries_.end() ? nullptr : &found->second;
}

void RuleTable::insert(std::initializer_list<std::string_view> types, std::string_view domain, const Entry& entry) {
  for (const std::string_view type : types) {
    [[maybe_unused]] const bool added = entries_.emplace(key_of(domain, type), entry).second;
    assert(added && "one rule a type");
  }
}

}  // namespace remora::onnx_frontend
