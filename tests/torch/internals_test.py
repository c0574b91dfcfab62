# SPDX-License-Identifier: Apache-2.0
"""Whether the private names of PyTorch that remora.torch lists are those that it uses, and exist in this PyTorch."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import remora.torch
from remora.torch.internals import NAMES, Name

FOLDER = Path(remora.torch.__file__).resolve().parent
SOURCES = [p for part in ("torch", "torchtitan", "integrations") for p in sorted((FOLDER.parent / part).rglob("*.py"))]
VERSION = tuple(map(int, re.findall(r"\d+", torch.__version__)[:2]))
PUBLIC = {"_getframe", "_boxed_call"}
"""Of Python, and of ourselves."""


def resolved(name: str) -> tuple[Any, str]:
    """The owner of a name's last part: a module or a class."""
    parts = name.split(".")
    for end in range(len(parts) - 1, 0, -1):
        try:
            owner: Any = importlib.import_module(".".join(parts[:end]))
        except ImportError:
            continue
        for part in parts[end:-1]:
            owner = getattr(owner, part)
        return owner, parts[-1]
    raise AssertionError(f"no module in {name}")


@pytest.mark.parametrize("name", NAMES, ids=lambda name: name.name)
def test_it_exists(name: Name) -> None:
    is_new = tuple(map(int, name.since.split("."))) > VERSION
    if is_new:
        assert name.without, "says what is lost"
        return
    if re.match(r"torch\._C\._(cuda|host)_", name.name) and not torch.backends.cuda.is_built():
        pytest.skip("this PyTorch is built without CUDA")
    owner, attribute = resolved(name.name)
    if not hasattr(owner, attribute):  # an attribute of objects: its class assigns it
        assert inspect.isclass(owner), name.name
        sources = "".join(inspect.getsource(c) for c in owner.__mro__ if c.__module__.startswith("torch"))
        assert re.search(rf"\b{attribute}\b", sources), name.name


def private_names(path: Path) -> Iterator[tuple[str, str]]:
    """Private names of PyTorch in a source, and where: with their modules, or only ".attribute" of an object."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    own = {n.name for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    own |= {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)}
    for node in ast.walk(tree):
        where = f"{path.name}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "torch":
            yield from ((f"{node.module}.{alias.name}", where) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, where) for alias in node.names if alias.name.startswith("torch."))
        elif isinstance(node, ast.Attribute):
            text = ast.unparse(node)
            if re.fullmatch(r"torch(\.\w+)+", text):
                yield text, where
            elif not re.match(r"(self|cls)\.", text) and node.attr not in own:
                yield f".{node.attr}", where


def test_the_sources_use_no_others() -> None:
    listed = {name.name for name in NAMES}
    attributes = {name.rpartition(".")[2] for name in listed} | PUBLIC
    missing = []
    for path in SOURCES:
        for name, where in private_names(path):
            if not re.search(r"\._(?!_)", name):
                continue
            if name.startswith("."):
                is_known = name[1:] in attributes
            else:
                is_known = any(n == name or n.startswith(f"{name}.") or name.startswith(f"{n}.") for n in listed)
            if not is_known:
                missing.append(f"{where}: {name}")
    assert not missing, missing
