# SPDX-License-Identifier: Apache-2.0
"""What the processes of one job agree on: the same graph has the same costs and the same plan on each of them.

Clocks differ, so two processes would measure, and then plan, differently. Whoever comes to a question first answers it
for all, through the job's store; no collective is called, so processes that never ask keep nobody waiting.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from typing import Any, TypeVar

import torch.distributed as dist

PATIENCE = datetime.timedelta(hours=1)
"""So long a process waits for another one's answer."""


T = TypeVar("T")


def as_it_is(answer: Any) -> Any:
    """What JSON holds already."""
    return answer


def agreed(
    question: str, answer: Callable[[], T], told: Callable[[T], Any] = as_it_is, heard: Callable[[Any], T] = as_it_is
) -> T:
    """The answer to a question; the first process of the job that asks works it out for all.

    `told` makes of it what JSON can hold, `heard` the answer of that. Where the first one fails, the others work it out
    themselves.
    """
    if not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1:
        return answer()
    store = dist.distributed_c10d._get_default_store()
    name = f"remora/{question}"
    if store.add(f"{name}/asked", 1) > 1:
        store.wait([name], PATIENCE)
        given = json.loads(store.get(name))
        return heard(given["answer"]) if "answer" in given else answer()
    try:
        found = answer()
        store.set(name, json.dumps({"answer": told(found)}))
    except BaseException:
        store.set(name, "{}")
        raise
    return found
