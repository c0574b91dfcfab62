# SPDX-License-Identifier: Apache-2.0
"""``remora`` (also ``python -m remora``) and ``remora_zoo``: the programs that the package carries."""

import os
import sys
from pathlib import Path
from typing import NoReturn

from remora import _highs


def _become(program: str) -> NoReturn:
    """The program with these arguments, this Python, and the package's HiGHS unless ``REMORA_HIGHS`` names another."""
    if library := _highs.library():
        os.environ.setdefault("REMORA_HIGHS", library)
    os.environ.setdefault("REMORA_PYTHON", sys.executable)
    os.execv(Path(__file__).with_name("bin") / program, [program, *sys.argv[1:]])


def main() -> NoReturn:
    """Becomes ``remora``."""
    _become("remora")


def zoo() -> NoReturn:
    """Becomes ``remora_zoo``."""
    _become("remora_zoo")


if __name__ == "__main__":
    main()
