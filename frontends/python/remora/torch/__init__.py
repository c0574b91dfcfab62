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
from typing import TYPE_CHECKING

from .carry.checkpoints import apply_checkpoints, checkpoints, remove_checkpoints
from .checking.check import Check, check
from .checking.differences import Difference
from .checking.first import FirstOp
from .checking.ops import Phase
from .errors import BudgetError, CaptureError, CheckError, RemoraWarning, SolverError, TorchError
from .fit import FitDevice, FitPlan, FitTable, Largest, fit_table, largest, measure_device, plan
from .ledger import Part, Report, report
from .options import Options
from .planning import CheckpointPlan, Choice, PartitionPlan, Plan, SchedulePlan, StagesPlan
from .step import CheckpointError
from .walk import Kind
from .ways.checkpoint import auto_checkpoint
from .ways.parts import Backend, backend
from .ways.step import TrainStep, padded, scale_of, train_step
from .ways.wrap import plans, unwrap, wrap

__all__ = [
    "Backend",
    "BudgetError",
    "CaptureError",
    "Check",
    "CheckError",
    "CheckpointError",
    "CheckpointPlan",
    "Choice",
    "Difference",
    "FirstOp",
    "FitDevice",
    "FitPlan",
    "FitTable",
    "Kind",
    "Largest",
    "Options",
    "Part",
    "PartitionPlan",
    "Phase",
    "Plan",
    "RemoraWarning",
    "Report",
    "SchedulePlan",
    "SolverError",
    "StagesPlan",
    "TorchError",
    "TrainStep",
    "apply_checkpoints",
    "auto_checkpoint",
    "auto_fsdp",
    "auto_pipeline",
    "backend",
    "check",
    "checkpoints",
    "fit_table",
    "largest",
    "measure_device",
    "padded",
    "plan",
    "plans",
    "remove_checkpoints",
    "report",
    "scale_of",
    "train_step",
    "unwrap",
    "wrap",
]

if TYPE_CHECKING:
    from .ways.fsdp import auto_fsdp
    from .ways.pipeline import auto_pipeline
else:  # They load torch.distributed, which not every PyTorch has.
    _late = {"auto_fsdp": ".ways.fsdp", "auto_pipeline": ".ways.pipeline"}

    def __getattr__(name):
        if name not in _late:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(_late[name], __name__), name)
