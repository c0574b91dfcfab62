# SPDX-License-Identifier: Apache-2.0
"""A callback for Hugging Face's Trainer that chooses what to checkpoint when training begins.

trainer = Trainer(model, arguments, train_dataset=data, callbacks=[AutoCheckpoint("8GiB")])
"""

from __future__ import annotations

import random
from typing import Any

import torch
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from remora.integrations._choosing import Choosing

__all__ = ["AutoCheckpoint"]


class AutoCheckpoint(Choosing, TrainerCallback):
    """Checkpoints the model's modules by `remora.torch.auto_checkpoint`, for a batch of the first rows of the data.

    It takes the place of `gradient_checkpointing` in the arguments and, like that, switches `use_cache` off. It does
    not touch the data loader and restores generators, so the run is bitwise equal to the one without it. Its parameters
    are `Choosing`'s.
    """

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
        training = model.training
        model.train()
        try:
            self.choose(model, on_device)
        finally:
            model.train(training)
