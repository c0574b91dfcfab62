# SPDX-License-Identifier: Apache-2.0
"""``remora`` and ``python -m remora``: the program that the package carries (docs/reference/cli.md)."""

import os
import sys
from pathlib import Path
from typing import NoReturn

from remora import _highs


def main() -> NoReturn:
    """Becomes the program, with these arguments and the package's HiGHS unless ``REMORA_HIGHS`` says otherwise."""
    if library := _highs.library():
        os.environ.setdefault("REMORA_HIGHS", library)
    os.execv(Path(__file__).with_name("bin") / "remora", ["remora", *sys.argv[1:]])


if __name__ == "__main__":
    main()
