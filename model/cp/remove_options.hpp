// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gecode/int.hh>

#include "model/compute_options.hpp"

namespace remora::cp {

/// Takes the unwanted options out of an option variable's domain; `changed` becomes true if there were any.
template <class Unwanted>
Gecode::ExecStatus remove_options(Gecode::Space& home, Gecode::Int::IntView view, Unwanted unwanted, bool& changed) {
  const Option last = view.max();
  for (Option option = view.min(); option <= last; ++option) {
    if (!view.in(option) || !unwanted(option)) continue;
    GECODE_ME_CHECK(view.nq(home, option));
    changed = true;
  }
  return Gecode::ES_OK;
}

}  // namespace remora::cp
