# SPDX-License-Identifier: Apache-2.0
"""Memory that later graphs lack, which earlier graphs leave free when they are planned anew."""

from __future__ import annotations

import functools

from ..job import same_answer
from ..problem.partition import Later
from ..store import cache_folder, read_json, write_json


class LaterGraphs:
    """Memory that later graphs lacked, by the place of the code whose graph leaves room for it.

    `name`: of the settings. `cache`: whether later processes know it, too.
    """

    def __init__(self, name: str, cache: bool) -> None:
        self._path, self._cache = cache_folder() / "partitions" / f"later-{name}.json", cache

    @functools.cached_property
    def _known(self) -> dict[str, Later]:
        shared = same_answer(f"later/{self._path.name}", lambda: read_json(self._path) if self._cache else {})
        return {where: Later(*row) for where, row in shared.items()}

    def of(self, where: str) -> Later:
        """Memory that the graph of this code leaves free."""
        return self._known.get(where, Later())

    def learn(self, where: str, needed: int, gradients: int) -> None:
        """Bytes that a graph is to leave free between its parts, and those of the gradients that are left there."""
        known = self.of(where)
        self._known[where] = Later(max(known.needed, needed), max(known.gradients, gradients))
        if self._cache:
            write_json(self._path, {place: [row.needed, row.gradients] for place, row in self._known.items()})
