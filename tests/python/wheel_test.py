# SPDX-License-Identifier: Apache-2.0
"""The wheel: what is in it, that it needs nothing of this machine, and that it goes without a trace."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(os.environ["REMORA_ROOT"])
HIDDEN = re.compile(
    r"lib(gecode|tbb|Cbc|Clp|Cgl|Osi|CoinUtils|lapack|blas|gfortran|onnx|protobuf|boost_program_options|crypto)"
)


def run(*command: str | Path, **environment: str) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        check=False,
        env={**clean, "PATH": path, **environment},
        timeout=850,
    )
    assert done.returncode == 0, f"{command}: {done.stdout[-4000:]}{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built by one command, then repaired: what it needs is in it."""
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", ROOT, "--no-deps", "--no-build-isolation", "--no-index", "-w", folder)
    (built,) = folder.glob("remora-*.whl")
    run("auditwheel", "repair", built, "-w", folder / "repaired")
    (repaired,) = (folder / "repaired").glob("remora-*.whl")
    return repaired


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", folder)
    return folder


def files_of(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*") if "__pycache__" not in path.parts and path.suffix != ".pyc"}


def test_what_is_in_it(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        archive.extractall(tmp_path)
    assert {"remora/__init__.py", "remora/py.typed", "remora/_engine.pyi", "remora/onnx/__main__.py"} <= names
    assert not [name for name in names if "__pycache__" in name or "/tests/" in name]
    assert [name for name in names if "libtbb" in name], names
    assert {
        "remora/bin/remora",
        "remora/bin/remora_zoo",
    } <= (names)
    assert not [name for name in names if "crypto" in name]
    notices = next(path for path in tmp_path.glob("*.dist-info/**/*") if path.name == "third_party.md").read_text()
    libraries = [path.name for path in (tmp_path / "remora.libs").iterdir()]
    assert not [name for name in libraries if name.split("-")[0] not in notices], libraries
    bill = json.loads(run(sys.executable, ROOT / "scripts" / "make_sbom", wheel))
    carried = [one["relatedSpdxElement"] for one in bill["relationships"] if one["relationshipType"] == "CONTAINS"]
    versions = {package["SPDXID"]: package.get("versionInfo") for package in bill["packages"]}
    assert carried and all(versions[one] for one in carried), "each has its package and version"
    (extension,) = (tmp_path / "remora").glob("_engine*.so")
    shown = run("nm", "--dynamic", "--defined-only", extension).split()[2::3]
    assert shown == ["PyInit__engine"]
    if sys.version_info >= (3, 12):
        assert "abi3" in wheel.name
        assert extension.name == "_engine.abi3.so"


SOLVE = """
import remora
g = remora.Graph("figure-1")
a = g.op("A", duration=1, outputs={"a": 1})
b, c = (g.op(name.upper(), duration=1, inputs=[a], outputs={name: 1}) for name in "bc")
d = g.op("D", duration=1, inputs=[b, c], outputs={"d": 1})
g.op("E", duration=1, inputs=[a, d], outputs={"e": 1}, keep=True)
s = remora.solve(g, 3, time_limit=20, threads=2)
assert s.status == "optimal" and s.overhead == 0.2, s
s.report("page.html")
mapped = {line.split()[-1] for line in open("/proc/self/maps") if ".so" in line}
used = [path for path in mapped if path.startswith(("/usr/lib", "/lib")) and HIDDEN.search(path)]
assert not used, used
print("solved")
"""


def test_it_runs_where_nothing_is_installed(wheel: Path, environment: Path, tmp_path: Path) -> None:
    before = files_of(environment)
    python = environment / "bin" / "python"
    run(python, "-m", "pip", "install", "--no-index", "--no-deps", wheel)
    script = tmp_path / "solve.py"
    script.write_text(f"import re\nHIDDEN = re.compile({HIDDEN.pattern!r})\n{SOLVE}")
    (tmp_path / "empty").touch()
    # A namespace of its own, in which an empty file covers each of those libraries: the loader takes it for broken.
    cover = f"""
set -e
cd {tmp_path}
find -L /usr/lib /usr/local/lib /lib -regextype posix-extended -type f \\
  -regex '.*/{HIDDEN.pattern}[^/]*\\.so[^/]*' 2>/dev/null | sort -u > covered || true
while read -r file; do mount --bind empty "$file"; done < covered
test -s covered
! {sys.executable} -c 'import ctypes; ctypes.CDLL("libgecodekernel.so")' 2>/dev/null
{python} -I solve.py
{environment}/bin/remora_zoo unet --size 32 -o u.onnx > /dev/null
{environment}/bin/remora solve u.onnx --training -b 60% --work-limit 1000 -q -o s.json
{python} -I -m remora verify u.onnx --training s.json
{environment}/bin/remora fit u.onnx --training --device rtx-4090 --work-limit 300 -q -o fit.json
test -s fit.json
{environment}/bin/remora info u.onnx --device nowhere && exit 1 || test $? = 64
"""
    words = ["unshare", "--mount", "--propagation", "private"]
    if os.getuid() != 0:
        words.insert(1, "--map-root-user")
    if shutil.which("unshare") is None or subprocess.run([*words, "true"], check=False).returncode != 0:
        pytest.skip("no mount namespace may be made here (unshare)")
    said = run(*words, "bash", "-c", cover).split()
    assert said[0] == "solved" and said[2:4] == ['"valid":', "true,"], said
    run(python, "-m", "pip", "uninstall", "--yes", "remora")
    assert files_of(environment) == before
