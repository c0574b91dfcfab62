# SPDX-License-Identifier: Apache-2.0
"""HiGHS, as the package highsbox carries it, which comes with this one."""

import importlib.util
from pathlib import Path

from remora import _engine


def library() -> str | None:
    """The path of libhighs.so, or None where highsbox is not installed."""
    found = importlib.util.find_spec("highsbox")
    for folder in (found.submodule_search_locations if found else None) or []:
        path = Path(folder, "highs_dist", "lib", "libhighs.so")
        if path.exists():
            return str(path)
    return None


def offer() -> None:
    """Offers the library to the engine, which takes it unless ``REMORA_HIGHS`` says otherwise."""
    if path := library():
        _engine.offer_highs(path)
