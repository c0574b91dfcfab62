# SPDX-License-Identifier: Apache-2.0
"""Measured costs of collectives: tables of milliseconds by group, kind and size."""

from __future__ import annotations

import os
from dataclasses import dataclass

from remora._arguments import file_text
from remora.errors import InputError

MEGABYTE = 1 << 20


@dataclass(frozen=True)
class CollectiveTable:
    """Rows of a group's name, how many devices it has, a collective, and a time for each size.

    A size is what a device puts in: of an all-gather its shard, of a reduce-scatter the whole.
    """

    path: str
    sizes: tuple[int, ...]
    """Bytes, ascending."""
    rows: dict[tuple[str, int, str], tuple[float, ...]]
    """Nanoseconds, by group, its size and the collective's name."""

    def nanoseconds(self, group: str, devices: int, name: str, size: int) -> int:
        """On the line between two sizes; below the first size as at it, beyond the last on the last line.

        Raises
        ------
        InputError
            If the table has no such row.
        """
        times = self.rows.get((group, devices, name))
        if times is None:
            raise InputError(self.path, f"has no row for {name} in group {group!r} of {devices} devices")
        sizes = self.sizes[: len(times)]
        if size <= sizes[0] or len(sizes) == 1:
            return round(times[0])
        last = next((i for i, known in enumerate(sizes) if size <= known), len(sizes) - 1)
        (x0, y0), (x1, y1) = (sizes[last - 1], times[last - 1]), (sizes[last], times[last])
        return round(y0 + (y1 - y0) * (size - x0) / (x1 - x0))


def read_table(path: str | os.PathLike[str]) -> CollectiveTable:
    """Reads a table as autoparallel's overlap simulator has them.

    They have a heading ``Group  Group Size  Collective  1MB (ms) ...``, a rule, and a row for each group and
    collective.

    Raises
    ------
    InputError
        With the file and the line of what is not understood.
    OSError
        If the file cannot be read.
    """
    place, text = file_text(path)
    lines = [line.split() for line in text.splitlines()]
    heading = lines[0] if lines else []
    sizes = tuple(int(word[:-2]) * MEGABYTE for word in heading if word.endswith("MB") and word[:-2].isdigit())
    if not sizes or list(sizes) != sorted(set(sizes)):
        raise InputError(f"{place}:1", "must name ascending sizes, as 1MB (ms)")
    rows: dict[tuple[str, int, str], tuple[float, ...]] = {}
    for number, words in enumerate(lines[1:], 2):
        if not words or set("".join(words)) == {"-"}:
            continue
        try:
            group, devices, name, *times = words
            if len(times) != len(sizes):
                raise ValueError(f"{len(times)} times for {len(sizes)} sizes")
            rows[group, int(devices), name] = tuple(float(time) * 1e6 for time in times)
        except ValueError as error:
            raise InputError(
                f"{place}:{number}", f"must be a group, its size, a collective and its times: {error}"
            ) from None
    return CollectiveTable(place, sizes, rows)
