# SPDX-License-Identifier: Apache-2.0
"""The schedules that are known of a graph: kept in a file.

A solve begins with the shortest that holds its budget. So a smaller budget never has a shorter schedule than a larger
one that was asked for later, and the least budget that a refusal names has a schedule at once.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import remora

from ._costs import cache_folder, write_json

MOST = 24
"""So many schedules of one graph are kept."""


class Known:
    """The schedules of one graph in one order of its ops, none of them both longer and larger than another.

    Parameters
    ----------
    graph : dict
        A `remora-graph`.
    order : {"input", "free", "auto"}
        Of the problem: a schedule in input order is one in any order, but not the other way round.
    kept : bool
        Whether they are read from a file and written to it.
    """

    def __init__(self, graph: dict[str, Any], order: str, kept: bool) -> None:
        text = json.dumps([remora.__version__, order == "input", graph], sort_keys=True)
        self.path: Path | None = None
        self.rows: list[list[Any]] = []  # peak, duration, ops by number
        if kept:
            self.path = cache_folder() / "known" / f"{hashlib.sha256(text.encode()).hexdigest()}.json"
            if self.path.exists():
                self.rows = json.loads(self.path.read_text(encoding="utf-8"))

    def start(self, budget: int) -> list[int] | None:
        """The ops of the shortest schedule that holds a budget."""
        holding = [row for row in self.rows if row[0] <= budget]
        return min(holding, key=lambda row: int(row[1]))[2] if holding else None

    @property
    def least(self) -> int | None:
        """The smallest peak, in bytes."""
        return min((int(row[0]) for row in self.rows), default=None)

    def learn(self, found: remora.Schedule) -> None:
        """Keeps a schedule, unless another is as short and as small."""
        new = [found.peak, found.duration, [op.index for op in found.ops]]
        if any(row[0] <= new[0] and row[1] <= new[1] for row in self.rows):
            return
        rest = [row for row in self.rows if row[0] < new[0] or row[1] < new[1]]
        self.rows = sorted([*rest, new])[:MOST]
        if self.path is not None:
            write_json(self.path, self.rows)
