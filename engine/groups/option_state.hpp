// SPDX-License-Identifier: Apache-2.0
//
// A sequence of computes under change of options: what the exchanges of a composition move about in.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/compute_options.hpp"
#include "model/instance.hpp"

namespace remora {

/// Bytes above the budget, summed over events, and time.
struct OptionScore {
  Bytes overflow{};
  Duration duration{};
};

class OptionState {
 public:
  OptionState(const Instance& instance, std::vector<Compute> sequence);

  [[nodiscard]] const std::vector<Compute>& sequence() const { return sequence_; }
  [[nodiscard]] const OptionScore& score() const { return score_; }
  /// Choices are computes whose option can be chosen: those of leaders and of ops that follow nobody.
  [[nodiscard]] int choice_count() const { return static_cast<int>(choices_.size()); }
  [[nodiscard]] Option option(int choice) const;
  [[nodiscard]] int option_count(int choice) const;
  /// Whether the computes of the choice, followers included, all have the option, and each alone keeps its op's limit.
  [[nodiscard]] bool offers(int choice, Option option) const;
  /// The time of these computes by the option.
  [[nodiscard]] Duration duration(int choice, Option option) const;
  /// Bytes that stay on the option's behalf: outputs, and inputs that followers read.
  [[nodiscard]] Bytes staying(int choice, Option option) const;

  /// The score with another option at a choice, followers included; nothing if it is the present one or if that is no
  /// valid sequence.
  [[nodiscard]] std::optional<OptionScore> probe(int choice, Option option);
  void set(int choice, Option option);
  /// One option a choice; the sequence must be valid with them.
  void set_all(const std::vector<Option>& options);
  /// Steps looked at so far.
  [[nodiscard]] std::int64_t looks() const { return looks_; }

 private:
  void assign(int choice, Option option);
  [[nodiscard]] OptionScore evaluate_now();

  const Instance& instance_;
  std::vector<Compute> sequence_;
  std::vector<int> choices_;
  /// By choice: the steps that take its option over.
  std::vector<std::vector<int>> followers_;
  OptionScore score_;
  std::int64_t looks_ = 0;
};

}  // namespace remora
