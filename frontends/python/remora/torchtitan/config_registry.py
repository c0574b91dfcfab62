# SPDX-License-Identifier: Apache-2.0
"""torchtitan's graph trainer's configurations by their names, with `CompileConfig` as their `compile`.

torchtitan looks configurations up by name in the module that `--module` names.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import pkgutil
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from torchtitan.experiments import graph_trainer

from remora.torchtitan import CompileConfig


@functools.cache
def _found() -> dict[str, Callable[[], Any]]:
    """The functions that make configurations, by name."""
    names = [f"{graph_trainer.__name__}.{m.name}" for m in pkgutil.iter_modules(graph_trainer.__path__) if m.ispkg]
    rows: dict[str, Callable[[], Any]] = {}
    for name in names:
        if importlib.util.find_spec(f"{name}.config_registry") is None:
            continue
        module = importlib.import_module(f"{name}.config_registry")
        own = {k: v for k, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__ and callable(v)}
        rows |= {k: v for k, v in own.items() if not k.startswith("_")}
    return rows


def __dir__() -> list[str]:
    return sorted(_found())


def __getattr__(name: str) -> Callable[[], Any]:
    if name.startswith("_") or name not in _found():
        raise AttributeError(f"torchtitan's graph trainer has no configuration {name!r}")

    def configuration() -> Any:
        config = _found()[name]()
        given = {f.name: getattr(config.compile, f.name) for f in fields(config.compile) if f.init}
        config.compile = CompileConfig(**{**given, "memory_policy": "remora"})
        return config

    return configuration
