# SPDX-License-Identifier: Apache-2.0
"""Training steps of PyTorch that run under a memory budget.

    import remora.torch as rt

    @rt.train_step(budget="12GiB")
    def step(x, y):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss.detach()

See docs/pytorch.md.
"""

from ._capture import Backend, TrainStep, backend, plans, train_step, wrap
from ._errors import CaptureError, Infeasible, SolverError, TorchError
from ._plan import Options, Plan

__all__ = ["Backend", "CaptureError", "Infeasible", "Options", "Plan", "SolverError", "TorchError", "TrainStep", "backend", "plans", "train_step", "wrap"]
