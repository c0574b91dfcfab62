# SPDX-License-Identifier: Apache-2.0
"""The Python that benchmarks/setup makes, which has matplotlib."""
import os
import sys

FOLDER = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "build", "benchmarks")


def use_environment():
    """Begins again in that Python; goes on in this one where there is none."""
    python = os.path.join(FOLDER, "bin", "python")
    if os.path.exists(python) and not os.path.samefile(sys.prefix, FOLDER):
        os.execv(python, [python, *sys.argv])
