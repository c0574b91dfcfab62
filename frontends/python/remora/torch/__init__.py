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

from ._capture import TrainStep, sweep, train_step
from ._devices import Device, DevicePlan, DeviceTrainStep, train_step_over
from ._errors import CaptureError, Infeasible, RemoraWarning, SolverError, TorchError
from ._ledger import Part, Report, report
from ._parts import Backend, backend, plans, unwrap, wrap
from ._plan import Plan
from ._solver import Options, SweepPoint

__all__ = [
    "Backend",
    "CaptureError",
    "Device",
    "DevicePlan",
    "DeviceTrainStep",
    "Infeasible",
    "Options",
    "Part",
    "Plan",
    "RemoraWarning",
    "Report",
    "SolverError",
    "SweepPoint",
    "TorchError",
    "TrainStep",
    "backend",
    "plans",
    "report",
    "sweep",
    "train_step",
    "train_step_over",
    "unwrap",
    "wrap",
]
