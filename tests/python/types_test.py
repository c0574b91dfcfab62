# SPDX-License-Identifier: Apache-2.0
"""Type checkers and linters find nothing in the package, its examples and these tests."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import typing
from pathlib import Path

import pytest

import remora
from remora import limits

ROOT = Path(os.environ["REMORA_ROOT"])
PACKAGE = ROOT / "frontends/python/remora"
EXAMPLES = ROOT / "examples/python"
HERE = Path(__file__).parent


def run(*command: str | Path) -> None:
    paths = os.environ["PYTHONPATH"], str(ROOT / "benchmarks/lanes")
    environment = dict(os.environ, MYPYPATH=os.pathsep.join(paths))
    done = subprocess.run(
        [sys.executable, "-m", *map(str, command)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=environment,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_package_is_typed(tmp_path: Path) -> None:
    assert (PACKAGE / "py.typed").exists()
    run("mypy", "--config-file", "pyproject.toml", "--cache-dir", tmp_path, "-p", "remora")


def test_examples_and_tests_are_typed(tmp_path: Path) -> None:
    files = [*sorted(EXAMPLES.glob("*.py")), *sorted(HERE.glob("*.py"))]
    assert len(files) > len(list(HERE.glob("*.py")))
    run("mypy", "--config-file", "pyproject.toml", "--cache-dir", tmp_path, *files)


def test_a_wrong_call_is_found(tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text("import remora\nremora.solve(remora.Graph('g'), [3])\n")
    with pytest.raises(AssertionError, match="No overload variant"):
        run("mypy", "--strict", "--cache-dir", tmp_path, tmp_path / "wrong.py")


def test_linted() -> None:
    places = [PACKAGE, HERE, EXAMPLES]
    run("ruff", "check", "--no-cache", *places)
    run("ruff", "format", "--no-cache", "--check", *places)


def test_everything_public_is_documented() -> None:
    for name in remora.__all__:
        thing = getattr(remora, name)
        if not callable(thing) or typing.get_origin(thing) is not None:  # the name of a type has no docstring
            continue
        assert thing.__doc__, name
        for key, member in vars(thing).items() if isinstance(thing, type) else ():
            if not key.startswith("_") and (callable(member) or isinstance(member, property)):
                assert member.__doc__, f"{name}.{key}"


def modules() -> dict[str, ast.Module]:
    """The package's modules by name, those of remora.torch included."""
    files = sorted(PACKAGE.rglob("*.py"))
    names = ["remora." + ".".join(file.relative_to(PACKAGE).with_suffix("").parts) for file in files]
    return {name: ast.parse(file.read_text()) for name, file in zip(names, files, strict=True)}


# Modules for PyTorch: its own insides are private, too, and what a program needs of it is imported where it is used.
FOR_TORCH = ("remora.executorch.", "remora.torch.", "remora.torchtitan.", "remora.fit")


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def test_nothing_private_of_one_module_is_used_by_another() -> None:
    for module, tree in modules().items():
        nodes = list(ast.walk(tree))
        own = {n.name for n in nodes if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
        own |= {n.id for n in nodes if isinstance(n, ast.Name)}
        own |= {n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)}
        for node in nodes:
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id in ("self", "cls")
            ):
                own.add(node.attr)
        for node in nodes:
            if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").startswith("remora.")):
                assert not [a.name for a in node.names if is_private(a.name)], f"{module}:{node.lineno}"
            if module.startswith(FOR_TORCH) or not isinstance(node, ast.Attribute) or not is_private(node.attr):
                continue
            assert node.attr in own, f"{module}:{node.lineno}: {node.attr}"


def test_no_module_imports_itself_through_others() -> None:
    """What is imported for type checkers alone makes no circle; inside of functions nothing of the package is."""
    imported: dict[str, set[str]] = {}
    for module, tree in modules().items():
        if module.startswith(FOR_TORCH) or module.endswith("__"):
            continue
        imported[module] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "remora":
                assert not is_in_function(tree, node), f"{module}:{node.lineno}"
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "remora":
                names = [f"remora.{a.name}" for a in node.names] if node.module == "remora" else [str(node.module)]
                imported[module].update(names)
    assert imported["remora.solving"] >= {"remora.limits", "remora.schedule"}
    while imported:  # takes away what imports nothing that is left
        free = [module for module, needed in imported.items() if needed.isdisjoint(imported)]
        assert free, f"a circle among {', '.join(imported)}"
        for module in free:
            del imported[module]


def is_in_function(tree: ast.Module, node: ast.AST) -> bool:
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    return any(node in ast.walk(function) for function in functions)


def test_keywords_are_the_options() -> None:
    assert {option.name for option in remora.options()} == set(limits.OptionWords.__annotations__)
