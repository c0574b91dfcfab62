# SPDX-License-Identifier: Apache-2.0
"""What the tests of the installed library share: PREFIX SOURCE_FOLDER C_COMPILER CXX_COMPILER as arguments."""

import os
import pathlib
import re
import shutil
import subprocess
import sys


def skip_under_sanitizers():
    if os.environ.get("REMORA_SANITIZE"):
        print("skipped: built with sanitizers, which a program without them can't load")
        sys.exit(77)


def version_of(source):
    """The version, from the one place where it stands."""
    text = (pathlib.Path(source) / "CMakeLists.txt").read_text(encoding="utf-8")
    return re.search(r"project\(remora VERSION ([0-9.]+)", text)[1]


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


def with_programs(prefix):
    return dict(os.environ, PATH=f"{prefix / 'bin'}{os.pathsep}{os.environ['PATH']}")


def programs_find_their_own(prefix, folder):
    """Suites and devices by name; the zoo's model is one that remora reads. From a folder of its own."""
    asked = {"cwd": folder, "env": with_programs(prefix)}
    run([prefix / "bin/remora_zoo", "unet", "--size", "32", "-o", "u.onnx"], **asked)
    for device in ("rtx-3090", "cpu-2-cores-avx2"):
        assert "ops" in run([prefix / "bin/remora", "info", "u.onnx", "--training", "--device", device], **asked)
    run([prefix / "bin/remora_bench", "quick", "--no-runs", "-o", "bench"], **asked)
    assert "# Suite quick" in (folder / "bench/README.md").read_text(encoding="utf-8")


def shells_and_man_know_every_command(prefix):
    """A manual page for each command, in which groff finds no fault; bash completes with the installed script; the others are there."""
    environment = with_programs(prefix)
    offered = run(
        [
            "bash",
            "-c",
            'source "$0"; COMP_WORDS=(remora ""); COMP_CWORD=1; compopt() { :; }; _remora; echo "${COMPREPLY[@]}"',
            prefix / "share/bash-completion/completions/remora",
        ],
        env=environment,
    ).split()
    assert {"solve", "sweep", "report", "place"} <= set(offered), offered
    pages = prefix / "share/man/man1"
    without = {"help", "completions"}
    missing = {name for name in offered if name not in without and not (pages / f"remora-{name}.1").exists()}
    assert not missing and (pages / "remora.1").exists(), missing
    if shutil.which("groff"):
        for page in pages.glob("*.1"):
            words = subprocess.run(["groff", "-man", "-Tutf8", "-ww", page], capture_output=True, text=True, check=True)
            assert not words.stderr and "SYNOPSIS" in re.sub(r".\x08|\x1b\[[0-9;]*m", "", words.stdout), (
                page,
                words.stderr,
            )
    for place in ("zsh/site-functions/_remora", "fish/vendor_completions.d/remora.fish"):
        assert "remora --help-words" in (prefix / "share" / place).read_text(encoding="utf-8"), place


def the_pass_works(plugin, prefix, folder):
    """The installed plugin in mlir-opt, as docs/guide/mlir.md uses it; False where there is none of the two."""
    if not plugin.exists() or shutil.which("mlir-opt-19") is None:
        return False
    run([prefix / "share/doc/remora/examples/mlir/make_network", "unet", "-o", folder / "network.mlir"])
    done = run(
        [
            "mlir-opt-19",
            folder / "network.mlir",
            f"--load-pass-plugin={plugin}",
            "--pass-pipeline=builtin.module(one-shot-bufferize{bufferize-function-boundaries "
            "function-boundary-type-conversion=identity-layout-map},"
            "func.func(remora-rematerialize{memory-budget=80% work-limit=2000}))",
        ]
    )
    assert "func.func" in done
    return True
