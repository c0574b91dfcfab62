# SPDX-License-Identifier: Apache-2.0
"""ExecuTorch's programs in less memory (docs/guide/edge.md); needs the package ``executorch``.

`planning_algo` gives every tensor of a program its address, for ExecuTorch's ``MemoryPlanningPass``; `RecomputePass`
repeats nodes before, where the program would not fit.
"""

from remora.executorch._planning import planning_algo
from remora.executorch._recompute import RecomputePass, work_of

__all__ = ["RecomputePass", "planning_algo", "work_of"]
