// SPDX-License-Identifier: Apache-2.0
#include "frontends/formats/collective.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

#include "model/quote.hpp"

namespace remora::json {
namespace {

struct Kind {
  std::string_view name;
  bool may_run_again;
};

constexpr std::array<Kind, 7> kKinds = {{{"all_gather", true},
                                         {"all_reduce", false},
                                         {"all_to_all", true},
                                         {"broadcast", true},
                                         {"reduce", false},
                                         {"reduce_scatter", false},
                                         {"send", true}}};

std::string read_kind(const Node& node) {
  const Node kind = node.at("kind");
  std::string name = kind.string();
  if (std::ranges::find(kKinds, name, &Kind::name) != kKinds.end()) return name;
  kind.fail("must be one of " + list_text(kKinds, [](const Kind& one) { return one.name; }) + ", not " + quote(name));
}

std::int64_t read_group(const Node& node) {
  const Node group = node.at("group");
  return group.integer(1, std::numeric_limits<std::int32_t>::max());
}

/// Rounded up; nothing beyond 64 bits.
std::optional<Duration> ratio(Wide numerator, Wide denominator, Duration plus) {
  const Wide result = (numerator + denominator - 1) / denominator + plus.count();
  if (result > std::numeric_limits<std::int64_t>::max()) return std::nullopt;
  return Duration(static_cast<std::int64_t>(result));
}

std::optional<Duration> along(const std::vector<std::pair<Bytes, Duration>>& times, Bytes bytes) {
  const auto above = std::find_if(times.begin(), times.end(), [&](const auto& point) { return point.first >= bytes; });
  if (above == times.begin()) return above->second;
  if (above == times.end()) {
    const auto& [most, lasts] = times.back();
    return ratio(Wide{lasts.count()} * bytes.count(), std::max<Wide>(1, most.count()), Duration(0));
  }
  const auto& [from, before] = *(above - 1);
  const auto& [to, after] = *above;
  const Wide width = to.count() - from.count();
  const Wide product = Wide{before.count()} * (to - bytes).count() + Wide{after.count()} * (bytes - from).count();
  return ratio(product, width, Duration(0));
}

}  // namespace

Collective::Collective(const Node& node) {
  node.expect_object();
  kind_ = read_kind(node);
  const Node bytes = node.at("bytes");
  bytes_ = Bytes(bytes.integer());
  if (node.has("group")) group_ = read_group(node);
}

bool Collective::may_run_again() const {
  return std::any_of(kKinds.begin(), kKinds.end(),
                     [&](const Kind& one) { return one.name == kind_ && one.may_run_again; });
}

CollectiveTimes::CollectiveTimes(const Node& root) {
  if (!root.has("collectives")) return;
  const Node rows = root.at("collectives");
  rows.expect_array();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Node row = rows.element(i);
    rows_.push_back(read_row(row));
  }
}

CollectiveTimes::Row CollectiveTimes::read_row(const Node& node) {
  node.expect_object();
  Row row{.kind = read_kind(node)};
  if (node.has("group")) row.group = read_group(node);
  if (!node.has("times")) {
    const Node bytes = node.at("bytes");
    const Node per = node.at("per");
    if (node.has("latency")) row.latency = Duration(node.at("latency").integer());
    row.bytes = Bytes(bytes.integer(1));
    row.per = Duration(per.integer());
    return row;
  }
  const Node times = node.at("times");
  times.expect_array();
  for (std::size_t i = 0; i < times.size(); ++i) {
    const Node point = times.element(i);
    point.expect_array();
    if (point.size() != 2) point.fail("must be [bytes, duration]");
    const Node bytes = point.element(0);
    const Node lasts = point.element(1);
    row.times.emplace_back(Bytes(bytes.integer()), Duration(lasts.integer()));
    if (i > 0 && row.times[i].first <= row.times[i - 1].first) bytes.fail("must be more than in the point before");
  }
  if (row.times.empty()) times.fail("has no point");
  return row;
}

Duration CollectiveTimes::duration_of(const Collective& collective, const Node& node) const {
  const auto row = std::find_if(rows_.begin(), rows_.end(), [&](const Row& candidate) {
    return candidate.kind == collective.kind_ && candidate.group.value_or(collective.group_) == collective.group_;
  });
  if (row == rows_.end()) {
    node.fail("the op has no duration, and \"collectives\" has none for " + quote(collective.kind_) +
              " in a group of " + std::to_string(collective.group_));
  }
  const std::optional<Duration> lasts =
      row->times.empty() ? ratio(Wide{collective.bytes_.count()} * row->per.count(), row->bytes.count(), row->latency)
                         : along(row->times, collective.bytes_);
  if (!lasts) node.fail("takes more than 64 bits");
  return *lasts;
}

}  // namespace remora::json
