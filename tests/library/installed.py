# SPDX-License-Identifier: Apache-2.0
"""What the tests of the installed library share: PREFIX SOURCE_FOLDER C_COMPILER CXX_COMPILER as arguments."""
import os
import pathlib
import subprocess
import sys


def skip_under_sanitizers():
    if os.environ.get("REMORA_SANITIZE"):
        print("skipped: built with sanitizers, which a program without them can't load")
        sys.exit(77)


class Installed:
    def __init__(self, arguments):
        if len(arguments) != 4:
            sys.exit(__doc__)
        self.prefix = pathlib.Path(arguments[0])
        self.source = pathlib.Path(arguments[1])
        self.c_compiler, self.cxx_compiler = arguments[2:]
        self.include = self.prefix / "include"
        libraries = list(self.prefix.glob("lib*/**/libremora.so"))
        assert len(libraries) == 1, libraries
        self.library = libraries[0]


def run(command, **options):
    """The program's standard output; fails with what it said if it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, f"{' '.join(words)}: exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout
