# SPDX-License-Identifier: Apache-2.0
"""The installed programs find what belongs to them, and every link of the installed documentation leads to a file."""
import os
import pathlib
import re
import sys
import tempfile

from installed import Installed, run, skip_under_sanitizers

LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def links_lead_somewhere(documentation):
    pages = sorted(documentation.rglob("*.md"))
    assert len(pages) > 30, pages
    dead = [f"{page.relative_to(documentation)}: {link}" for page in pages for link in LINK.findall(page.read_text(encoding="utf-8"))
            if "://" not in link and not (page.parent / link).exists()]
    assert not dead, dead
    return len(pages)


def programs_find_their_own(programs, folder):
    """Suites and device files by name; the zoo's model is one that remora reads. From a folder of its own."""
    path = dict(os.environ, PATH=f"{programs}{os.pathsep}{os.environ['PATH']}")
    asked = {"cwd": folder, "env": path}
    run([programs / "remora_zoo", "unet", "--size", "32", "-o", "u.onnx"], **asked)
    assert "ops" in run([programs / "remora", "info", "u.onnx", "--training", "--device", "rtx-3090"], **asked)
    run([programs / "remora_bench", "quick", "--no-runs", "-o", "bench"], **asked)
    assert "# Suite quick" in (folder / "bench/README.md").read_text(encoding="utf-8")


def main():
    skip_under_sanitizers()
    installed = Installed(sys.argv[1:])
    pages = links_lead_somewhere(installed.prefix / "share/doc/remora")
    with tempfile.TemporaryDirectory() as folder:
        programs_find_their_own(installed.prefix / "bin", pathlib.Path(folder))
    suites = list((installed.prefix / "share/remora/benchmarks/suites").glob("*.json"))
    assert len(suites) == len(list((installed.source / "benchmarks/suites").glob("*.json"))), suites
    print(f"{pages} pages, {len(suites)} suites")


main()
