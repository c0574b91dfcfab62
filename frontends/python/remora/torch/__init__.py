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

from ._capture import TrainStep, padded, scale_of, sweep, train_step
from ._check import Check, check
from ._check_differences import Difference
from ._check_first import FirstOp
from ._check_ops import Phase
from ._check_state import Kind
from ._checkpoint import auto_checkpoint
from ._checkpoint_apply import apply_checkpoints, checkpoints, remove_checkpoints
from ._checkpoint_plan import CheckpointPlan
from ._checkpoint_replay import Choice
from ._checkpoint_trace import CheckpointError
from ._devices import Device, DevicePlan, DeviceTrainStep, train_step_over
from ._errors import CaptureError, CheckError, Infeasible, RemoraWarning, SolverError, TorchError
from ._ledger import Part, Report, report
from ._parts import Backend, backend, plans, unwrap, wrap
from ._plan import Plan
from ._solver import Options, SweepPoint

__all__ = [
    "Backend",
    "CaptureError",
    "Check",
    "CheckError",
    "CheckpointError",
    "CheckpointPlan",
    "Choice",
    "Device",
    "DevicePlan",
    "DeviceTrainStep",
    "Difference",
    "FirstOp",
    "Infeasible",
    "Kind",
    "Options",
    "Part",
    "Phase",
    "Plan",
    "RemoraWarning",
    "Report",
    "SolverError",
    "SweepPoint",
    "TorchError",
    "TrainStep",
    "apply_checkpoints",
    "auto_checkpoint",
    "backend",
    "check",
    "checkpoints",
    "padded",
    "plans",
    "remove_checkpoints",
    "report",
    "scale_of",
    "sweep",
    "train_step",
    "train_step_over",
    "unwrap",
    "wrap",
]
