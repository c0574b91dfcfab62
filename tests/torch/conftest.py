# SPDX-License-Identifier: Apache-2.0
"""One thread, deterministic kernels, and a cache of this run's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def deterministic(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Everything below is compared bit by bit."""
    import os

    os.environ.setdefault("REMORA_CACHE", str(tmp_path_factory.mktemp("cache")))
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Each test captures anew, with the same weights each time."""
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()
