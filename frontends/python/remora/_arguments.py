# SPDX-License-Identifier: Apache-2.0
"""Arguments as the engine takes them, or an exception that says which one is wrong."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from operator import index
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar

from remora import _engine
from remora.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

Budget = int | float | str
"""Bytes (fixed memory included; a float is rounded down), or text: ``"12GiB"``, ``"60%"`` of the input order's peak
above fixed memory."""

_MOST = 2**63 - 1
_MOST_COUNT = 2**31 - 1


def integer(value: SupportsIndex, place: str, most: int = _MOST) -> int:
    """The value as an int from 0 to `most`; numpy's integers will do."""
    try:
        number = index(value)
    except TypeError:
        advice = "; count it in a smaller unit, as nanoseconds, or round it" if isinstance(value, float) else ""
        raise TypeError(f"{place}: must be an integer, not {type(value).__name__}{advice}") from None
    if number < 0:
        raise InputError(place, f"must not be negative, but is {number}")
    if number > most:
        raise InputError(place, f"must be at most {most}, but is {number}")
    return number


def signed(value: SupportsIndex, place: str) -> int:
    """The value as an int of 64 bits."""
    try:
        number = index(value)
    except TypeError:
        raise TypeError(f"{place}: must be an integer, not {type(value).__name__}") from None
    if not -(2**63) <= number < 2**63:
        raise InputError(place, f"is beyond 64 bits: {number}")
    return number


def count(value: SupportsIndex | None, place: str) -> int | None:
    """How often something may happen: 1 and up; None stays None."""
    if value is None:
        return None
    number = integer(value, place, _MOST_COUNT)
    if number < 1:
        raise InputError(place, f"must be at least 1, but is {number}")
    return number


def string(value: str, place: str) -> str:
    """The value, if it is text that can be written as UTF-8."""
    if not isinstance(value, str):
        raise TypeError(f"{place}: must be a str, not {type(value).__name__}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InputError(place, f"{value!r} is not valid Unicode") from None
    return value


def boolean(value: bool, place: str) -> bool:
    """The value, if it is True or False."""
    if value is True or value is False:
        return value
    raise TypeError(f"{place}: must be True or False, not {type(value).__name__}")


def budget_text(value: Budget, place: str = "budget") -> str:
    """The budget as the engine reads it."""
    if isinstance(value, str):
        return string(value, place)
    if isinstance(value, bool) or not (isinstance(value, float) or hasattr(value, "__index__")):
        raise TypeError(f"{place}: must be bytes (int) or text such as '60%' or '12GiB', not {type(value).__name__}")
    if isinstance(value, float):
        if not 1 <= value < 2**63:
            part = f"; did you mean '{100 * value:g}%'?" if 0 < value < 1 else ""
            raise InputError(place, f"{value!r} is not a number of bytes{part}")
        value = int(value)
    return f"{integer(value, place)}B"


def budget_bytes(value: Budget, fixed: int, peak: int, place: str = "budget") -> int:
    """The budget in bytes; a percentage is of `peak` above `fixed`."""
    try:
        return int(_engine.parse_budget(budget_text(value, place), fixed, peak))
    except InputError as error:
        raise InputError(place, error.message) from None


def option_text(name: str, value: Any) -> str:
    """An option's value as the engine reads it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, str):
        return string(value, name)
    if isinstance(value, float):
        # The engine's "no limit" is the largest number that it takes.
        return "1000000000" if value == float("inf") else repr(value)
    try:
        return str(index(value))
    except TypeError:
        raise TypeError(f"{name}: must be a number, text or a bool, not {type(value).__name__}") from None


def file_path(value: str | os.PathLike[str], place: str = "path") -> str:
    """The path as text."""
    try:
        path = os.fspath(value)
    except TypeError:
        raise TypeError(f"{place}: must be a path, not {type(value).__name__}") from None
    if not isinstance(path, str):
        raise TypeError(f"{place}: must be a path in text, not {type(path).__name__}")
    return path


def read_file(path: str | os.PathLike[str], read: Callable[[bytes], T]) -> T:
    """Returns `read` of the file's bytes; its errors name the file."""
    place = file_path(path)
    with open(place, "rb") as file:
        content = file.read()
    try:
        return read(content)
    except InputError as error:
        raise InputError(place, str(error)) from None


def file_text(path: str | os.PathLike[str]) -> tuple[str, str]:
    """The file's path and its text; InputError where it is not UTF-8."""
    place = file_path(path)
    with open(place, "rb") as file:
        content = file.read()
    try:
        return place, content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(place, f"is no text in UTF-8: {error}") from None


def text_bytes(text: str | bytes, what: str = "text") -> bytes:
    """The text of a file as the engine reads it."""
    if isinstance(text, str):
        text = string(text, "$").encode()
    if not isinstance(text, bytes):
        raise TypeError(f"$: must be {what}, not {type(text).__name__}")
    return text


def json_bytes(source: str | bytes | Mapping[str, Any]) -> bytes:
    """The text of a file, or a dict as `json.load` gives it, as the engine reads it."""
    if isinstance(source, Mapping):
        try:
            source = json.dumps(dict(source))
        except (TypeError, ValueError) as error:
            raise InputError("$", f"cannot be written as JSON: {error}") from None
    return text_bytes(source, "text or a dict")


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Writes a file entirely or not at all: under a temporary name next to it, then renamed.

    InputError for the name of an ONNX model, which no text is.
    """
    if file_path(path).lower().endswith(".onnx"):
        raise InputError(file_path(path), "would be no ONNX model; name another file")
    target = os.path.realpath(file_path(path))
    if not os.path.exists(target) or os.path.isfile(target):
        temporary = f"{target}.{os.getpid()}.part"
        try:
            with open(temporary, "x", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            if os.path.exists(target):
                os.chmod(temporary, os.stat(target).st_mode & 0o7777)
            os.replace(temporary, target)
        except BaseException as error:
            if os.path.exists(temporary):
                os.unlink(temporary)
            if isinstance(error, OSError) and error.filename == temporary:
                error.filename = path
            raise
    else:
        with open(target, "w", encoding="utf-8") as file:
            file.write(text)
