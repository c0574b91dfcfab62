# SPDX-License-Identifier: Apache-2.0
"""A callback for Hugging Face's Trainer that chooses what to checkpoint when training begins.

trainer = Trainer(model, arguments, train_dataset=data, callbacks=[AutoCheckpoint("8GiB")])
"""

from __future__ import annotations

import random
from typing import Any

import torch
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

import remora.torch as rt
from remora.integrations._adam import adam_bytes

__all__ = ["AutoCheckpoint"]


class AutoCheckpoint(TrainerCallback):
    """Checkpoints the model's modules by `remora.torch.auto_checkpoint`, for a batch of the first rows of the data.

    It takes the place of `gradient_checkpointing` in the arguments and, as that does, switches `use_cache` off. The
    data loader is not touched and generators are as they were, so the run is the one without it in every bit.

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

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **given: Any
    ) -> None:
        """Chooses and applies the plan."""
        model, loader = given["model"], given["train_dataloader"]
        for module in model.modules():  # a decoder may have a configuration of its own
            if getattr(getattr(module, "config", None), "use_cache", False):
                module.config.use_cache = False
        rows = min(args.train_batch_size, len(loader.dataset))
        python = random.getstate()
        with torch.random.fork_rng():
            batch = loader.collate_fn([loader.dataset[i] for i in range(rows)])
        random.setstate(python)
        on_device = {k: v.to(args.device) if isinstance(v, torch.Tensor) else v for k, v in batch.items()}
        reserve = adam_bytes(model) if self.reserve is None else self.reserve
        training = model.training
        model.train()
        try:
            rt.auto_checkpoint(model, on_device, self.budget, reserve=reserve, time_limit=self.time_limit)
        finally:
            model.train(training)
