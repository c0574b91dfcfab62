# SPDX-License-Identifier: Apache-2.0
"""JAX functions under a memory budget (docs/guide/jax.md); needs the package ``jax``.

`budget` and `install` put a pass into XLA's compiler, behind its scheduler: modules compiled meanwhile are rescheduled
with recomputation so that XLA's temporaries fit within the budget.
"""

from remora.jax._checkpoint import Checkpointed, checkpoint_loops
from remora.jax._loop_pairs import plan_module
from remora.jax._pass import CPU, LIMITS, Plan, Plans, budget, install, uninstall
from remora.jax._policy import policy

__all__ = [
    "CPU",
    "LIMITS",
    "Checkpointed",
    "Plan",
    "Plans",
    "budget",
    "checkpoint_loops",
    "install",
    "plan_module",
    "policy",
    "uninstall",
]
