// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include "engine/ask/problem.hpp"
#include "engine/base/options.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/verify.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/support/oracle.hpp"
#include "tests/support/random_graph.hpp"

namespace remora::fuzz {
namespace {

constexpr int kMaxWork = 400;

std::string value_of(const OptionRow& row, Draw& draw) {
  // One of the names that the type lists, or that the help does.
  const std::string names = row.range.empty() ? row.type : "";
  if (const auto count = std::count(names.begin(), names.end(), '|'); count > 0) {
    std::size_t begin = 0;
    for (auto i = draw.below(static_cast<std::uint32_t>(count) + 1); i > 0; --i) begin = names.find('|', begin) + 1;
    return names.substr(begin, names.find('|', begin) - begin);
  }
  if (row.initial == "nothing")
    return draw.below(2) == 0 ? "nogoods,segments,cover-bound" : "period-bound,costly-recompute";
  if (row.initial.find('.') != std::string::npos) return std::to_string(draw.below(11) * 0.1);
  return std::to_string(draw.below(2) == 0 ? draw.below(60) : draw.amount());
}

SolveOptions options_of(Draw& draw) {
  SolveOptions options;
  for (const OptionRow& row : option_rows()) {
    if (draw.below(4) != 0) continue;
    set_option(options, row.name, value_of(row, draw));
  }
  options.threads = 1 + static_cast<int>(draw.below(2));
  options.time_limit = 2;
  options.work_limit = 1 + draw.below(kMaxWork);
  if (options.strategy != Strategy::automatic) options.workers = Workers::all;
  if (options.strategy > Strategy::cp) options.groups = GroupStart::automatic;
  check_options(options);
  return options;
}

}  // namespace

void fuzz_solves(Input bytes) {
  Draw draw(bytes);
  std::mt19937 random(static_cast<std::uint32_t>(draw.number()));
  const auto small = test::random_graph(random, {.most_ops = 6, .in_place = draw.below(3) == 0});
  const int size_shift = draw.below(3) == 0 ? static_cast<int>(draw.below(56)) : 0;
  const int duration_shift = draw.below(3) == 0 ? static_cast<int>(draw.below(50)) : 0;
  const auto graph = test::scaled(*small, size_shift, duration_shift);
  validate(*graph);
  const SolveOptions options = options_of(draw);
  const Problem problem{.max_computes = 1 + static_cast<int>(draw.below(3)),
                        .order = draw.below(3) == 0 ? OrderMode::free : OrderMode::input};
  const Instance whole(graph, problem);
  const std::int64_t peak = baseline_peak(whole).count();
  const Instance instance = whole.with_budget(Bytes(peak / 16 * draw.below(17) + draw.below(3)));
  const Schedule schedule = solve(instance, options);
  const std::optional<Duration> best = test::optimum(instance);
  if (schedule.has_schedule()) {
    expect(verify(*graph, schedule).valid(), "the schedule is valid");
    expect(best.has_value() && schedule.duration >= *best, "no schedule is shorter than the shortest");
  }
  if (schedule.status == Status::optimal) expect(best == schedule.duration, "optimal means optimal");
  if (schedule.status == Status::infeasible) expect(!best.has_value(), "infeasible means infeasible");
  if (best) expect(schedule.lower_bound <= *best, "no bound is above the shortest schedule");
}

}  // namespace remora::fuzz
