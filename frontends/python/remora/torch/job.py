# SPDX-License-Identifier: Apache-2.0
"""Decisions that all processes of a distributed job share; without a job, each function just returns its own value.

Clocks differ between processes, so each would measure, and then plan, something else. `same_answer` calls no
collective: processes that never ask block no others. The others are collectives of all processes of a group.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from typing import Any, TypeVar

import torch.distributed as dist

WAIT = datetime.timedelta(hours=1)
"""How long a process waits for the answer of another."""

ALONE = "alone"
"""In place of a group: this process does not ask the others."""

T = TypeVar("T")


def is_distributed() -> bool:
    """True if several processes run one job."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def same_answer(
    question: str,
    answer: Callable[[], T],
    encode: Callable[[T], Any] = lambda answer: answer,
    decode: Callable[[Any], T] = lambda answer: answer,
) -> T:
    """Answers a question equally in all processes: the first one that asks computes the answer for all.

    `question`: key of the question in the job's store. `encode`, `decode`: from the answer to a value that JSON can
    hold, and back.

    If the first process fails, each of the others computes its own answer.
    """
    if not is_distributed():
        return answer()
    store = dist.distributed_c10d._get_default_store()
    name = f"remora/{question}"
    if store.add(f"{name}/asked", 1) > 1:
        store.wait([name], WAIT)
        given = json.loads(store.get(name))
        return decode(given["answer"]) if "answer" in given else answer()
    try:
        found = answer()
        store.set(name, json.dumps({"answer": encode(found)}))
    except BaseException:
        store.set(name, "{}")
        raise
    return found


def gathered(value: T, group: Any = None) -> list[T]:
    """Values of all processes of a group, in the order of their ranks."""
    if group is ALONE or not is_distributed():
        return [value]
    found: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(found, value, group=group)
    return found


def from_first(make: Callable[[], T], error: type[Exception], group: Any = None) -> T:
    """Value that the first process makes; raises `error` in all processes if that one fails."""
    box: list[Any] = [None]
    if group is ALONE or not is_distributed():
        return make()
    if dist.get_rank() == 0:
        try:
            box = [("made", make())]
        except Exception as failure:
            box = [("failed", f"{type(failure).__name__}: {failure}")]
    dist.broadcast_object_list(box, src=0)
    word, value = box[0]
    if word == "failed":
        raise error(f"the first process found no plan: {value}")
    made: T = value
    return made
