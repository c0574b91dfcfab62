# SPDX-License-Identifier: Apache-2.0
"""cpack's Debian packages: what they hold and need, and that dpkg installs and removes them without a trace.

dpkg works on a folder of its own, so nothing is installed on this machine.
"""

import os
import pathlib
import shutil
import sys
import tempfile

from installed import (
    programs_find_their_own,
    run,
    shells_and_man_know_every_command,
    skip_under_sanitizers,
    the_pass_works,
    version_of,
)


def field(package, name):
    return run(["dpkg-deb", "--field", package, name]).strip()


def dpkg(root, *words):
    # What the packages need is on this machine, not in the folder.
    return run(
        [
            "dpkg",
            f"--instdir={root}",
            f"--admindir={root}/var/lib/dpkg",
            f"--log={root}/dpkg.log",
            "--force-not-root",
            "--force-script-chrootless",
            "--force-depends",
            *words,
        ]
    )


def files_in(root):
    return {str(path.relative_to(root)) for path in (root / "usr").rglob("*") if not path.is_dir()}


def check_needs(packages, version):
    runtime, library, development = (packages[name] for name in ("remora", f"libremora{version}", "libremora-dev"))
    assert "libgecode" in field(runtime, "Depends") and "libgecode" in field(library, "Depends")
    assert f"libremora{version} (= " in field(development, "Depends")
    for package in (runtime, library):
        for need in field(package, "Depends").split(","):
            name = need.split("(")[0].split("|")[0].strip()
            assert "installed" in run(["dpkg-query", "--show", "--showformat=${Status}", name]), name


def highs_comes_along(build, root):
    if not (build / "lib/remora/libhighs.so").exists():
        print("a build without HiGHS")
        return
    alone = {name: value for name, value in os.environ.items() if name != "REMORA_HIGHS"}
    assert "with HiGHS 1." in run([root / "usr/bin/remora", "--version"], env=alone)
    os.rename(root / "usr/lib/remora/libhighs.so", root / "elsewhere.so")
    assert "libhighs.so is not there" in run([root / "usr/bin/remora", "--version"], env=alone)
    os.rename(root / "elsewhere.so", root / "usr/lib/remora/libhighs.so")


def main():
    skip_under_sanitizers()
    for tool in ("dpkg", "dpkg-deb", "dpkg-shlibdeps"):
        if shutil.which(tool) is None:
            print(f"skipped: no {tool} here (Debian's dpkg-dev)")
            sys.exit(77)
    build, cpack = sys.argv[1:]
    version = version_of(pathlib.Path(__file__).parents[2]).rpartition(".")[0]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        # Packed quickly: what is looked at is what is inside.
        run(
            [
                cpack,
                "-G",
                "DEB",
                "-D",
                "CPACK_DEBIAN_COMPRESSION_TYPE=gzip",
                "--config",
                f"{build}/CPackConfig.cmake",
                "-B",
                folder / "made",
            ]
        )
        packages = {field(path, "Package"): path for path in (folder / "made").glob("*.deb")}
        assert {"remora", f"libremora{version}", "libremora-dev"} <= set(packages), packages
        check_needs(packages, version)

        root = folder / "root"
        for inside in ("var/lib/dpkg/info", "var/lib/dpkg/updates", "usr"):
            os.makedirs(root / inside)
        (root / "var/lib/dpkg/status").touch()
        dpkg(root, "--install", *packages.values())
        files = files_in(root)
        for wanted in (
            "usr/bin/remora",
            f"usr/lib/libremora.so.{version}",
            "usr/lib/libremora.so",
            "usr/include/remora.h",
            "usr/include/remora/remora.hpp",
            "usr/include/remora_c.hpp",
            "usr/bin/remora_zoo",
            "usr/bin/remora_bench",
            "usr/share/remora/benchmarks/suites/quick.json",
            "usr/share/doc/remora/README.md",
            "usr/share/doc/remora/docs/reference/formats.md",
            "usr/lib/pkgconfig/remora.pc",
            "usr/lib/cmake/remora/remora-config.cmake",
            "usr/share/doc/remora/copyright",
            f"usr/share/doc/libremora{version}/copyright",
            "usr/share/doc/remora/docs/develop/third_party.md",
            f"usr/share/doc/libremora{version}/third_party.md",
        ):
            assert wanted in files, (wanted, files)
        assert run([root / "usr/bin/remora", "--version"]).startswith("remora "), "does not run"
        highs_comes_along(pathlib.Path(build), root)
        programs_find_their_own(root / "usr", folder)
        shells_and_man_know_every_command(root / "usr")
        has_run = the_pass_works(root / "usr/lib/remora/libremora_mlir.so", root / "usr", folder)
        assert has_run or "remora-mlir" not in packages or shutil.which("mlir-opt-19") is None
        dpkg(root, "--purge", *packages)
        assert not (left := files_in(root)), left
    print(f"{len(files)} files of {len(packages)} packages")


main()
