// SPDX-License-Identifier: Apache-2.0
//
// Stores keep answers under the engine's schema number. Whoever changes what the engine answers is told here to raise it.
#include "engine/base/schema.hpp"

#include <cstdint>
#include <iomanip>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "engine/ask/ask.hpp"
#include "engine/ask/problem.hpp"
#include "engine/bound/cover_mip.hpp"
#include "frontends/generate/layered.hpp"
#include "model/evaluate.hpp"
#include "tests/support/asked.hpp"
#include "tests/support/programs.hpp"
#include "tests/support/random_graph.hpp"
#include "tests/support/random_modes.hpp"
#include "tests/support/training_graphs.hpp"
#include "tests/support/work_limited.hpp"

namespace remora {
namespace {

/// FNV-1a, of 64 bits.
class AnswerDigest {
 public:
  void add(std::int64_t number) {
    for (int shift = 0; shift < 64; shift += 8) {
      value_ ^= (static_cast<std::uint64_t>(number) >> shift) & 0xffU;
      value_ *= 0x100000001b3U;
    }
  }
  void add(const Schedule& schedule) {
    add(static_cast<std::int64_t>(schedule.status));
    for (const std::int64_t number :
         {schedule.duration.count(), schedule.peak_memory.count(), schedule.lower_bound.count(), schedule.solver.work,
          std::int64_t{schedule.solver.optimal_for_max_computes}}) {
      add(number);
    }
    for (const Step& step : schedule.steps) {
      add(std::int32_t{step.op});
      for (const TensorId tensor : step.free) add(std::int32_t{tensor});
    }
  }
  [[nodiscard]] std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325U;
};

Instance limited_to(Graph graph, int percent, Problem problem = {}) {
  const Instance unlimited(std::make_shared<const Graph>(std::move(graph)), problem);
  const Bytes base = unlimited.base_memory();
  return unlimited.with_budget(base + Bytes((baseline_peak(unlimited) - base).count() / 100 * percent));
}

Graph layered_graph() {
  generate::LayeredOptions options;
  options.ops = 60;
  options.edges = 140;
  return generate::generate_layered(options);
}

/// By CBC, which every build has: with HiGHS, and with each of its versions, answers may be others.
SolveOptions limited_by(std::int64_t work, SolveOptions options = {}) {
  options.mip = IntegerSolver::cbc;
  return test::work_limited(work, options);
}

/// A solve of each kind, all within two seconds.
std::uint64_t all_answers() {
  AnswerDigest digest;
  digest.add(solve(limited_to(layered_graph(), 80), limited_by(4'000)));
  digest.add(solve(limited_to(layered_graph(), 85), limited_by(2'000, {.workers = Workers::ruin})));
  digest.add(solve(limited_to(layered_graph(), 80, {.order = OrderMode::free}), limited_by(4'000)));
  digest.add(solve(limited_to(test::generate_unet({.levels = 3}), 50), limited_by(3'000)));
  digest.add(
      solve(limited_to(test::generate_transformer({.layers = 4}), 50), limited_by(8'000, {.groups = GroupStart::on})));
  digest.add(solve_with_more_computes(limited_to(test::generate_unet({.levels = 4}), 30), limited_by(6'000)));
  digest.add(solve_with_more_computes(limited_to(layered_graph(), 80), limited_by(500, {.workers = Workers::ruin})));
  const Instance swept = limited_to(test::generate_transformer({.layers = 2}), 100);
  const Bytes peak = baseline_peak(swept);
  const std::vector<Bytes> budgets{Bytes(peak.count() / 10 * 8), Bytes(peak.count() / 10 * 6)};
  for (const CurvePoint& point : sweep(test::asked(swept, limited_by(3'000)), {.budgets = budgets}).curve.points) {
    digest.add(point.duration.count());
    digest.add(point.lower_bound.count());
  }
  std::mt19937 random(1);
  for (int i = 0; i < 4; ++i) {
    const Instance whole(std::make_shared<const Graph>(test::random_program(random, {.most_ops = 12}).graph), {});
    Request request = test::asked(whole.with_budget(Bytes(baseline_peak(whole).count() / 10 * 7)), limited_by(500));
    request.slices.is_allowed = true;
    digest.add(solve(request).schedule);
  }
  for (const OrderMode order : {OrderMode::input, OrderMode::free}) {
    const Instance whole(test::with_random_modes(random, layered_graph()), {.order = order});
    const Bytes budget(baseline_peak(whole).count() / 10 * 8);
    digest.add(solve(whole.with_budget(budget), limited_by(2'000)));
  }
  return digest.value();
}

TEST(Schema, HoldsTheVersionAndANumber) {
  EXPECT_EQ(engine_schema().find(std::string(version()) + ", answers "), 0U);
}

TEST(Schema, TheEnginesAnswersAreThoseOfItsNumber) {
#if !defined(__GNUC__) || defined(__clang__) || __GNUC__ != 12
  GTEST_SKIP() << "recorded with GCC 12: the order in which arguments are evaluated is the compiler's";
#endif
  if (!cover_mip_available()) GTEST_SKIP() << "a build without COIN-OR CBC";
  const std::uint64_t found = all_answers();
  std::ostringstream line;
  line << "0x" << std::hex << std::setfill('0') << std::setw(16) << found;
  EXPECT_EQ(found, recorded_answers())
      << "The engine answers otherwise than it did. If that is meant to be, add the line " << line.str()
      << " to kAnswers in engine/base/schema.cpp: the number goes up with it, so that no store takes old answers for "
         "new ones.";
}

}  // namespace
}  // namespace remora
