# SPDX-License-Identifier: Apache-2.0
"""The installed programs find what belongs to them, and every link of the installed documentation leads to a file."""

import pathlib
import re
import sys
import tempfile

from installed import (
    Installed,
    programs_find_their_own,
    shells_and_man_know_every_command,
    skip_under_sanitizers,
    the_pass_works,
)

LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def links_lead_somewhere(documentation):
    pages = sorted(documentation.rglob("*.md"))
    assert len(pages) > 30, pages
    dead = [
        f"{page.relative_to(documentation)}: {link}"
        for page in pages
        for link in LINK.findall(page.read_text(encoding="utf-8"))
        if "://" not in link and not (page.parent / link).exists()
    ]
    assert not dead, dead
    return len(pages)


def main():
    skip_under_sanitizers()
    installed = Installed(sys.argv[1:])
    pages = links_lead_somewhere(installed.prefix / "share/doc/remora")
    with tempfile.TemporaryDirectory() as folder:
        programs_find_their_own(installed.prefix, pathlib.Path(folder))
        has_run = the_pass_works(
            installed.library.parent / "remora/libremora_mlir.so", installed.prefix, pathlib.Path(folder)
        )
    shells_and_man_know_every_command(installed.prefix)
    suites = list((installed.prefix / "share/remora/benchmarks/suites").glob("*.json"))
    assert len(suites) == len(list((installed.source / "benchmarks/suites").glob("*.json"))), suites
    print(f"{pages} pages, {len(suites)} suites, the MLIR pass {'runs' if has_run else 'is not there'}")


main()
