# SPDX-License-Identifier: Apache-2.0
"""Time of a kernel that Inductor wrote in C++, read from its source: it is not compiled for that.

The source names the trips of each loop. Operations and bytes that a loop moves are counted, and what takes longer by
far: functions like `exp`, random numbers, masks that are read or written as truth values, and tiles that are
transposed.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable

PARTS = {"plain": 0.08, "hard": 3.0, "random": 7.3, "mask": 10.0, "written mask": 100.0, "tile": 30.0}
"""Nanoseconds of one of each, on vectors; random numbers come one by one."""
BYTE, CALL = 0.008, 500.0
"""Nanoseconds of a byte that is read or written, and of a call."""

_FOUND = {
    "plain": re.compile(r"\bauto tmp\d+ =|\.store\(|\] = |\btmp_acc\w+ ="),
    "hard": re.compile(r"\b(?:exp|erf|tanh|log|sin|cos|pow)\w*\("),
    "random": re.compile(r"\b(?:normalized_rand|randn|randint64)_cpu\("),
    "mask": re.compile(r"\bVecMask<\S+::from\(\w*ptr\d"),
    "tile": re.compile(r"\btranspose_mxn<"),
}
_LOOP = re.compile(r"\bfor\( ?int64_t (\w+) ?= ?(.*?); \1 ?< ?(.*?); \1(?:\+=(.*)|\+\+ )\)\s*$")
_TRUTH = re.compile(r"\bbool\* (\w+)")
_SIZE = re.compile(r"\bint64_t (\w+)\s*[,)]")
_SIGNS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,
}
_NUMBER = re.compile(r"(\d)LL?\b")


def nanoseconds_of(source: str, sizes: list[int], moved: int) -> int:
    """The time of a kernel by its source, its whole numbers among the arguments, and the bytes that it moves."""
    head = source[: source.find("{")]
    names = dict(zip(_SIZE.findall(head), sizes, strict=False))
    written = re.compile(rf"\.store\((?:{'|'.join(_TRUTH.findall(head)) or '$'})\b")
    patterns = {**_FOUND, "written mask": written}
    trips: list[float] = [1.0]  # of each block that is open
    found = dict.fromkeys(PARTS, 0.0)
    following = 1.0  # trips of the block that opens next
    for line in source.splitlines():
        loop = _LOOP.search(line)
        if loop:
            following = _trips(*(_value(part, names) for part in loop.groups("1")[1:]))
        elif "C10_UNLIKELY" in line:  # what a loop leaves over
            following = 0.0
        for part, pattern in patterns.items():
            found[part] += len(pattern.findall(line)) * trips[-1]
        for sign in line:
            if sign == "{":
                trips.append(trips[-1] * following)
                following = 1.0
            elif sign == "}" and len(trips) > 1:
                trips.pop()
    return round(CALL + BYTE * moved + sum(PARTS[part] * count for part, count in found.items()))


def _trips(first: float | None, last: float | None, step: float | None) -> float:
    return 1.0 if first is None or last is None or not step else max(0.0, (last - first) / step)


def _value(text: str, names: dict[str, int]) -> float | None:
    """A bound or a step of a loop; None where it is no arithmetic of numbers and sizes."""
    plain = _NUMBER.sub(r"\1", text).replace("static_cast<int64_t>", "").replace("c10::div_floor_integer", "_div")
    try:
        return _worth(ast.parse(plain.strip(), mode="eval").body, names)
    except (KeyError, SyntaxError, ZeroDivisionError):
        return None


def _worth(tree: ast.expr, names: dict[str, int]) -> float:
    match tree:
        case ast.Constant(value=int() as number):
            return number
        case ast.Name(id=name):
            return names[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_worth(operand, names)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _SIGNS:
            return _SIGNS[type(op)](_worth(left, names), _worth(right, names))
        case ast.Call(func=ast.Name(id="_div"), args=[above, below]):
            return _worth(above, names) // _worth(below, names)
    raise KeyError(ast.unparse(tree))
