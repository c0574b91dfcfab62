# SPDX-License-Identifier: Apache-2.0
"""A process that has solved may be forked: its children solve, and find the same."""

from __future__ import annotations

import multiprocessing
import os

import pytest

import remora

DEADLINE = 120


def duration_of(graph: remora.Graph) -> int:
    return remora.solve(graph, "60%", work_limit=3000, threads=2).duration


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_children_of_a_process_that_has_solved_solve(deep: remora.Graph) -> None:
    alone = duration_of(deep)
    with multiprocessing.get_context("fork").Pool(3) as pool:
        answers = pool.map_async(duration_of, [deep] * 6).get(DEADLINE)
    assert answers == [alone] * 6
    assert duration_of(deep) == alone, "the parent goes on as before"
