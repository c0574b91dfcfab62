# SPDX-License-Identifier: Apache-2.0
"""A picture of plans: for each a bar of its memory, compared with the device's."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence

from remora._engine import bytes_text

from ._result import FitPlan

COLOURS = ("#4c78a8", "#72b7b2", "#54a24b", "#eeca3b", "#f58518", "#e45756", "#b279a2", "#9d755d", "#bab0ac")
WIDTH, ROW, LEFT = 560, 34, 150


def picture(plans: Sequence[FitPlan]) -> str:
    """An SVG with a bar for each plan, at its highest moment."""
    names = list(dict.fromkeys(name for plan in plans for name, _ in parts(plan)))
    most = max(max(plan.total, plan.budget if plan.budget < 2 * plan.total else 0) for plan in plans)
    height = ROW * len(plans) + 18 * len(names) + 30
    size = f'width="{LEFT + WIDTH + 110}" height="{height}"'
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">']
    for i, plan in enumerate(plans):
        lines += _bar(plan, i, names, WIDTH / max(1, most))
    for i, name in enumerate(names):
        lines += _key(name, i, ROW * len(plans) + 24)
    return "\n".join([*lines, "</svg>", ""])


def parts(plan: FitPlan) -> list[tuple[str, int]]:
    """Memory at the peak, in bytes."""
    found = [(item.name, item.size) for item in plan.items if item.when != "update"]
    rest = plan.total - sum(size for _, size in found)
    return [*found, ("step" if plan.total > plan.update else "gradients and update", rest)]


def _bar(plan: FitPlan, row: int, names: list[str], scale: float) -> Iterator[str]:
    y, x = ROW * row + 8, float(LEFT)
    place = plan.device.name if plan.device is not None else "this machine"
    yield f'<text x="{LEFT - 6}" y="{y + 15}" text-anchor="end">{html.escape(place)}</text>'
    for name, size in parts(plan):
        colour = COLOURS[names.index(name) % len(COLOURS)]
        title = html.escape(f"{name}: {bytes_text(size)}")
        yield (
            f'<rect x="{x:.1f}" y="{y}" width="{size * scale:.1f}" height="20" fill="{colour}">'
            f"<title>{title}</title></rect>"
        )
        x += size * scale
    yield f'<text x="{x + 6:.1f}" y="{y + 15}">{bytes_text(plan.total)}{"" if plan.fits else ", does not fit"}</text>'
    limit = LEFT + plan.budget * scale
    if limit <= LEFT + WIDTH + 1:
        yield f'<path d="M{limit:.1f} {y - 4}v28" stroke="#000" stroke-width="2"><title>budget</title></path>'


def _key(name: str, row: int, top: int) -> Iterator[str]:
    y = top + 18 * row
    yield f'<rect x="{LEFT}" y="{y - 10}" width="12" height="12" fill="{COLOURS[row % len(COLOURS)]}"/>'
    yield f'<text x="{LEFT + 18}" y="{y}">{html.escape(name)}</text>'
