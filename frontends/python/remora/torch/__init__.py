# SPDX-License-Identifier: Apache-2.0
"""Training steps of PyTorch that run under a memory budget.

    import remora.torch as rt

    @rt.train_step(budget="12GiB")
    def step(x, y):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss.detach()

See docs/guide/pytorch.md.
"""

import importlib
from typing import TYPE_CHECKING, Any

import remora
from remora._arguments import renamed

from ._capture import TrainStep, padded, scale_of, train_step
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
from ._devices import DevicePlan, DeviceTrainStep, TrainDevice, train_step_over
from ._errors import BudgetError, CaptureError, CheckError, RemoraWarning, SolverError, TorchError
from ._ledger import Part, Report, report
from ._parts import Backend, backend, plans, unwrap, wrap
from ._plan import Plan
from ._solver import Options
from .fit import FitDevice, FitPlan, FitTable, Largest, fit_table, largest, measure_device, plan

__all__ = [
    "Backend",
    "BudgetError",
    "CaptureError",
    "Check",
    "CheckError",
    "CheckpointError",
    "CheckpointPlan",
    "Choice",
    "DevicePlan",
    "DeviceTrainStep",
    "Difference",
    "FirstOp",
    "FitDevice",
    "FitPlan",
    "FitTable",
    "FsdpPlan",
    "Kind",
    "Largest",
    "Options",
    "Part",
    "Phase",
    "PipelineFit",
    "Plan",
    "RemoraWarning",
    "Report",
    "SolverError",
    "TorchError",
    "TrainDevice",
    "TrainStep",
    "apply_checkpoints",
    "apply_fsdp_plan",
    "auto_checkpoint",
    "auto_fsdp",
    "auto_pipeline",
    "backend",
    "check",
    "checkpoints",
    "fit_table",
    "fsdp_plan",
    "largest",
    "measure_device",
    "padded",
    "plan",
    "plans",
    "remove_checkpoints",
    "remove_fsdp_plan",
    "report",
    "scale_of",
    "train_step",
    "train_step_over",
    "unwrap",
    "wrap",
]


def _sweep(step: TrainStep, *arguments: Any, **options: Any) -> remora.Curve:
    if arguments:
        step(*arguments)
    return step.sweep(**options)


if TYPE_CHECKING:
    from ._fsdp import FsdpPlan, apply_fsdp_plan, auto_fsdp, fsdp_plan, remove_fsdp_plan
    from ._pipelining import PipelineFit, auto_pipeline
else:  # for type checkers the renamed ones are gone
    _renamed = renamed(
        __name__,
        {
            "Device": ("TrainDevice", TrainDevice),
            "Infeasible": ("BudgetError", BudgetError),
            "SweepPoint": ("remora.CurvePoint", remora.CurvePoint),
            "sweep": ("TrainStep.sweep", _sweep),
        },
    )
    # They load torch.distributed, which not every PyTorch has.
    _late = dict.fromkeys(["FsdpPlan", "apply_fsdp_plan", "auto_fsdp", "fsdp_plan", "remove_fsdp_plan"], "._fsdp")
    _late |= dict.fromkeys(["PipelineFit", "auto_pipeline"], "._pipelining")

    def __getattr__(name):
        if name in _late:
            return getattr(importlib.import_module(_late[name], __name__), name)
        return _renamed(name)
