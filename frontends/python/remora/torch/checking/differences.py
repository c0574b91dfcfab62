# SPDX-License-Identifier: Apache-2.0
"""Differences between the outcomes of two runs, by how much, and if two runs of plain eager differ as much."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from ..state import Outcome, same
from ..walk import Kind

ROUNDED = 64
"""A sum over slices may be off by so many units of the last place of the largest number."""
FAR = 10.0
"""A difference is wrong, though two eager runs differ there, if it is so many times as large as theirs."""


@dataclass(frozen=True)
class Difference:
    """Something that the step leaves otherwise than plain eager.

    Attributes
    ----------
    kind : Kind
    name : str
        "layers.0.weight"; of a result its number.
    size : float
        The largest difference of two numbers; infinite where one is missing or has another shape or type.
    spread : float
        The same, between two runs of plain eager. 0 if they agree.
    scale : float
        The largest number of plain eager's.
    text : str
        What differs, if it is not numbers: "None, not a tensor".
    rounded : bool
        Whether slices explain it, whose sums are rounded in another order than plain eager's.
    """

    kind: Kind
    name: str
    size: float
    spread: float = 0.0
    scale: float = 0.0
    text: str = ""
    rounded: bool = False

    @property
    def agrees(self) -> bool:
        """True if two runs of plain eager agree here."""
        return self.spread == 0.0

    @property
    def wrong(self) -> bool:
        """True if this is more than two runs of plain eager differ by, and slices do not explain it."""
        return not self.rounded and self._exceeds

    @property
    def _exceeds(self) -> bool:
        return self.agrees or self.size > FAR * self.spread

    def __str__(self) -> str:
        of = {Kind.RESULT: "result", Kind.GENERATOR: "generator:"}.get(self.kind, f"{self.kind.value} of")
        what = self.text or f"by up to {self.size:.3g}, where the largest number is {self.scale:.3g}"
        why = "sums of slices are rounded otherwise" if self.rounded else "two eager runs differ as much"
        mark = "" if self.wrong else f" ({why})"
        return f"{'state' if self.kind is Kind.STATE else of} {self.name}: {what}{mark}"


def differences(mine: Outcome, plain: Outcome, again: Outcome | None, in_slices: bool = False) -> list[Difference]:
    """Differences between a step's outcome and plain eager's; `again`: of a second run of plain eager.

    `in_slices`: results and gradients may be sums over slices.

    Numbers and lists on which two eager runs do not agree, such as times, are not told.
    """
    found = []
    for kind, name in {**plain, **mine}:
        key = kind, name
        size, text = _apart(mine.get(key, MISSING), plain.get(key, MISSING))
        if size == 0.0:
            continue
        spread = 0.0 if again is None else _apart(again.get(key, MISSING), plain.get(key, MISSING))[0]
        is_tensor = isinstance(plain.get(key), torch.Tensor)
        if kind is Kind.STATE and spread and not is_tensor:
            continue
        scale = _largest(plain[key]) if is_tensor else 0.0
        is_sum = in_slices and kind in (Kind.RESULT, Kind.GRADIENT) and is_tensor and plain[key].is_floating_point()
        rounded = is_sum and size <= ROUNDED * torch.finfo(plain[key].dtype).eps * scale
        found.append(Difference(kind, name, size, spread, scale, text, rounded))
    return found


MISSING = object()


def _apart(mine: Any, plain: Any) -> tuple[float, str]:
    """The largest difference of two values, and a description if they are no numbers."""
    if isinstance(mine, torch.Tensor) and isinstance(plain, torch.Tensor):
        if mine.dtype != plain.dtype or mine.shape != plain.shape:
            return float("inf"), f"{described(mine)}, not {described(plain)}"
        return (0.0, "") if same(mine, plain) else (_distance(mine, plain), "")
    if isinstance(mine, torch.Tensor) or isinstance(plain, torch.Tensor) or mine is MISSING or plain is MISSING:
        return (0.0, "") if mine is plain else (float("inf"), f"{described(mine)}, not {described(plain)}")
    try:
        is_equal = bool(mine == plain) or (mine != mine and plain != plain)
    except Exception:  # of a result that cannot be compared
        is_equal = True
    if is_equal or not isinstance(plain, (bool, int, float, str, bytes, type(None))):
        return 0.0, ""
    if isinstance(plain, bytes):
        return float("inf"), "another state, so later random numbers differ"
    text = f"{mine!r}, not {plain!r}"
    if isinstance(mine, (int, float)) and isinstance(plain, (int, float)):
        return abs(float(mine) - float(plain)), text
    return float("inf"), text


def described(value: Any) -> str:
    """Describes a value in a message: a tensor by shape and type."""
    if isinstance(value, torch.Tensor):
        return f"a tensor {list(value.shape)} of {str(value.dtype).removeprefix('torch.')}"
    return "nothing" if value is MISSING else repr(value)


def _distance(a: torch.Tensor, b: torch.Tensor) -> float:
    """The largest difference; infinite where only one is not a number."""
    x, y = _numbers(a), _numbers(b)
    apart = torch.where((x == y) | (x.isnan() & y.isnan()), 0.0, (x - y).abs())
    return float(apart.nan_to_num(nan=float("inf")).max())


def _largest(tensor: torch.Tensor) -> float:
    return float(_numbers(tensor).abs().nan_to_num().max()) if tensor.numel() else 0.0


def _numbers(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor if tensor.layout == torch.strided else tensor.to_dense()
    return torch.view_as_real(tensor).double() if tensor.is_complex() else tensor.double()
