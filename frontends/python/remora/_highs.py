# SPDX-License-Identifier: Apache-2.0
"""HiGHS, as the package highsbox carries it, which comes with this one."""

import importlib.util
from pathlib import Path

from remora import _engine


def offer() -> None:
    """Offers the library to the engine, which takes it unless ``REMORA_HIGHS`` says otherwise."""
    found = importlib.util.find_spec("highsbox")
    for folder in (found.submodule_search_locations if found else None) or []:
        library = Path(folder, "highs_dist", "lib", "libhighs.so")
        if library.exists():
            _engine.offer_highs(str(library))
