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
from remora.integrations._choosing import Choosing

__all__ = ["AutoCheckpoint"]


class AutoCheckpoint(Choosing, Callback):
    """Checkpoints the module's parts by `remora.torch.auto_checkpoint`, for the first batch and its `training_step`.

    What the step logs is dropped while the plan is made. Not for modules that Lightning shards. Its
    parameters are `Choosing`'s.
    """

    chosen = False

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        """Chooses and applies the plan, once."""
        if self.chosen:
            return
        if not pl_module.automatic_optimization:
            raise rt.CheckpointError(
                "the module optimizes by itself (automatic_optimization = False): its training_step trains, so it "
                "cannot be tried; call remora.torch.auto_checkpoint with a loss of your own before the training"
            )
        self.chosen = True
        own = pl_module.__dict__.copy()
        for name in ("log", "log_dict"):
            pl_module.__dict__[name] = lambda *_, **__: None
        try:
            self.choose(pl_module, batch, self._loss)
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
