// SPDX-License-Identifier: Apache-2.0
#include "engine/baselines/method.hpp"

#include <utility>

#include "engine/baselines/chains/checkpoint_sqrt.hpp"
#include "engine/baselines/chains/rotor.hpp"
#include "engine/baselines/checkmate/checkmate.hpp"
#include "engine/baselines/greedy.hpp"
#include "engine/baselines/twremat/twremat.hpp"
#include "model/evaluate.hpp"
#include "model/recompute_plan.hpp"

namespace remora {
namespace {

MethodResult run_none(const MethodInput& input) {
  return {.sequence = input_order(input.instance)};
}

MethodResult run_greedy(const MethodInput& input) {
  RecomputePlan plan = greedy_plan(input.instance, input.deadline);
  return {.sequence = sequence_of(input.instance, without_useless(input.instance, std::move(plan)))};
}

}  // namespace

Method method_of(Strategy strategy) {
  switch (strategy) {
    case Strategy::none:
      return run_none;
    case Strategy::greedy:
      return run_greedy;
    case Strategy::sqrt:
      return run_checkpoint_sqrt;
    case Strategy::rotor:
      return run_rotor;
    case Strategy::twremat:
      return run_twremat;
    case Strategy::checkmate:
      return run_checkmate;
    case Strategy::checkmate_lp:
      return run_checkmate_lp;
    default:
      return nullptr;
  }
}

}  // namespace remora
