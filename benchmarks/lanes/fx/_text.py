# SPDX-License-Identifier: Apache-2.0
"""The text of an FX graph: Python source that is parsed, never run.

What is read is what PyTorch's `after_aot` repro files hold: a class `Repro` whose `forward` has one call a line, and a
function `load_args` that states shapes and types of its arguments.
"""

from __future__ import annotations

import ast
import os
from dataclasses import dataclass, field
from typing import Any

from remora._arguments import file_text
from remora.errors import InputError

GETITEM = "getitem"
ATTRIBUTE = "attribute"
"""Kind of an attribute of the class, such as a function of a mask; says nothing of sizes."""


@dataclass(frozen=True)
class Ref:
    """Another node's value, by its name."""

    name: str


@dataclass(frozen=True)
class Node:
    """One line of the text: ``name = target(*args, **kwargs)``, or an item of another node.

    Keywords that read nodes stand behind the other arguments in `args`, too.
    """

    name: str
    target: str
    """As ``aten.mm.default``; `GETITEM` for an item; ``operator.add`` of numbers; `ATTRIBUTE` of the class."""
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(hash=False)
    line: int = field(compare=False)


@dataclass(frozen=True)
class Argument:
    """A tensor that the function takes, or a number."""

    shape: tuple[int | None, ...]
    """None: the text gives the size by symbols, so the op that makes the tensor says it."""
    dtype: str
    value: int | None = None
    """The value of a number in the run that the text was written in."""


@dataclass(frozen=True)
class Text:
    """A function of tensors."""

    path: str
    arguments: dict[str, Argument]
    """In their order."""
    nodes: list[Node]
    results: list[str | None]


def read_text(path: str | os.PathLike[str]) -> Text:
    """Reads the file.

    Raises
    ------
    InputError
        With the file and the line of what is not understood.
    OSError
        If the file cannot be read.
    """
    place, source = file_text(path)
    try:
        module = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise InputError(place, f"is not Python: {error}") from None
    return _Reader(place, module).text()


def _has_symbols(size: ast.expr) -> bool:
    return any(isinstance(part, ast.Name) for part in ast.walk(size))


class _Reader:
    def __init__(self, path: str, module: ast.Module) -> None:
        self.path, self.module = path, module
        self.known: set[str] = set()

    def fail(self, what: str, at: ast.AST | None = None) -> InputError:
        line = getattr(at, "lineno", None)
        return InputError(f"{self.path}:{line}" if line else self.path, what)

    def text(self) -> Text:
        classes = [n for n in self.module.body if isinstance(n, ast.ClassDef) and n.name == "Repro"]
        functions = [n for n in self.module.body if isinstance(n, ast.FunctionDef) and n.name == "load_args"]
        forwards = [n for c in classes for n in c.body if isinstance(n, ast.FunctionDef) and n.name == "forward"]
        if len(forwards) != 1 or len(functions) != 1:
            raise self.fail("must have one class Repro with a function forward, and one function load_args")
        [forward] = forwards
        names = [argument.arg for argument in forward.args.args[1:]]
        self.known.update(names)
        arguments = self._arguments(functions[0])
        if len(arguments) != len(names):
            raise self.fail(f"forward takes {len(names)} arguments, load_args states {len(arguments)}", forward)
        nodes: list[Node] = []
        for statement in forward.body[:-1]:
            if node := self._node(statement):
                self.known.add(node.name)
                nodes.append(node)
        last = forward.body[-1]
        if not isinstance(last, ast.Return) or last.value is None:
            raise self.fail("forward must end with what it returns", last)
        returned = last.value.elts if isinstance(last.value, (ast.Tuple, ast.List)) else [last.value]
        results = [self._result(value) for value in returned]
        return Text(self.path, dict(zip(names, arguments, strict=True)), nodes, results)

    def _result(self, value: ast.expr) -> str | None:
        read = self._value(value)
        if read is None or isinstance(read, Ref):
            return read.name if read else None
        raise self.fail("what is returned must be a node or None", value)

    def _arguments(self, function: ast.FunctionDef) -> list[Argument]:
        arguments = []
        for statement in function.body:
            call = statement.value if isinstance(statement, ast.Expr) else None
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
                continue
            if call.func.attr == "symint" and len(call.args) == 1:
                arguments.append(Argument((), "int64", int(self._value(call.args[0]))))
                continue
            if call.func.attr != "tensor":
                raise self.fail(f"load_args: reader.{call.func.attr} is not known", statement)
            sizes = call.args[1].elts if isinstance(call.args[1], (ast.Tuple, ast.List)) else [call.args[1]]
            shape = [None if _has_symbols(size) else self._value(size) for size in sizes]
            words = {word.arg: self._value(word.value) for word in call.keywords}
            arguments.append(Argument(tuple(shape), str(words.get("dtype", "torch.float32")).removeprefix("torch.")))
        return arguments

    def _node(self, statement: ast.stmt) -> Node | None:
        """Nothing for ``x = None``, by which the text lets go of what it read last."""
        if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[-1], ast.Name):
            raise self.fail("must be NAME = CALL", statement)
        value, name = statement.value, statement.targets[-1].id
        if isinstance(value, ast.Constant) and value.value is None:
            return None
        if isinstance(value, ast.Subscript):
            return Node(name, GETITEM, (self._value(value.value), self._value(value.slice)), {}, statement.lineno)
        if isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name) and value.value.id == "self":
            return Node(name, ATTRIBUTE, (), {}, statement.lineno)
        if isinstance(value, ast.BinOp):
            both = self._value(value.left), self._value(value.right)
            return Node(name, f"operator.{type(value.op).__name__.lower()}", both, {}, statement.lineno)
        if isinstance(value, ast.Compare) and len(value.ops) == 1:
            both = self._value(value.left), self._value(value.comparators[0])
            return Node(name, f"operator.{type(value.ops[0]).__name__.lower()}", both, {}, statement.lineno)
        if not isinstance(value, ast.Call):
            raise self.fail("must be NAME = CALL", statement)
        target = ast.unparse(value.func).removeprefix("torch.ops.")
        args = tuple(self._value(argument) for argument in value.args)
        kwargs = {word.arg or "**": self._value(word.value) for word in value.keywords}
        args += tuple(kwargs[word.arg or "**"] for word in value.keywords if self._reads(word.value))
        return Node(name, target, args, kwargs, statement.lineno)

    def _value(self, value: ast.expr) -> Any:
        if isinstance(value, ast.Constant):
            return value.value
        if isinstance(value, ast.Name):
            if value.id not in self.known:
                raise self.fail(f"{value.id} is not known here", value)
            return Ref(value.id)
        if isinstance(value, (ast.List, ast.Tuple)):
            return [self._value(item) for item in value.elts]
        if isinstance(value, ast.Dict) and all(isinstance(key, ast.Constant) for key in value.keys):
            rows = zip(value.keys, value.values, strict=True)
            return {key.value: self._value(item) for key, item in rows if isinstance(key, ast.Constant)}
        if (
            isinstance(value, ast.UnaryOp)
            and isinstance(value.op, ast.USub)
            and isinstance(value.operand, ast.Constant)
        ):
            return -value.operand.value  # type: ignore[operator]
        # torch.bfloat16; device(type='cuda', index=0): words of the text that say nothing of shapes.
        if isinstance(value, (ast.Attribute, ast.Call)) and not self._reads(value):
            return ast.unparse(value)
        raise self.fail(f"{ast.unparse(value)[:60]} is not understood", value)

    def _reads(self, value: ast.expr) -> bool:
        return any(isinstance(part, ast.Name) and part.id in self.known for part in ast.walk(value))
