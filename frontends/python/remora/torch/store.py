# SPDX-License-Identifier: Apache-2.0
"""Files that Remora keeps between runs: one folder, one digest, and JSON that is written atomically."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from remora._engine import engine_schema


def cache_folder() -> Path:
    """Folder of costs and schedules: `REMORA_CACHE`, or `remora` in the user's cache folder."""
    own = os.environ.get("REMORA_CACHE")
    general = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(own) if own else Path(general) / "remora"


def digest(value: Any) -> str:
    """SHA-256 of bytes, of a text, or of the JSON of anything else."""
    if not isinstance(value, (bytes, str)):
        value = json.dumps(value, default=str)
    return hashlib.sha256(value if isinstance(value, bytes) else value.encode()).hexdigest()


def answer_file(kind: str, *question: Any) -> Path:
    """File of the engine's answer to a question; an engine that answers differently has another one."""
    return cache_folder() / kind / f"{digest([engine_schema(), *question])}.json"


def read_json(path: Path) -> dict[str, Any]:
    """Contents of a file; empty if there is none."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def write_json(path: Path, value: Any) -> None:
    """Writes a file atomically, so that no other process reads half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as draft:
        draft.write(json.dumps(value))
    os.replace(draft.name, path)
