// SPDX-License-Identifier: Apache-2.0
#include "engine/groups/option_text.hpp"

#include <charconv>
#include <cstdint>
#include <limits>
#include <utility>

namespace remora {
namespace {

class Writer {
 public:
  std::string write(const FoundOptions& found) {
    add_count(found.options.size());
    add(found.work);
    text_ += '\n';
    for (const GroupOption& option : found.options) {
      add_computes(option.forward);
      add_computes(option.backward);
      add_cost(option.forward_cost);
      add_cost(option.backward_cost);
      add(option.saved.count());
      add_count(option.reads.size());
      for (const bool reads : option.reads) add(reads ? 1 : 0);
      add(option.computes);
      add(option.repeatable ? 1 : 0);
      add(option.peak.count());
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
      add(compute.option);
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
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  [[nodiscard]] bool failed() const { return failed_; }

  FoundOptions all() {
    FoundOptions found;
    const std::size_t options = count();
    found.work = number();
    expect('\n');
    for (std::size_t i = 0; i < options && !failed_; ++i) found.options.push_back(option());
    if (!text_.empty() || options == 0) fail();
    return found;
  }

 private:
  GroupOption option() {
    GroupOption option;
    option.forward = computes();
    option.backward = computes();
    option.forward_cost = cost();
    option.backward_cost = cost();
    option.saved = Bytes(number());
    for (std::size_t left = count(); left > 0; --left) option.reads.push_back(number() != 0);
    option.computes = small_number();
    option.repeatable = number() != 0;
    option.peak = Bytes(number());
    expect('\n');
    return option;
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
  /// Of numbers that follow, of which each takes two characters at least.
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

std::string text_of_options(const FoundOptions& found) {
  return Writer().write(found);
}

std::optional<FoundOptions> options_of_text(std::string_view text) {
  Reader reader(text);
  FoundOptions found = reader.all();
  if (reader.failed()) return std::nullopt;
  return found;
}

}  // namespace remora
