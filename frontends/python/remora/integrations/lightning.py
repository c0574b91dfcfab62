# SPDX-License-Identifier: Apache-2.0
"""A callback for Lightning that chooses what to checkpoint at the first batch.

trainer = lightning.pytorch.Trainer(callbacks=[AutoCheckpoint("8GiB")])
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer

import remora.torch as rt
from remora.integrations._adam import adam_bytes

__all__ = ["AutoCheckpoint"]


class AutoCheckpoint(Callback):
    """Checkpoints the module's parts by `remora.torch.auto_checkpoint`, for the first batch and its `training_step`.

    What the step logs is dropped while the plan is made. Not for modules that Lightning shards.

    Parameters
    ----------
    budget : int or str
        As for `auto_checkpoint`.
    reserve : int, optional
        Bytes of the optimizer's state; by default what Adam takes for all parameters that are trained.
    time_limit : float
        Seconds for the search.
    """

    def __init__(self, budget: int | str, *, reserve: int | None = None, time_limit: float = 15.0) -> None:
        self.budget, self.reserve, self.time_limit = budget, reserve, time_limit
        self.chosen = False

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        """Chooses and applies the plan, once."""
        if self.chosen:
            return
        self.chosen = True
        own = pl_module.__dict__.copy()
        for name in ("log", "log_dict"):
            pl_module.__dict__[name] = lambda *_, **__: None
        try:
            reserve = adam_bytes(pl_module) if self.reserve is None else self.reserve
            limit = self.time_limit
            rt.auto_checkpoint(pl_module, batch, self.budget, loss=self._loss, reserve=reserve, time_limit=limit)
        finally:
            for name in ("log", "log_dict"):
                if name in own:
                    pl_module.__dict__[name] = own[name]
                else:
                    del pl_module.__dict__[name]

    @staticmethod
    def _loss(module: LightningModule, batch: Any) -> torch.Tensor:
        result = module.training_step(batch, 0)
        found = result["loss"] if isinstance(result, Mapping) else result
        if not isinstance(found, torch.Tensor):
            raise rt.CheckpointError("training_step gives no loss for the first batch")
        return found
