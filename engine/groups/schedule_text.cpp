// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <cstdint>
#include <limits>
#include <utility>

#include "engine/groups/block_schedule.hpp"

namespace remora {
namespace {

class Writer {
 public:
  std::string write(const FoundSchedules& found) {
    add_count(found.schedules.size());
    add(found.work);
    text_ += '\n';
    for (const BlockSchedule& schedule : found.schedules) {
      add_computes(schedule.forward);
      add_computes(schedule.backward);
      add_cost(schedule.forward_cost);
      add_cost(schedule.backward_cost);
      add(schedule.saved.count());
      add_count(schedule.reads.size());
      for (const bool reads : schedule.reads) add(reads ? 1 : 0);
      add(schedule.computes);
      add(schedule.repeatable ? 1 : 0);
      add(schedule.peak.count());
      text_ += '\n';
    }
    return std::move(text_);
  }

 private:
  void add(std::int64_t number) { text_.append(std::to_string(number)).append(1, ' '); }
  void add_count(std::size_t count) { add(static_cast<std::int64_t>(count)); }
  void add_computes(const std::vector<Compute>& computes) {
    add_count(computes.size());
    for (const Compute& compute : computes) {
      add(compute.op);
      add(compute.mode);
    }
  }
  void add_cost(const HalfCost& cost) {
    add(cost.duration.count());
    add_count(cost.peaks.size());
    for (const HalfPeak& peak : cost.peaks) {
      add(peak.workspace.count());
      add_count(peak.freed.size());
      for (const int position : peak.freed) add(position);
    }
  }

  std::string text_;
};

/// Reads numbers; what is missing or no number makes `failed` true, and every further number 0.
class ScheduleParser {
 public:
  explicit ScheduleParser(std::string_view text) : text_(text) {}

  [[nodiscard]] bool failed() const { return failed_; }

  FoundSchedules all() {
    FoundSchedules found;
    const std::size_t schedules = count();
    found.work = number();
    expect('\n');
    for (std::size_t i = 0; i < schedules && !failed_; ++i) found.schedules.push_back(schedule());
    if (!text_.empty() || schedules == 0) fail();
    return found;
  }

 private:
  BlockSchedule schedule() {
    BlockSchedule schedule;
    schedule.forward = computes();
    schedule.backward = computes();
    schedule.forward_cost = cost();
    schedule.backward_cost = cost();
    schedule.saved = Bytes(number());
    for (std::size_t left = count(); left > 0; --left) schedule.reads.push_back(number() != 0);
    schedule.computes = small_number();
    schedule.repeatable = number() != 0;
    schedule.peak = Bytes(number());
    expect('\n');
    return schedule;
  }

  std::int64_t number() {
    std::int64_t value = 0;
    const auto [stop, error] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
    if (failed_ || error != std::errc()) {
      fail();
      return 0;
    }
    text_.remove_prefix(static_cast<std::size_t>(stop - text_.data()));
    expect(' ');
    return value;
  }
  int small_number() {
    const std::int64_t value = number();
    if (value < 0 || value > std::numeric_limits<int>::max()) fail();
    return static_cast<int>(value);
  }
  /// Reads the number of the numbers that follow, each of at least two characters.
  std::size_t count() {
    const std::int64_t value = number();
    if (value < 0 || static_cast<std::uint64_t>(value) > text_.size() / 2) fail();
    return failed_ ? 0 : static_cast<std::size_t>(value);
  }
  void expect(char c) {
    if (text_.empty() || text_.front() != c) {
      fail();
    } else {
      text_.remove_prefix(1);
    }
  }
  void fail() {
    failed_ = true;
    text_ = {};
  }

  std::vector<Compute> computes() {
    std::vector<Compute> computes;
    for (std::size_t left = count(); left > 0; --left) {
      const int op = small_number();
      computes.push_back({OpId(op), small_number()});
    }
    return computes;
  }
  HalfCost cost() {
    HalfCost cost;
    cost.duration = Duration(number());
    for (std::size_t left = count(); left > 0; --left) {
      HalfPeak peak;
      peak.workspace = Bytes(number());
      for (std::size_t freed = count(); freed > 0; --freed) peak.freed.push_back(small_number());
      cost.peaks.push_back(std::move(peak));
    }
    return cost;
  }

  std::string_view text_;
  bool failed_ = false;
};

}  // namespace

std::string text_of_schedules(const FoundSchedules& found) {
  return Writer().write(found);
}

std::optional<FoundSchedules> schedules_of_text(std::string_view text) {
  ScheduleParser parser(text);
  FoundSchedules found = parser.all();
  if (parser.failed()) return std::nullopt;
  return found;
}

}  // namespace remora
