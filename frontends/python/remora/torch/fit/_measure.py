# SPDX-License-Identifier: Apache-2.0
"""Rates of this machine's device, for a file that plans on other machines read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from ..measure import device_name, timed
from ._rates import FitDevice, device_json, known_devices

SIDE = {"cpu": 1024, "cuda": 8192}
"""Sizes of the matrices whose product is timed: they keep every unit busy."""
COPIED = {"cpu": 1 << 26, "cuda": 1 << 30}
"""Bytes that are copied, far more than caches hold."""
MANY = 200
"""Small ops one after the other, whose launches are timed."""


def measure_device(path: str | os.PathLike[str] | None = None, name: str | None = None) -> FitDevice:
    """Measures this machine's GPU, or its CPU where there is none; takes less than two minutes.

    Parameters
    ----------
    path : str or path, optional
        Where the device's file is written; `plan(device=path)` reads it on any machine.
    name : str, optional
        Of the device; by default what the driver calls it.
    """
    place = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with torch.no_grad(), torch.random.fork_rng():
        found = _measured(place, name or device_name(place))
    if path is not None:
        Path(path).write_text(device_json(found), encoding="utf-8")
    return found


def _measured(place: torch.device, name: str) -> FitDevice:
    kinds = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
    side = SIDE[place.type]
    rates = {}
    for word, kind in kinds.items():
        a = torch.ones(side, side, dtype=kind, device=place)
        rates[word] = 2 * side**3 / timed(lambda a=a: a @ a, place)  # type: ignore[misc]
    images = torch.ones(16, 64, 56, 56, device=place)
    weights = torch.ones(64, 64, 3, 3, device=place)
    convolved = 2 * images.numel() * 64 * 9 / timed(lambda: torch.conv2d(images, weights, padding=1), place)
    half = kinds["bf16"] if place.type == "cuda" else kinds["fp32"]
    heads = torch.ones(4, 16, 1024, 64, dtype=half, device=place)
    attended = 4 * 4 * 16 * 1024**2 * 64 / timed(_attention(heads), place)
    many = torch.ones(COPIED[place.type] // 4, device=place)
    into = torch.empty_like(many)
    bandwidth = 2 * many.nbytes / timed(lambda: into.copy_(many), place)
    one = torch.ones((), device=place)
    launch = timed(lambda: _often(one), place) / MANY
    on_gpu = place.type == "cuda"
    of_attention = rates["bf16"] if on_gpu else rates["fp32"]
    shares = {
        "product": 1.0,
        "product-fp32": 1.0,
        "convolution": convolved / rates["fp32"],
        "attention": attended / of_attention,
    }
    any_known = next(iter(known_devices().values()))
    properties: Any = torch.cuda.get_device_properties(place) if on_gpu else None
    return FitDevice(
        name=name,
        memory=int(properties.total_memory) if on_gpu else _memory(),
        bandwidth=bandwidth,
        rates={**rates, "tf32": rates["fp32"]},
        multiprocessors=int(properties.multi_processor_count) if on_gpu else 1,
        launch=min(launch, any_known.launch) if on_gpu else launch,
        host=launch if on_gpu else 0.0,
        context=any_known.context if on_gpu else 0,
        workspaces=any_known.workspaces if on_gpu else 0,
        efficiency={**shares, "memory": 1.0},
        range=(0.5, 2.0),
        fitted=f"single ops measured by remora.torch.measure_device, PyTorch {torch.__version__}",
        source="measured on this machine",
        kind=place.type,
    )


def _attention(heads: torch.Tensor) -> Callable[[], Any]:
    return lambda: torch.nn.functional.scaled_dot_product_attention(heads, heads, heads)


def _often(one: torch.Tensor) -> None:
    for _ in range(MANY):
        one.add_(1.0)


def _memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
