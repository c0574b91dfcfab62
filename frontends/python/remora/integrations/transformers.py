# SPDX-License-Identifier: Apache-2.0
"""A callback for Hugging Face's Trainer that chooses what to checkpoint when training begins.

trainer = Trainer(model, arguments, train_dataset=data, callbacks=[AutoCheckpoint("8GiB")])
"""

from __future__ import annotations

import heapq
import random
import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

import remora.torch as rt
from remora.integrations._choosing import Choosing
from remora.torch.errors import warn

__all__ = ["AutoCheckpoint"]

READING = 10.0
"""Seconds after which no further row of the data is read."""


class AutoCheckpoint(Choosing, TrainerCallback):
    """Checkpoints the model's modules by `remora.torch.auto_checkpoint`, for a batch of the longest rows of the data.

    Where rows differ in length, a warning says for how many elements the plan is. Of data that takes longer than
    `READING` seconds to read, these are the longest of the rows read by then.

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
        if not hasattr(loader.dataset, "__len__"):
            raise rt.CheckpointError(
                "the data has no length, so that its longest rows are not known: call remora.torch.auto_checkpoint "
                "with the largest batch before the training"
            )
        python = random.getstate()
        with torch.random.fork_rng():
            batch = loader.collate_fn(longest_rows(loader.dataset, args.train_batch_size))
        random.setstate(python)
        on_device = {k: v.to(args.device) if isinstance(v, torch.Tensor) else v for k, v in batch.items()}
        training = model.training
        model.train()
        try:
            self.choose(model, on_device)
        finally:
            model.train(training)


def longest_rows(data: Any, count: int) -> list[Any]:
    """So many rows, the largest: the longest of each field, then those with most elements, of equal ones the first.

    Says what is planned for, where rows differ.
    """
    end, read, sizes = time.perf_counter() + READING, 0, set[int]()
    fields: dict[Any, tuple[int, int]] = {}  # of each, the most elements, and minus the row
    largest: list[tuple[int, int]] = []
    for number in range(len(data)):
        found = _sizes_of(data[number])
        for name, size in found.items():
            fields[name] = max(fields.get(name, (0, 0)), (size, -number))
        row = sum(found.values()), -number
        sizes.add(row[0])
        (heapq.heappush if len(largest) < count else heapq.heappushpop)(largest, row)
        read = number + 1
        if time.perf_counter() > end and read >= count:
            break
    if len(sizes) > 1 or read < len(data):
        longest = max(fields, key=lambda name: fields[name][0])
        warn(
            f"the plan is for rows of up to {fields[longest][0]:,} elements ({longest}), the longest of "
            + (f"{read:,} rows" if read == len(data) else f"the {read:,} rows that were read, of {len(data):,}")
        )
    chosen = dict.fromkeys([-row for _, row in fields.values()] + [-row for _, row in sorted(largest, reverse=True)])
    return [data[number] for number in list(chosen)[:count]]


def _sizes_of(row: Any) -> dict[Any, int]:
    """The elements in each field of a row."""
    named = row if isinstance(row, Mapping) else dict(enumerate(row)) if isinstance(row, (tuple, list)) else {"": row}
    return {name: _elements(value) for name, value in named.items()}


def _elements(value: Any) -> int:
    if isinstance(value, torch.Tensor):
        return value.numel()
    if isinstance(value, Mapping):
        return sum(map(_elements, value.values()))
    if isinstance(value, Sequence) and value and not isinstance(value, (str, bytes)) and isinstance(value[0], Sequence):
        return sum(map(_elements, value))
    if isinstance(value, Sequence):
        return len(value)
    size = getattr(value, "size", 1)  # of an array
    return size if isinstance(size, int) else 1
